#pragma once

#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>

namespace holdfast {

inline constexpr Capabilities memory_capabilities{.backend = "memory", .supports_fencing = true};

/// A wall clock for tests. Called from any thread, often.
using MemoryClock = WallTime (*)(void* context);

struct MemoryOptions {
  /// Null: the wall time at construction, advanced by CLOCK_BOOTTIME.
  MemoryClock clock = nullptr;
  void* clock_context = nullptr;
  /// The first grant's fence is one higher.
  std::uint64_t last_fence = 0;
};

/// Locks of this process alone, gone when the last owner lets go. For tests and for single programs.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> make_memory_lock_backend(
    const MemoryOptions& options = {}, std::shared_ptr<Log> log = {});

/// Tasks of this process alone, likewise. Uses `options.clock`.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> make_memory_storage_backend(
    const MemoryOptions& options = {});

}  // namespace holdfast
