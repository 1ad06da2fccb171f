#pragma once

#include <sys/types.h>

#include <holdfast/doctor.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace holdfast::cli {

/// What the mount options of /proc mean for `run`, by the text of /proc/self/mountinfo. Nothing if they hide
/// no process from a user with these groups who is not root.
[[nodiscard]] std::optional<Finding> hidden_processes(std::string_view mountinfo,
                                                      const std::vector<gid_t>& groups);

/// The same for this process.
[[nodiscard]] std::optional<Finding> hidden_processes();

}  // namespace holdfast::cli
