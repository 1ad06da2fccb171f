#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <holdfast/open.hpp>
#include <holdfast/sqlite.hpp>
#include <iostream>
#include <span>
#include <sstream>
#include <utility>

#include "arguments/command.hpp"
#include "arguments/context.hpp"
#include "arguments/values.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

/// Text as roff shows it unchanged: a plain `-` would become a hyphen that cannot be copied to a shell, and a
/// dot or quote at the beginning of a line would be a request.
std::string escaped(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

/// Lines `  COMMAND   what it does`: the command stands alone, so that its line is not too long for a
/// terminal. A command of several lines has no such comment.
std::string example_of(const std::vector<std::string>& lines) {
  constexpr std::size_t indent = 2;
  const auto command = lines.front().substr(indent);
  const auto gap = lines.size() > 1 ? std::string::npos : command.find("   ");
  if (gap != std::string::npos) {
    const auto comment = command.substr(command.find_first_not_of(' ', gap));
    return ".TP\n" + escaped(command.substr(0, gap)) + "\n" + escaped(comment) + "\n";
  }
  std::string out = ".PP\n.nf\n";
  for (const auto& line : lines) out += escaped(line.substr(indent)) + "\n";
  return out + ".fi\n";
}

/// A footer of --help, in two parts: paragraphs, of which those with an indented line are set as they are,
/// and what stands below `Examples:`.
struct Footer {
  std::string text;
  std::string examples;
};

Footer footer_of(const CLI::App& app) {
  Footer footer;
  bool in_examples = false;
  std::vector<std::string> paragraph;  // or one example
  const auto end_paragraph = [&] {
    if (paragraph.empty()) return;
    if (in_examples) {
      footer.examples += example_of(std::exchange(paragraph, {}));
      return;
    }
    const bool is_verbatim =
        std::ranges::any_of(paragraph, [](const std::string& line) { return line.starts_with(' '); });
    footer.text += is_verbatim ? ".PP\n.nf\n" : ".PP\n";
    for (const auto& line : paragraph) footer.text += escaped(line) + "\n";
    if (is_verbatim) footer.text += ".fi\n";
    paragraph.clear();
  };
  for (const auto& line : lines_of(app.get_footer())) {
    const bool begins_example = in_examples && line.starts_with("  ") && !line.starts_with("   ");
    if (line.empty() || begins_example) end_paragraph();
    if (in_examples && !line.empty() && !line.starts_with("  ")) {
      end_paragraph();
      in_examples = false;
    }
    if (line == "Examples:") {
      end_paragraph();
      in_examples = true;
    } else if (!line.empty()) {
      paragraph.push_back(line);
    }
  }
  end_paragraph();
  return footer;
}

/// A heading begins a paragraph itself.
std::string section(std::string_view heading, std::string_view body) {
  if (body.empty()) return "";
  if (body.starts_with(".PP\n")) body.remove_prefix(4);
  return ".SH " + std::string(heading) + "\n" + std::string(body);
}

struct Entry {
  std::string_view name;
  std::string_view text;
};

std::string entries(std::span<const Entry> list) {
  std::string out;
  for (const auto& [name, text] : list) {
    out += ".TP\n\\fB" + escaped(name) + "\\fR\n" + escaped(text) + "\n";
  }
  return out;
}

constexpr std::string_view about =
    R"(Runs commands, and gives scripts, locks that one holder has at a time on a
machine or on all machines that share a store, and keeps tasks that one worker at a time works on. A holder that
dies loses its lock when its lease ends.
.PP
Each lock comes with a fence: a number that is greater than that of every earlier holder of the same lock. A
holder that was paused past its lease does not know that another has followed. So pass the fence to what the
lock protects: if that keeps the greatest fence it has seen, and refuses a write with a smaller one, a late
write changes nothing.
)";

constexpr std::array exit_status{
    Entry{"0", "Done. run and task run exit with their command's own code."},
    Entry{"1", "Not held; no such task, or no result yet; doctor: there is a warning or a problem."},
    Entry{"64", "Usage, or an invalid argument. Nothing was done."},
    Entry{"65", "task, queue: rejected by the rules, nothing was changed."},
    Entry{"69", "The store is unavailable."},
    Entry{"70", "Internal: invalid stored data, or an unexpected error of the system."},
    Entry{
        "75",
        "The lock was not acquired (-E changes the code); task: the quota is used up, or the queue is full."},
    Entry{"77", "The store refuses access: permission, authentication."},
    Entry{"79", "The lock was lost, and the command stopped; task: the write carried an old fence."},
    Entry{"80", "task run: another client ended the task; queue wait: the task failed or was cancelled."},
    Entry{"126, 127", "The command cannot be run; was not found."},
    Entry{"128+N", "The command died of signal N, or signal N ended holdfast."},
};

constexpr std::array environment{
    Entry{"HOLDFAST_URL", "The store, if neither --url nor --system is given."},
    Entry{"HOLDFAST_HOLDER", "The label stored with locks, if --holder is not given."},
    Entry{"HOLDFAST_LOG_FORMAT", "text or json, if --log-format is not given."},
    Entry{"HOLDFAST_REDIS_PASSWORD", "The password of a Redis whose URL has none."},
    Entry{"HOLDFAST_SENTINEL_PASSWORD", "The password of the sentinels."},
    Entry{"HOLDFAST_TASK_OWNER", "The owner of tasks, if --owner is not given."},
    Entry{"HOLDFAST_TASK_QUOTA, HOLDFAST_TASK_MAX_TTL, HOLDFAST_QUEUE_MAX_TASKS",
          "Limits of tasks, as the options of task add and task create."},
    Entry{"NO_COLOR", "top: no colours, if it is set and not empty."},
    Entry{"XDG_STATE_HOME", "Where the store of the user is (default ~/.local/state)."},
};

constexpr std::array files{
    Entry{"~/.local/state/holdfast/holdfast.db", "The store of the user: sqlite:"},
    Entry{system_sqlite_file, "The store of the machine: system: (or --system)."},
};

/// `-j`, `--jobs` N, and what its values are.
std::string entry_of(const CLI::Option& option) {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(name) + "\\fR");
  };
  for (const auto& name : option.get_snames()) add("-" + name);
  for (const auto& name : option.get_lnames()) add("--" + name);
  if (names.empty()) add(option.get_name());
  // NAME:INT in [1 - 9]: the name of the value, and what the parser checks.
  const auto type = option.get_type_name();
  const auto colon = type.find(':');
  const bool is_flag = option.get_expected_min() == 0 && !option.get_positional();
  if (!is_flag && !option.get_positional()) names += " \\fI" + escaped(type.substr(0, colon)) + "\\fR";
  std::string entry = ".TP\n" + names + "\n";
  for (const auto& line : lines_of(option.get_description())) entry += escaped(line) + "\n";
  const auto range = colon == std::string::npos ? std::string::npos : type.find('[', colon);
  if (range == std::string::npos) return entry;
  entry.pop_back();
  if (!entry.ends_with('.')) entry += '.';
  return entry + "\nValues: " + escaped(type.substr(range)) + ".\n";
}

std::string options_of(const CLI::App& app) {
  std::string out;
  for (const auto* option : app.get_options()) out += entry_of(*option);
  return out;
}

std::string usage_of(const CLI::App& app, const std::string& name) {
  const auto* formatter = dynamic_cast<const CLI::Formatter*>(app.get_formatter().get());
  auto usage = formatter == nullptr ? name : formatter->make_usage(&app, name);
  const std::string_view word = "Usage: ";
  if (const auto at = usage.find(word); at != std::string::npos) usage.erase(0, at + word.size());
  std::string page;
  for (const auto& line : lines_of(usage)) {
    if (!line.empty()) page += (page.empty() ? "\\fB" : ".br\n\\fB") + escaped(line) + "\\fR\n";
  }
  return page;
}

/// The page of a family, or of the program.
std::string page_of(const CLI::App& app, bool is_program) {
  const std::string name = is_program ? "holdfast" : "holdfast-" + app.get_name();
  const std::string path = is_program ? "holdfast" : "holdfast " + app.get_name();
  std::string title = name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  // No date: the page of one version is always the same.
  std::string page = ".TH " + title + R"( 1 "" "Holdfast )" + std::string(version()) + "\" \"Holdfast\"\n";
  auto description = app.get_description();
  while (description.ends_with('.')) description.pop_back();
  page += ".SH NAME\n" + escaped(name) + " \\- " + escaped(description) + "\n";
  page += ".SH SYNOPSIS\n" + usage_of(app, path);
  const auto footer = footer_of(app);
  page += section("DESCRIPTION", (is_program ? std::string(about) : "") + footer.text);
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  if (is_program) {
    page += ".SH COMMANDS\n";
    for (const auto* sub : subcommands) {
      page += ".TP\n\\fBholdfast\\-" + escaped(sub->get_name()) + "\\fR(1)\n" +
              escaped(sub->get_description()) + "\n";
    }
  }
  page += section("OPTIONS", options_of(app));
  if (!is_program) {
    for (const auto* sub : subcommands) {
      page += ".SH " + escaped(app.get_name() + " " + sub->get_name()) + "\n" +
              escaped(sub->get_description()) + ".\n.PP\n" + usage_of(*sub, path + " " + sub->get_name()) +
              options_of(*sub);
      // A subcommand without a text of its own has that of its family.
      if (sub->get_footer() == app.get_footer()) continue;
      const auto own = footer_of(*sub);
      page += own.text;
      if (!own.examples.empty()) page += ".PP\nExamples:\n" + own.examples;
    }
  } else {
    page += section("EXIT STATUS", entries(exit_status));
    page += section("ENVIRONMENT", entries(environment));
    page += section("FILES", entries(files));
  }
  page += section("EXAMPLES", footer.examples);
  page += ".SH SEE ALSO\n";
  if (is_program) {
    std::string separator;
    for (const auto* sub : subcommands) {
      page += std::exchange(separator, ",\n") + "\\fBholdfast\\-" + escaped(sub->get_name()) + "\\fR(1)";
    }
    page += "\n";
  } else {
    page += "\\fBholdfast\\fR(1)\n";
  }
  return page;
}

void write_page(const std::filesystem::path& file, const std::string& page) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << page << std::flush;
  if (!out)
    throw UsageError("manual: cannot write " + quote(file.string()) + "; check the directory and the disk");
}

int write_all(const CLI::App& root, const std::string& directory) {
  const std::filesystem::path to(directory);
  write_page(to / "holdfast.1", page_of(root, true));
  for (const auto* family : root.get_subcommands([](const CLI::App*) { return true; })) {
    write_page(to / ("holdfast-" + family->get_name() + ".1"), page_of(*family, false));
  }
  return exit_ok;
}

}  // namespace

void fill_manual(Command manual, Context& context) {
  auto name = std::make_shared<std::optional<std::string>>();
  auto directory = std::make_shared<std::optional<std::string>>();
  manual.add_option("COMMAND", *name, "A command, such as run (default: the page of holdfast)");
  manual.add_option("--directory DIRECTORY", *directory, "Write the pages of all commands there").not_empty();
  manual.footer(
      "Prints the manual page of a command, for man(1). Its text is that of --help.\n"
      "\n"
      "Examples:\n"
      "  holdfast manual run | man -l -\n"
      "  holdfast manual --directory ~/.local/share/man/man1");
  auto* root = manual.parser().get_parent();
  manual.action([root, name, directory, &context]() -> int {
    if (context.json) throw UsageError("manual: the pages are not available as JSON; omit --json");
    if (*directory) return write_all(*root, **directory);
    const CLI::App* app = root;
    if (*name) {
      for (const auto* family : root->get_subcommands([](const CLI::App*) { return true; })) {
        if (family->get_name() == **name) app = family;
      }
      if (app == root && **name != "holdfast") {
        throw UsageError("manual: there is no command " + quote(**name) + "; holdfast --help lists them");
      }
    }
    std::cout << page_of(*app, app == root) << std::flush;
    return exit_ok;
  });
}

}  // namespace holdfast::cli
