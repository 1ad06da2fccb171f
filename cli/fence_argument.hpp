#pragma once

#include <holdfast/fence.hpp>
#include <string_view>

namespace holdfast::cli {

/// 15 digits as they are printed, or the plain number. Throws UsageError that starts with `where`.
[[nodiscard]] Fence parse_fence(std::string_view where, std::string_view text);

}  // namespace holdfast::cli
