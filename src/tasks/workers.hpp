#pragma once

#include <holdfast/locks.hpp>
#include <holdfast/storage_types.hpp>

namespace holdfast::tasks {

/// Whether these locks know who holds the lock of this token. A fence of another store says nothing here,
/// though a lock of its key may exist.
[[nodiscard]] bool is_lock_of(const FencingToken& token, const Locks& locks);

}  // namespace holdfast::tasks
