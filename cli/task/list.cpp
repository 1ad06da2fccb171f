#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "arguments/task_filter.hpp"
#include "rpc/json/records.hpp"
#include "task/access.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

struct ListOptions {
  TaskOwner owner;
  bool all_owners = false;
  TaskFilter filter;
  int limit = 50;
  std::string cursor;
};

constexpr int most_at_once = 1000;

/// The command for the next page.
std::string next_page_command(const Context& context, const std::string& url, const ListOptions& options,
                              const std::string& cursor) {
  std::string command = "holdfast";
  // The engine's own form has no password: the output may be logged.
  if (!context.url.empty()) command += " --url " + shell_word(url);
  command += " task list";
  // The default may be another one where this is pasted.
  const bool plain =
      options.owner.name == TaskOwner::anonymous && TaskOwner::by_default() == TaskOwner::anonymous;
  if (!plain) command += " --owner " + shell_word(options.owner.name);
  command += options.filter.as_typed();
  if (options.limit != ListOptions{}.limit) command += " --limit " + std::to_string(options.limit);
  return command + " --cursor " + shell_word(cursor);
}

/// For a note on an empty list.
std::string such(const TaskFilter& filter) {
  if (filter.status && !filter.older_than && !filter.unclaimed) return " with the status " + *filter.status;
  return filter.is_set() ? " like that" : "";
}

int list(const Context& context, const ListOptions& options) {
  std::string cursor = options.cursor;
  auto request = options.filter.selection();
  auto opened = open_tasks(context);
  std::vector<std::vector<std::string>> rows{task_columns()};
  auto wanted = static_cast<std::size_t>(options.limit);
  int exit_code = exit_ok;
  // A page may be shorter than requested though more follow: tasks of another status count.
  do {
    request.cursor = cursor;
    request.limit = wanted;
    const auto page = opened.tasks.list(options.owner.name, request);
    for (const auto& task : page.tasks) {
      if (context.json) {
        print_json_text(rpc::to_json(task));
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
             (options.cursor.empty() ? "" : "further ") + "tasks" + such(options.filter));
  }
  if (cursor.empty()) return exit_code;
  if (context.json) {
    print_json({{"cursor", cursor}});
  } else {
    complain("more tasks: " + next_page_command(context, opened.holdfast.url(), options, cursor));
  }
  return exit_code;
}

/// `task list --all-owners`. Holds a page of owners and one of tasks at a time.
class AllTasks {
 public:
  AllTasks(const Context& context, const TaskFilter& filter, std::size_t at_most)
      : context_(context),
        filter_(filter),
        selection_(filter.selection()),
        left_(at_most),
        table_(columns()) {}

  int list() {
    auto opened = open_tasks(context_);
    for_each_owner(
        opened.tasks,
        [&](const std::string& owner) {
          list_owner(opened.tasks, owner);
          return left_ > 0;
        },
        [&](const std::string& name) {
          unreadable_ = true;
          complain_left_out(context_, "an owner", no_owner(name));
        });
    finish();
    return unreadable_ ? exit_internal : exit_ok;
  }

 private:
  static std::vector<std::string> columns() {
    auto all = task_columns();
    all.insert(all.begin(), "OWNER");
    return all;
  }

  void list_owner(Tasks& tasks, const std::string& owner) {
    const auto error = for_each_page(tasks, owner, selection_, left_, [&](const TaskPage& page) {
      for (const auto& task : page.tasks) show(task);
      for (const auto& one : page.unreadable) unreadable(owner, one);
      left_ -= std::min(left_, page.tasks.size());
      return left_;
    });
    if (error) unreadable(owner, *error);
  }

  void show(const Task& task) {
    ++shown_;
    if (context_.json) {
      print_json_text(rpc::to_json(task));
      return;
    }
    auto row = task_row(task);
    row.insert(row.begin(), printable(task.owner));
    table_.add(std::move(row));
  }

  void unreadable(const std::string& owner, const Error& error) {
    unreadable_ = true;
    complain_unreadable(context_, owner, error);
  }

  void finish() {
    table_.finish();
    if (context_.json) return;
    if (shown_ == 0) {
      complain("no owner has tasks" + such(filter_));
    } else if (left_ == 0) {
      complain("--limit reached; there may be more tasks");
    }
  }

  const Context& context_;
  const TaskFilter& filter_;
  const ListTasks selection_;
  std::size_t left_;
  std::size_t shown_ = 0;
  bool unreadable_ = false;
  LongTable table_;
};

}  // namespace

void add_task_list(Command task, Context& context) {
  auto command = task.add_command("list", "List tasks of one owner, newest first, or of all owners");
  auto options = std::make_shared<ListOptions>();
  const auto owner = options->owner.add_to(command);
  auto all_owners =
      command.add_flag("--all-owners", options->all_owners, "Tasks of all owners (for operators)");
  all_owners.excludes(owner);
  options->filter.add_to(command);
  auto limit = command.add_option("--limit N", options->limit,
                                  "Maximum number of tasks (default 50; with --all-owners: no limit)");
  limit.between(1, most_at_once);
  const auto cursor = command.add_option("--cursor CURSOR", options->cursor, "Continue after this page");
  all_owners.excludes(cursor);
  command.footer(
      "PROGRESS shows the variable `progress` as a percentage: a decimal up to 1 is read as a fraction, a\n"
      "number above 1 and up to 100 as a percentage. A plain 1 (which could be either) and text are shown\n"
      "unchanged. With --json: one object per line; if there are more tasks, the last line is\n"
      "{\"cursor\":CURSOR}. Without --json, stderr shows the command for the next page.\n"
      "\n"
      "With --all-owners tasks are listed owner by owner, each owner's newest first; --limit then counts "
      "the\n"
      "tasks of all owners together. A Redis server is scanned in small steps that do not block its other\n"
      "clients.\n"
      "\n"
      "--unclaimed costs one more request for each task that was ever claimed. `task get` shows who works on "
      "a\n"
      "task.\n"
      "\n"
      "An unreadable record is named on stderr, and the others are listed.\n"
      "\n"
      "Exit: 0, also for an empty list (with a note on stderr); 65 the cursor is not from this list; 70 a\n"
      "record is unreadable.\n"
      "\n"
      "Examples:\n"
      "  holdfast task list\n"
      "  holdfast task list --status working --limit 10\n"
      "  holdfast --json task list | jq -r '.task.taskId // empty'\n"
      "  holdfast task list --all-owners --status working\n"
      "  holdfast task list --all-owners --unclaimed --older-than 10m --oldest-first\n"
      "  holdfast --json task list --all-owners | jq -r .ownerId | sort | uniq -c");
  command.action([&context, options, limit] {
    if (!options->all_owners) return list(context, *options);
    const auto at_most =
        limit.given() ? static_cast<std::size_t>(options->limit) : std::numeric_limits<std::size_t>::max();
    return AllTasks(context, options->filter, at_most).list();
  });
}

}  // namespace holdfast::cli
