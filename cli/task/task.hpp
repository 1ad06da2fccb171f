#pragma once

#include "arguments/context.hpp"

namespace holdfast::cli {

// The subcommands of `task`.
void add_task_run(Command task, Context& context);
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
void add_task_bind(Command task, Context& context);
void add_task_rebind(Command task, Context& context);
void add_task_cleanup(Command task, Context& context);

}  // namespace holdfast::cli
