#pragma once

#include <holdfast/lock_types.hpp>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::cli {

/// What anyone may see of a held lock, for people, as `print_fields` takes it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> fields_of(const LockInfo& info);

/// Whether an old SyncGuard holds it: exclusion is the same, but its fences do not compare as text with
/// others.
[[nodiscard]] bool is_of_syncguard_1(const LockInfo& info) noexcept;

}  // namespace holdfast::cli
