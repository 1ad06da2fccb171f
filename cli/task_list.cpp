#include <nlohmann/json.hpp>

#include "all_tasks.hpp"
#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

namespace holdfast::cli {
namespace {

struct ListOptions {
  TaskOwner owner;
  bool all_owners = false;
  std::optional<std::string> status;
  int limit = 50;
  std::string cursor;
};

constexpr int most_at_once = 1000;

/// What to type for the next page: as this one, but for the cursor.
std::string next_page_command(const Context& context, const std::string& url, const ListOptions& options,
                              const std::string& cursor) {
  std::string command = "holdfast";
  // As the engine tells it, without a password: what is printed may end up in a log.
  if (!context.url.empty()) command += " --url " + shell_word(url);
  command += " task list";
  // Without it the default counts, which may be another where this is pasted.
  const bool plain = options.owner.name == TaskOwner::nobody_in_particular &&
                     TaskOwner::by_default() == TaskOwner::nobody_in_particular;
  if (!plain) command += " --owner " + shell_word(options.owner.name);
  if (options.status) command += " --status " + shell_word(*options.status);
  if (options.limit != ListOptions{}.limit) command += " --limit " + std::to_string(options.limit);
  return command + " --cursor " + shell_word(cursor);
}

int list(const Context& context, const ListOptions& options) {
  std::string cursor = options.cursor;
  ListTasks request;
  if (options.status) request.status = parse_status_argument(*options.status);
  auto opened = open_tasks(context);
  std::vector<std::vector<std::string>> rows{task_columns()};
  auto wanted = static_cast<std::size_t>(options.limit);
  int exit_code = exit_ok;
  // A page of the store may be shorter than asked for though more follow: those of another status took room.
  do {
    request.cursor = cursor;
    request.limit = wanted;
    const auto page = opened.tasks.list(options.owner.name, request);
    for (const auto& task : page.tasks) {
      if (context.json) {
        print_json_text(to_json(task));
      } else {
        rows.push_back(task_row(task));
      }
    }
    for (const auto& error : page.unreadable) {
      complain_unreadable(context, options.owner.name, error);
      exit_code = exit_internal;
    }
    wanted -= std::min(wanted, page.tasks.size());
    cursor = page.cursor;
  } while (wanted > 0 && !cursor.empty());

  if (rows.size() > 1) {
    print_table(rows);
  } else if (!context.json && exit_code == exit_ok) {
    complain("the owner " + quote(options.owner.name) + " has no " +
             (options.cursor.empty() ? "" : "further ") + "tasks" +
             (options.status ? " that are " + *options.status : ""));
  }
  if (cursor.empty()) return exit_code;
  if (context.json) {
    print_json({{"cursor", cursor}});
  } else {
    complain("there are more: " + next_page_command(context, opened.holdfast.url(), options, cursor));
  }
  return exit_code;
}

}  // namespace

void add_task_list(Command task, Context& context) {
  auto command = task.add_command("list", "List an owner's tasks, newest first, or everybody's");
  auto options = std::make_shared<ListOptions>();
  const auto owner = options->owner.add_to(command);
  auto all_owners = command.add_flag("--all-owners", options->all_owners,
                                     "The tasks of all owners, whoever they are: for operators");
  all_owners.excludes(owner);
  command.add_option("--status", options->status, "Only those in this state").value_name("STATUS");
  auto limit =
      command.add_option("--limit", options->limit, "At most so many (default 50; of all owners: all)");
  limit.value_name("N").between(1, most_at_once);
  const auto cursor =
      command.add_option("--cursor", options->cursor, "Go on where another list ended").value_name("CURSOR");
  all_owners.excludes(cursor);
  command.footer(
      "PROGRESS is the variable `progress`: a number with decimals up to 1 is a fraction, one above 1 and "
      "up\n"
      "to 100 a percentage; a plain 1, which may be either, and text are shown as they are. With --json one "
      "object per line and task; if there are more, the last line is\n"
      "{\"cursor\":CURSOR}, otherwise the hint how to go on is on stderr.\n"
      "\n"
      "With --all-owners, which need not be known and may be many, tasks are shown as they are found: owner\n"
      "by owner, each one's newest first; all of them, or with --limit so many in all. A Redis is asked in\n"
      "small steps, which do not hold up its other users.\n"
      "\n"
      "A record that cannot be read is named on stderr, and the others are listed.\n"
      "\n"
      "Exit: 0, also for an empty list, which stderr tells; 65 the cursor is not from this list; 70 a "
      "record\n"
      "cannot be read.\n"
      "\n"
      "Examples:\n"
      "  holdfast task list\n"
      "  holdfast task list --status working --limit 10\n"
      "  holdfast --json task list | jq -r '.task.taskId // empty'\n"
      "  holdfast task list --all-owners --status working\n"
      "  holdfast --json task list --all-owners | jq -r .ownerId | sort | uniq -c");
  command.action([&context, options, limit] {
    if (!options->all_owners) return list(context, *options);
    std::optional<TaskStatus> status;
    if (options->status) status = parse_status_argument(*options->status);
    const auto at_most = limit.given() ? std::optional<std::size_t>(options->limit) : std::nullopt;
    return list_all_tasks(context, status, at_most);
  });
}

}  // namespace holdfast::cli
