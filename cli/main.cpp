#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <holdfast/open.hpp>
#include <holdfast/sqlite.hpp>
#include <utility>

#include "arguments/command.hpp"
#include "arguments/context.hpp"
#include "arguments/values.hpp"
#include "rpc/protocol/error_text.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/log.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

namespace {

struct Family {
  const char* name;
  const char* description;
  void (*fill)(Command, Context&);
};

constexpr std::array families{
    Family{"run", "Run a command while holding a lock", fill_run},
    Family{"lock", "Acquire, extend, release, inspect and break locks", fill_lock},
    Family{"task", "Create, run, update and follow tasks", fill_task},
    Family{"queue", "Inspect, pause and repair queues of tasks", fill_queue},
    Family{"top", "Watch locks and tasks live", fill_top},
    Family{"rpc", "Serve programs in any language: JSON-RPC 2.0, one message per line", fill_rpc},
    Family{"serve", "Show locks and tasks in a browser; metrics and a JSON API over HTTP", fill_serve},
    Family{"doctor", "Check a store for problems", fill_doctor},
    Family{"bench", "Measure what locks cost in a store", fill_bench},
    Family{"completion", "Print a completion script for your shell", fill_completion},
    Family{"manual", "Print the manual page of a command", fill_manual},
};

/// Adds what the family that was typed consists of. The others have only a name and a description: making all
/// of their options took longer than all else before the command's action. May be called again.
void fill(CLI::App& typed, Context& context) {
  const bool all = typed.get_name() == "completion" || typed.get_name() == "manual";
  for (const auto& family : families) {
    if (!all && typed.get_name() != family.name) continue;
    auto& app = *typed.get_parent()->get_subcommand(family.name);
    constexpr std::size_t only_help = 1;
    const bool has_commands = !app.get_subcommands([](const CLI::App*) { return true; }).empty();
    if (has_commands || app.get_options().size() > only_help) continue;
    family.fill({app, context.action}, context);
  }
}

void set_up(CLI::App& app, Context& context) {
  app.name("holdfast");
  app.set_version_flag("--version", "holdfast " + std::string(version()), "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  auto* url =
      app.add_option(
             "--url", context.url,
             "The store of locks and tasks: sqlite:PATH, sqlite: (in your state directory), system:,\n"
             "redis://HOST, rediss://HOST (TLS), redis+sentinel://HOST,HOST/SERVICE, "
             "redis+cluster://HOST,HOST,\n"
             "unix:SOCKET or memory: (default $HOLDFAST_URL, then sqlite:)")
          ->type_name("URL")
          ->check([](const std::string& given) {
            return given.empty() ? "is empty; use sqlite:, sqlite:PATH or redis://HOST" : "";
          });
  app.add_flag("--system", context.system,
               "Same as --url system: the store of this machine, " + std::string(system_sqlite_file) +
                   ",\nfor root and the members of its directory's group")
      ->excludes(url);
  app.add_option(
         "--holder", context.holder,
         "Label stored with the locks that are acquired: it tells people who holds them. none: no label\n"
         "(default $HOLDFAST_HOLDER, then USER@HOST:PID PROGRAM)")
      ->type_name("LABEL")
      ->check([](const std::string& given) {
        const auto checked = LockHolder::from_setting(given);
        return checked ? std::string() : checked.error().message();
      });
  app.add_flag("--json", context.json, "Print results as JSON, one object per line");
  app.add_option("--log-format", context.log_format,
                 "What stderr gets: text, or json: one object per line, with stable fields\n"
                 "(default $HOLDFAST_LOG_FORMAT, then text)")
      ->type_name("FORMAT");
  app.add_option("--log-level", context.log_level,
                 "The lowest level of JSON lines: info, warning or error (default info)")
      ->type_name("LEVEL");
  app.add_flag("--log-keys", context.log_keys, "Show keys in JSON lines, instead of their hashes");
  app.fallthrough();  // subcommands inherit it: the options above may come anywhere before the command
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  holdfast run nightly-backup -- ./backup.sh      one run at a time\n"
      "  holdfast run -n deploy -- make deploy           exit 75 if the lock is held\n"
      "  holdfast lock list                              held locks and when they expire\n"
      "  holdfast lock show deploy\n"
      "  holdfast task run -- ./report.sh                work that can be followed and cancelled\n"
      "  holdfast task list\n"
      "  holdfast task add render --variables '{\"n\":7}' queue work for a pool of workers\n"
      "  holdfast task work render -j 4 -- ./render.sh   be such a pool\n"
      "  holdfast top                                    locks and tasks as they change\n"
      "  holdfast --system run -n backup -- ./backup.sh  one lock for all users of this machine\n"
      "  holdfast --url redis://cache.internal run -n deploy -- make deploy\n"
      "  holdfast rpc --listen ~/holdfast.sock           for programs in other languages\n"
      "  holdfast --url redis://cache.internal serve     who holds what, live in a browser\n"
      "  holdfast --url redis://cache.internal doctor    check that server for problems\n"
      "  holdfast --url redis://cache.internal bench     what locks cost there\n"
      "  source <(holdfast completion bash)\n"
      "\n"
      "Each command has its own help: holdfast help run, holdfast help task run.");
  for (const auto& family : families) app.add_subcommand(family.name, family.description);
}

int fail(const Context& context, int code, std::string_view name, std::string_view message) noexcept {
  complain(context.json, name, message);
  return code;
}

LogFormat parse_log_format(std::string_view option, std::string_view text) {
  if (text == "text") return LogFormat::text;
  if (text == "json") return LogFormat::json;
  throw UsageError(std::string(option) + ": " + quote(text) + " is not a format of logs. Use text or json");
}

LogSeverity parse_log_level(std::string_view text) {
  if (text.empty() || text == "info") return LogSeverity::info;
  if (text == "warning") return LogSeverity::warning;
  if (text == "error") return LogSeverity::error;
  throw UsageError("--log-level: " + quote(text) + " is not a level. Use info, warning or error");
}

/// Throws UsageError.
void set_log_of(const Context& context) {
  auto settings = log_settings();
  const char* set = std::getenv("HOLDFAST_LOG_FORMAT");
  if (!context.log_format.empty()) {
    settings.format = parse_log_format("--log-format", context.log_format);
  } else if (set != nullptr && *set != '\0') {
    settings.format = parse_log_format("HOLDFAST_LOG_FORMAT", set);
  }
  settings.lowest = parse_log_level(context.log_level);
  settings.keys = context.log_keys;
  set_log(std::move(settings));
}

/// Before the arguments are parsed, so that even a usage error respects it: what is invalid is reported
/// later.
void guess_log_format(const std::vector<std::string>& typed) {
  const char* set = std::getenv("HOLDFAST_LOG_FORMAT");
  bool json = set != nullptr && std::string_view(set) == "json";
  const auto end = std::ranges::find(typed, "--");
  for (auto at = typed.begin(); at != end; ++at) {
    constexpr std::string_view option = "--log-format";
    if (*at == option && at + 1 != end) json = at[1] == "json";
    if (at->starts_with(option) && at->substr(option.size()).starts_with('=')) json = at->ends_with("=json");
  }
  auto settings = log_settings();
  settings.format = json ? LogFormat::json : LogFormat::text;
  set_log(std::move(settings));
}

bool has_json_flag(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

int run(std::vector<std::string> typed) {
  Context context;
  // So that even a usage error respects it; the parser decides otherwise.
  context.json = has_json_flag(typed);
  guess_log_format(typed);
  CLI::App app("Fenced locks and tasks for commands and scripts.");
  set_up(app, context);
  try {
    auto arguments = split_command_line(
        app, typed, [&context](CLI::App& family) { fill(family, context); },
        [](CLI::App& family) {
          auto settings = log_settings();
          settings.command = family.get_name();
          set_log(std::move(settings));
        });
    context.command = std::move(arguments.command);
    context.json = has_json_flag(arguments.ours);  // not the command's arguments
    guess_log_format(arguments.ours);
    std::ranges::reverse(arguments.ours);  // the parser takes them from the back
    app.parse(std::move(arguments.ours));
    set_log_of(context);
    return context.action();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    return fail(context, exit_usage, "InvalidArgument", usage_error_text(app, error));
  } catch (const UsageError& error) {
    return fail(context, exit_usage, "InvalidArgument", error.what());
  } catch (const Error& error) {
    const auto message = without_key(rpc::text_of(error), error.key());
    return fail(context, exit_code_of(error.code()), to_string(error.code()),
                context.json || logs_json() ? message : printable(message));
  } catch (const std::exception& error) {
    return fail(context, exit_internal, "Internal", std::string("unexpected error: ") + error.what());
  }
}

}  // namespace

/// If a standard descriptor is closed, the next opened file would get its number: perhaps a connection to a
/// server, and output for stdout would be sent there as commands. The replacements make reads and writes fail
/// as before. Close-on-exec, so that a command finds the descriptor closed as the caller left it.
void occupy_standard_descriptors() noexcept {
  for (const auto& [fd, mode] : {std::pair{0, O_WRONLY}, {1, O_RDONLY}, {2, O_RDWR}}) {
    if (fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", mode | O_CLOEXEC) < 0) _exit(exit_internal);
  }
}

}  // namespace holdfast::cli

int main(int argc, char** argv) {
  holdfast::cli::occupy_standard_descriptors();
  std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
  holdfast::cli::hide_passwords(argc, argv);
  return holdfast::cli::run(std::move(typed));
}
