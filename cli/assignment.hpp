#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::cli {

/// `name=JSON`, split at the first `=`; nothing if there is none or no name before it.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> split_assignment(std::string_view text);

}  // namespace holdfast::cli
