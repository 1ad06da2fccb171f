#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <holdfast/open.hpp>
#include <iostream>
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

/// A heading begins a paragraph itself.
bool ends_with_heading(const std::string& page) {
  const auto line = page.rfind('\n', page.size() < 2 ? 0 : page.size() - 2);
  return page.compare(line == std::string::npos ? 0 : line + 1, 3, ".SH") == 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

/// A footer of --help: paragraphs, of which those with an indented line are set as they are, and `Examples:`.
/// `page`: what it follows.
std::string body_of(const std::string& text, const std::string& examples_heading, std::string page) {
  bool in_examples = false;
  std::vector<std::string> paragraph;
  const auto end_paragraph = [&] {
    if (paragraph.empty()) return;
    bool is_verbatim = in_examples;
    for (const auto& line : paragraph) is_verbatim = is_verbatim || line.starts_with(' ');
    if (!ends_with_heading(page)) page += ".PP\n";
    if (is_verbatim) page += ".nf\n";
    for (const auto& line : paragraph) page += escaped(line) + "\n";
    if (is_verbatim) page += ".fi\n";
    paragraph.clear();
  };
  for (const auto& line : lines_of(text)) {
    if (line == "Examples:") {
      end_paragraph();
      page += examples_heading;
      in_examples = true;
    } else if (line.empty()) {
      end_paragraph();
    } else {
      if (in_examples && !line.starts_with(' ')) {
        end_paragraph();
        in_examples = false;
      }
      paragraph.push_back(line);
    }
  }
  end_paragraph();
  return page;
}

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

std::string options_of(const CLI::App& app, const std::string& heading) {
  std::string entries;
  for (const auto* option : app.get_options()) entries += entry_of(*option);
  return entries.empty() ? "" : heading + entries;
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
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  if (is_program) {
    page += ".SH COMMANDS\n";
    for (const auto* sub : subcommands) {
      page += ".TP\n\\fBholdfast\\-" + escaped(sub->get_name()) + "\\fR(1)\n" +
              escaped(sub->get_description()) + "\n";
    }
  }
  page += options_of(app, ".SH OPTIONS\n");
  const auto& footer = app.get_footer();
  if (!footer.empty() && !footer.starts_with("Examples:")) page += ".SH DESCRIPTION\n";
  page = body_of(footer, ".SH EXAMPLES\n", std::move(page));
  if (!is_program) {
    for (const auto* sub : subcommands) {
      page += ".SH " + escaped(app.get_name() + " " + sub->get_name()) + "\n" +
              escaped(sub->get_description()) + ".\n.PP\n" + usage_of(*sub, path + " " + sub->get_name()) +
              options_of(*sub, "");
      // A subcommand without a text of its own has that of its family.
      if (sub->get_footer() == app.get_footer()) continue;
      page = body_of(sub->get_footer(), ".PP\nExamples:\n", std::move(page));
    }
  }
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
