#pragma once

#include <sys/types.h>

#include <holdfast/doctor.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace holdfast::cli {

/// Reports what the mount options of /proc mean for `run`, from the text of /proc/self/mountinfo. Nothing if
/// they hide no process from an unprivileged user with these groups.
[[nodiscard]] std::optional<Finding> hidden_processes(std::string_view mountinfo,
                                                      const std::vector<gid_t>& groups);

/// The same for this process. Also reports a /proc of another pid namespace.
[[nodiscard]] std::optional<Finding> hidden_processes();

}  // namespace holdfast::cli
