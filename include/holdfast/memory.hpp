#pragma once

#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>

namespace holdfast {

/// The properties of the memory engine, at compile time.
inline constexpr Capabilities memory_capabilities{.backend = "memory", .supports_fencing = true};

/// A wall clock for tests. Called often, from any thread; must be thread-safe and must not block.
using MemoryClock = WallTime (*)(void* context);

/// The clock and the fence counter of a memory engine. Only tests need values other than the defaults.
struct MemoryOptions {
  /// The clock of all expiries. Null: the wall time at construction, advanced by CLOCK_BOOTTIME.
  MemoryClock clock = nullptr;
  /// The argument of every call of `clock`. It must outlive the backend.
  void* clock_context = nullptr;
  /// The fence counter starts here: the first grant has the next higher fence. All keys share one counter.
  std::uint64_t last_fence = 0;
};

/// Creates a backend that keeps locks in the memory of this process. For tests, and for programs whose locks
/// exclude only their own threads.
///
/// Each backend has its own locks and its own authority; they are gone with its last owner. Operations do no
/// I/O. `log` may be null.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> make_memory_lock_backend(
    const MemoryOptions& options = {}, std::shared_ptr<Log> log = {});

/// Creates a backend that keeps tasks in the memory of this process, gone with its last owner. Its claims
/// have a fence counter and an authority of their own.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> make_memory_storage_backend(
    const MemoryOptions& options = {});

}  // namespace holdfast
