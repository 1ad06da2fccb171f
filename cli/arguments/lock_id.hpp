#pragma once

#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>

#include "arguments/command.hpp"

namespace holdfast::cli {

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
