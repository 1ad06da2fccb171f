#include "command.hpp"

#include <CLI/CLI.hpp>

#include "context.hpp"

namespace holdfast::cli {
namespace {

class FixedUsage : public CLI::Formatter {
 public:
  explicit FixedUsage(std::string line) : line_(std::move(line)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return line_; }

 private:
  std::string line_;
};

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::between(int lowest, int highest) {
  option_->check(CLI::Range(lowest, highest));
  return *this;
}

Option& Option::not_empty() {
  option_->check([](const std::string& value) { return value.empty() ? "is empty" : ""; });
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

Command Command::add_command(const std::string& name, const std::string& description) {
  return {*app_->add_subcommand(name, description), *context_};
}

Option Command::add_option(const std::string& names, std::string& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::optional<std::string>& value,
                           const std::string& help) {
  return Option(app_->add_option_function<std::string>(
      names, [&value](const std::string& text) { value = text; }, help));
}

Option Command::add_option(const std::string& names, int& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}

Option Command::add_option(const std::string& names, std::vector<std::string>& values,
                           const std::string& help) {
  return Option(app_->add_option(names, values, help));
}

Option Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void Command::require_subcommand() {
  app_->require_subcommand(1);
}

void Command::usage(std::string line) {
  app_->formatter(std::make_shared<FixedUsage>(std::move(line)));
}

void Command::footer(const std::string& text) {
  app_->footer(text);
}

void Command::action(std::function<int()> run) {
  app_->callback([context = context_, run = std::move(run)] { context->action = run; });
}

}  // namespace holdfast::cli
