#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// Becomes `command`, found by PATH unless its name has a slash. Never through a shell: execvp would run a
/// script without `#!` by /bin/sh. Returns only on failure, with the errno.
[[nodiscard]] int execute(const std::vector<std::string>& command,
                          const std::vector<std::string>& environment);

}  // namespace holdfast::cli
