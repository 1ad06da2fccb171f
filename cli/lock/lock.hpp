#pragma once

#include <holdfast/lock_types.hpp>

#include "arguments/context.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

// The subcommands of `lock`.
void add_lock_acquire(Command lock, Context& context);
void add_lock_show(Command lock, Context& context);
void add_lock_list(Command lock, Context& context);
void add_lock_break(Command lock, Context& context);

/// What any user may see of a held lock, without its key and id.
[[nodiscard]] Fields fields_of(const LockInfo& info);

}  // namespace holdfast::cli
