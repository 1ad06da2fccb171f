#include "arguments/command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <string_view>

#include "arguments/values.hpp"
#include "terminal/output.hpp"

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
  // The help shows the range as CLI::Range does; the message quotes the value and names what is allowed.
  const auto from = std::to_string(lowest), to = std::to_string(highest);
  option_->check(CLI::Validator(
      [lowest, highest, from, to](const std::string& value) {
        const auto* const end = value.data() + value.size();
        int number = 0;
        const auto parsed = std::from_chars(value.data(), end, number);
        const bool fits =
            parsed.ec == std::errc() && parsed.ptr == end && number >= lowest && number <= highest;
        return fits ? std::string() : quote(value) + " is not a whole number from " + from + " to " + to;
      },
      "INT in [" + from + " - " + to + "]"));
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

namespace {

bool is_option(std::string_view text) noexcept {
  return text.size() > 1 && text.front() == '-';
}

std::string path_of(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : path_of(app->get_parent()) + " " + app->get_name();
}

/// An option of this subcommand or of those above it.
const CLI::Option* find_option(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const auto* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

/// The option, of a cluster like -nw the last, if it takes the next argument as its value. Throws UsageError
/// if there is no such option.
std::optional<std::string> wants_value(const CLI::App* app, const std::string& text) {
  const auto takes_value = [app, &text](const std::string& name) {
    if (const auto* option = find_option(app, name)) return option->get_expected_min() > 0;
    throw UsageError("unknown option " + quote(text.starts_with("--") ? text : name) + "; see " +
                     path_of(app) + " --help");
  };
  if (text.starts_with("--")) {
    const auto equals = text.find('=');
    if (!takes_value(text.substr(0, equals)) || equals != std::string::npos) return std::nullopt;
    return text;
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    const auto name = std::string("-") + text[i];
    if (takes_value(name)) return i + 1 == text.size() ? std::optional(name) : std::nullopt;
  }
  return std::nullopt;
}

/// The parser would take the next option, or a `--`, for the value. OPTION=VALUE passes such a value.
void require_value(const CLI::App* app, const std::string& option, const std::string* next) {
  const auto missing = [&](const std::string& more) {
    return UsageError(option + ": value missing" + more + "; see " + path_of(app) + " --help");
  };
  if (next == nullptr || *next == "--") throw missing("");
  const auto name = next->substr(0, next->find('='));
  if (is_option(name) && find_option(app, name) != nullptr) throw missing(" (" + name + " is an option)");
}

bool looks_like_lock_id(const CLI::App* app, const std::string& text) {
  const auto& name = app->get_name();
  const bool takes_one = name == "release" || name == "extend" || name == "owns";
  return takes_one && find_option(app, text) == nullptr && LockId::parse(text).ok();
}

/// How many arguments come before the command that this subcommand runs; nothing if it runs none.
std::optional<std::size_t> arguments_before_command(const CLI::App* app) {
  if (app->get_name() != "run") return std::nullopt;
  const bool of_task = app->get_parent()->get_name() == "task";
  return of_task ? 0U : 1U;  // run KEY COMMAND, task run COMMAND
}

std::string one_of(const CLI::App& app) {
  std::string names;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  return names;
}

bool has_commands(const CLI::App& app) {
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

/// "; holdfast lock has: acquire, ... Try: holdfast lock --help"
std::string commands_of(const CLI::App& app) {
  const auto path = path_of(&app);
  const auto has = has_commands(app) ? path + " has: " + one_of(app) : path + " has no subcommands";
  return "; " + has + ". Try: " + path + " --help";
}

CLI::App* find_subcommand(CLI::App& app, const std::string& name) {
  for (auto* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

/// "; there is holdfast queue retry" if other commands of `root` have one of this name.
std::string elsewhere(CLI::App& root, const CLI::App& at, const std::string& name, const FillFamily& fill) {
  std::string found;
  for (auto* family : root.get_subcommands([](CLI::App*) { return true; })) {
    if (family == &at) continue;
    fill(*family);
    const auto* command = find_subcommand(*family, name);
    if (command != nullptr) found += (found.empty() ? "; there is " : ", ") + path_of(command);
  }
  return found;
}

/// Whether it may hold a password: `user:password@host`, or `scheme://host?password=…`.
bool may_be_url(std::string_view text) {
  return text.find('@') != std::string_view::npos || text.find("://") != std::string_view::npos;
}

UsageError unknown_command(CLI::App& root, const CLI::App& at, const std::string& typed,
                           const FillFamily& fill) {
  const auto shown = may_be_url(typed) ? "(a URL? write --url URL)" : quote(typed);
  return UsageError("unknown command " + shown + elsewhere(root, at, typed, fill) + commands_of(at));
}

/// `help lock show` as `lock show --help`. Only subcommands may follow: `help run KEY` must run nothing.
SplitCommandLine split_help(CLI::App& app, const std::vector<std::string>& typed, const FillFamily& fill) {
  SplitCommandLine result;
  CLI::App* at = &app;
  for (std::size_t i = 1; i < typed.size(); ++i) {
    if (typed[i] == "-h" || typed[i] == "--help") continue;
    auto* sub = find_subcommand(*at, typed[i]);
    if (sub == nullptr) throw unknown_command(app, *at, typed[i], fill);
    if (at == &app) fill(*sub);
    at = sub;
    result.ours.push_back(typed[i]);
  }
  result.ours.emplace_back("--help");
  return result;
}

/// Of a positional that takes as many values as there are: tells it how many, now that this is known.
/// Otherwise the parser would take `[a=1,b=2]` for a list of values and not for one.
void expect_values(CLI::App& app, std::size_t positionals) {
  CLI::Option* takes_many = nullptr;
  std::size_t others = 0;
  for (auto* option : app.get_options([](CLI::Option* candidate) { return candidate->get_positional(); })) {
    if (option->get_allow_extra_args()) {
      takes_many = option;
    } else {
      ++others;
    }
  }
  if (takes_many == nullptr || positionals <= others) return;
  takes_many->expected(static_cast<int>(positionals - others));
  takes_many->allow_extra_args(false);
}

}  // namespace

SplitCommandLine split_command_line(CLI::App& app, const std::vector<std::string>& typed,
                                    const FillFamily& fill, const std::function<void(CLI::App&)>& enter) {
  if (!typed.empty() && typed.front() == "help") return split_help(app, typed, fill);
  SplitCommandLine result;
  CLI::App* at = &app;
  std::vector<std::string> positional;  // moved behind a `--` of our own, where nothing is an option
  bool only_positional = false;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const auto& text = typed[i];
    const auto before_command = arguments_before_command(at);
    // Any number of queues comes before the command, so only `--` shows where it begins.
    if (text == "--" && at->get_name() == "work") {
      result.command.assign(typed.begin() + static_cast<std::ptrdiff_t>(i + 1), typed.end());
      break;
    }
    if (text == "--" && !only_positional) {
      only_positional = true;
      continue;
    }
    if (!only_positional && is_option(text) && !looks_like_lock_id(at, text)) {
      result.ours.push_back(text);
      if (const auto option = wants_value(at, text)) {
        require_value(at, *option, i + 1 < typed.size() ? &typed[i + 1] : nullptr);
        result.ours.push_back(typed[++i]);
      }
      continue;
    }
    if (has_commands(*at) && !only_positional) {
      auto* sub = find_subcommand(*at, text);
      if (sub == nullptr) throw unknown_command(app, *at, text, fill);
      if (at == &app) {
        fill(*sub);
        enter(*sub);
      }
      at = sub;
      result.ours.push_back(text);
      continue;
    }
    if (before_command && positional.size() == *before_command) {
      // `run -- KEY -- COMMAND` is fine too: the second `--` is still ours, a third is the command's.
      const bool marked = text == "--" && *before_command > 0;
      result.command.assign(typed.begin() + static_cast<std::ptrdiff_t>(i + (marked ? 1 : 0)), typed.end());
      break;
    }
    positional.push_back(text);
  }
  if (!positional.empty()) {
    expect_values(*at, positional.size());
    result.ours.emplace_back("--");
    result.ours.insert(result.ours.end(), positional.begin(), positional.end());
  }
  return result;
}

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const auto* at = &app;
  for (auto typed = at->get_subcommands(); !typed.empty(); typed = at->get_subcommands()) at = typed.back();
  if (error.get_name() == "RequiredError" && has_commands(*at)) return "command missing" + commands_of(*at);
  const std::string_view what = error.what();
  // "The following argument was not expected: extra". Other messages have what was typed too, and URLs as
  // examples.
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (what.find('@') != std::string_view::npos || (is_extra && may_be_url(what))) {
    return "unexpected argument (not shown: it may be a URL with a password); see " + path_of(at) + " --help";
  }
  const auto colon = what.find(": ");
  const auto shown = is_extra && colon != std::string_view::npos
                         ? "unexpected argument " + quote(std::string(what.substr(colon + 2)))
                         : printable(what);
  return shown + "; see " + path_of(at) + " --help";
}

}  // namespace holdfast::cli
