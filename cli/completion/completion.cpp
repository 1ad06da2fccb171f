#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "arguments/context.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

/// One level of the command line: its name path ("holdfast lock"), and what may follow.
struct Level {
  std::string path;
  std::vector<const CLI::App*> subcommands;
  std::vector<const CLI::Option*> options;
};

/// From the parser's own tables, so that the scripts cannot fall behind them.
std::vector<Level> levels_of(const CLI::App& app, const std::string& path) {
  std::vector<Level> levels(1);
  levels[0].path = path;
  for (const auto* option : app.get_options()) {
    if (!option->get_positional()) levels[0].options.push_back(option);
  }
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    levels[0].subcommands.push_back(sub);
    for (auto& below : levels_of(*sub, path + " " + sub->get_name())) levels.push_back(std::move(below));
  }
  return levels;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The levels that take a command after `--`.
constexpr std::array<std::string_view, 3> runs_command{"holdfast run", "holdfast task run",
                                                       "holdfast task work"};

/// Between single quotes of a shell.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : first_line(text)) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The words that are not options.
std::string words(const Level& level) {
  std::string all;
  for (const auto* sub : level.subcommands) all += sub->get_name() + " ";
  if (level.path == "holdfast completion") all += "bash zsh fish ";
  if (!all.empty()) all.pop_back();
  return all;
}

/// Calls `visit` with each name of an option, dashes included.
template <class Visit>
void for_each_name(const CLI::Option& option, const Visit& visit) {
  for (const auto& name : option.get_snames()) visit("-" + name);
  for (const auto& name : option.get_lnames()) visit("--" + name);
}

/// -n --no-wait ...
std::string flags(const Level& level, bool with_globals, const Level& root) {
  std::string all;
  const auto add = [&all](const CLI::Option* option) {
    for_each_name(*option, [&all](const std::string& name) { all += name + " "; });
  };
  for (const auto* option : level.options) add(option);
  if (with_globals) {
    for (const auto* option : root.options) {
      if (option->check_lname("url") || option->check_lname("system") || option->check_lname("json"))
        add(option);
    }
  }
  if (!all.empty()) all.pop_back();
  return all;
}

std::string value_options(const std::vector<Level>& levels) {
  std::string all;
  for (const auto& level : levels) {
    for (const auto* option : level.options) {
      if (option->get_expected_min() == 0) continue;
      for_each_name(*option, [&all](const std::string& name) { all += name + "|"; });
    }
  }
  if (!all.empty()) all.pop_back();
  return all;
}

/// Bash, and zsh through its bashcompinit: walks the words to find the level, then offers what it has.
/// Options are offered only for a word that begins with `-`: otherwise, where all candidates begin so, the
/// shell would insert the dash before a key. After `run KEY --`, `task run --` and `task work QUEUE --` the
/// command's own completion takes over.
std::string bash_script(const std::vector<Level>& levels) {
  std::string is_command;
  for (const auto path : runs_command) {
    is_command += is_command.empty() ? "$path == '" : " || $path == '";
    is_command.append(path) += '\'';
  }
  std::string script =
      "# holdfast completion for bash: source <(holdfast completion bash)\n"
      "_holdfast() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} path=holdfast i word flags seen=0\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case $word in\n"
      "      --)\n"
      "        if [[ " +
      is_command +
      " ]]; then\n"
      "          if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))\n"
      "          elif ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$cur\"))\n"
      "          else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
      "          return\n"
      "        fi ;;\n"
      "      " +
      value_options(levels) +
      ") ((++i == COMP_CWORD)) && return ;;\n"
      "      -*) ;;\n"
      "      *)\n"
      "        case \"$path $word\" in\n          ";
  bool first = true;
  for (const auto& level : levels) {
    if (level.path == "holdfast") continue;
    script += (first ? "'" : "|'") + level.path + "'";
    first = false;
  }
  script +=
      ") path=\"$path $word\" ;;\n"
      "          *) seen=1 ;;\n"
      "        esac ;;\n"
      "    esac\n"
      "  done\n"
      "  case $path in\n";
  for (const auto& level : levels) {
    script += "    '" + level.path + "') word='" + words(level) + "' flags='" +
              flags(level, level.path != "holdfast", levels[0]) + "' ;;\n";
  }
  script +=
      "  esac\n"
      "  [[ ($path == 'holdfast run' || $path == 'holdfast task work') && $seen == 1 ]] && word='--'\n"
      "  [[ $cur == -* ]] && word=$flags\n"
      "  COMPREPLY=($(compgen -W \"$word\" -- \"$cur\"))\n"
      "}\n"
      "complete -F _holdfast holdfast\n";
  return script;
}

std::string zsh_script(const std::vector<Level>& levels) {
  return "#compdef holdfast\n"
         "# holdfast completion for zsh: source <(holdfast completion zsh), or a file _holdfast in $fpath\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(levels) +
         // Loaded from $fpath, by the first completion: that one is still to be made.
         "[[ ${funcstack[1]} == _holdfast ]] && _bash_complete -F _holdfast || true\n";
}

std::string fish_script(const std::vector<Level>& levels) {
  std::string script =
      "# holdfast completion for fish: holdfast completion fish | source\ncomplete -c holdfast -f\n";
  for (const auto& level : levels) {
    // holdfast: no subcommand yet. holdfast lock: `lock` seen, but no subcommand of it. holdfast lock show:
    // both.
    std::string condition;
    const auto words_of_path = level.path.substr(std::string("holdfast").size());
    if (words_of_path.empty()) {
      condition = "__fish_use_subcommand";
    } else {
      const auto last = words_of_path.substr(words_of_path.rfind(' ') + 1);
      condition = "__fish_seen_subcommand_from " + last;
      // `lock list` is not `task list`, and `run` not `task run`.
      const auto above = words_of_path.substr(1, std::max<std::size_t>(words_of_path.rfind(' '), 1) - 1);
      if (!above.empty()) condition += "; and __fish_seen_subcommand_from " + above;
      if (level.path == "holdfast run") condition += "; and not __fish_seen_subcommand_from task";
      if (!level.subcommands.empty()) {
        condition += "; and not __fish_seen_subcommand_from";
        for (const auto* sub : level.subcommands) condition += " " + sub->get_name();
      }
    }
    const std::string start = "complete -c holdfast -n '" + condition + "'";
    for (const auto* sub : level.subcommands) {
      script += start + " -a " + sub->get_name() + " -d " + in_quotes(sub->get_description()) + "\n";
    }
    for (const auto* option : level.options) {
      script += words_of_path.empty() ? "complete -c holdfast" : start;
      for (const auto& name : option->get_snames()) script += " -s " + name;
      for (const auto& name : option->get_lnames()) script += " -l " + name;
      if (option->get_expected_min() > 0) script += " -x";
      script += " -d " + in_quotes(option->get_description()) + "\n";
    }
    if (level.path == "holdfast completion") script += start + " -a 'bash zsh fish'\n";
    if (std::ranges::find(runs_command, level.path) != runs_command.end())
      script += start + " -a '(__fish_complete_subcommand)'\n";
  }
  return script;
}

}  // namespace

void fill_completion(Command completion, Context& context) {
  auto* command = &completion.parser();
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(holdfast completion bash)             this shell only (zsh: completion zsh)\n"
      "  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast\n"
      "  holdfast completion fish > ~/.config/fish/completions/holdfast.fish");
  command->callback([&root = *command->get_parent(), &context, shell] {
    context.action = [&root, shell] {
      const auto levels = levels_of(root, "holdfast");
      std::cout << (*shell == "bash"  ? bash_script(levels)
                    : *shell == "zsh" ? zsh_script(levels)
                                      : fish_script(levels))
                << std::flush;
      return exit_ok;
    };
  });
}

}  // namespace holdfast::cli
