#include "arguments/command.hpp"

#include <CLI/CLI.hpp>

namespace holdfast::cli {
namespace {

class FixedUsage : public CLI::Formatter {
 public:
  explicit FixedUsage(std::string line) : line_(std::move(line)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return line_; }

 private:
  std::string line_;
};

/// Adds an option by `add(names)`, after taking the value's name off the end of `spec`.
template <class Add>
Option add_named(const std::string& spec, const Add& add) {
  const auto space = spec.find(' ');
  CLI::Option* const option = add(spec.substr(0, space));
  if (space != std::string::npos) option->type_name(spec.substr(space + 1));
  return Option(option);
}

}  // namespace

Option& Option::required() {
  option_->required();
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
  return {*app_->add_subcommand(name, description), *chosen_};
}

Option Command::add_option(const std::string& names, std::string& value, const std::string& help) {
  return add_named(names, [&](const std::string& name) { return app_->add_option(name, value, help); });
}

Option Command::add_option(const std::string& names, std::optional<std::string>& value,
                           const std::string& help) {
  return add_named(names, [&](const std::string& name) {
    return app_->add_option_function<std::string>(
        name, [&value](const std::string& text) { value = text; }, help);
  });
}

Option Command::add_option(const std::string& names, int& value, const std::string& help) {
  return add_named(names, [&](const std::string& name) { return app_->add_option(name, value, help); });
}

Option Command::add_option(const std::string& names, std::vector<std::string>& values,
                           const std::string& help) {
  return add_named(names, [&](const std::string& name) { return app_->add_option(name, values, help); });
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
  app_->callback([chosen = chosen_, run = std::move(run)] { *chosen = run; });
}

}  // namespace holdfast::cli
