#pragma once

#include <holdfast/task_types.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/context.hpp"

namespace holdfast::cli {

// The subcommands of `task`.
void add_task_run(Command task, Context& context);
void add_task_add(Command task, Context& context);
void add_task_work(Command task, Context& context);
void add_task_create(Command task, Context& context);
void add_task_get(Command task, Context& context);
void add_task_list(Command task, Context& context);
void add_task_update(Command task, Context& context);
void add_task_set(Command task, Context& context);
void add_task_complete(Command task, Context& context);
void add_task_fail(Command task, Context& context);
void add_task_cancel(Command task, Context& context);
void add_task_wait(Command task, Context& context);
void add_task_result(Command task, Context& context);
void add_task_rm(Command task, Context& context);
void add_task_logs(Command task, Context& context);
void add_task_watch(Command task, Context& context);
void add_task_bind(Command task, Context& context);
void add_task_rebind(Command task, Context& context);
void add_task_cleanup(Command task, Context& context);

/// --keep-output, of the commands that run another.
void add_keep_output(Command command, int& keep);

/// Prints all fields of a task, for people or as JSON.
/// `worker`: the lock under which a worker works on the task, if that is known.
void print_task(const Context& context, const Task& task, const std::optional<LockInfo>& worker = {});
/// The columns and a row of a list for people.
[[nodiscard]] std::vector<std::string> task_columns();
[[nodiscard]] std::vector<std::string> task_row(const Task& task);
/// One line on stderr for a record that a list leaves out.
void complain_unreadable(const Context& context, std::string_view owner, const Error& error);
/// The same of anything else: `what` is "a register", say.
void complain_left_out(const Context& context, std::string_view what, const Error& error);
/// Explains a name in OwnerPage::unreadable.
[[nodiscard]] Error no_owner(std::string_view stored);
/// After a change: prints the task as JSON, and nothing for people.
void print_changed(const Context& context, const Task& task);

/// The variable `progress` for people: a number with decimals up to 1 is a fraction, one above 1 and up to
/// 100 a percentage. A plain 1 may be either, so it is shown as it is, and so is text. Empty if there is
/// none. Printable, in a few columns.
[[nodiscard]] std::string progress_of(const Task& task);

}  // namespace holdfast::cli
