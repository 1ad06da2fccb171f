#pragma once

#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>

#include "arguments/command.hpp"
#include "arguments/context.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

// The subcommands of `lock`.
void add_lock_show(Command lock, Context& context);
void add_lock_list(Command lock, Context& context);
void add_lock_break(Command lock, Context& context);

/// What any user may see of a held lock, without its key and id.
[[nodiscard]] Fields fields_of(const LockInfo& info);

/// A lock id. It is a capability, and `ps` shows arguments to every user of the machine: so it may also be
/// read from standard input or from a file.
struct LockIdArgument {
  std::optional<std::string> id;
  std::optional<std::string> file;

  /// `names`: "ID", or "--id" for a command that has other ways to name a lock.
  void add_to(Command command, const std::string& names = "ID");
  [[nodiscard]] bool given() const noexcept { return id || file; }
  /// Throws UsageError if it is not given, given twice, or cannot be read.
  [[nodiscard]] LockId read() const;
};

}  // namespace holdfast::cli
