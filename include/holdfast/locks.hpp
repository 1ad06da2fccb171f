#pragma once

#include <functional>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_operations.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/log.hpp>
#include <holdfast/owned.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>

namespace holdfast {

class LockStore;
class Observer;

/// Which page of the locks that are held.
struct ListLocks {
  /// Empty for the first page, else the cursor of the page before. Opaque; a foreign one is InvalidArgument.
  std::string_view cursor = {};
  /// Clamped to 1..max_list_limit.
  std::size_t limit = 100;
  BootTime deadline = never;

  [[nodiscard]] ListRequest request() const {
    return {.cursor = std::string(cursor), .limit = limit, .deadline = deadline};
  }
};

/// The lock policies over one engine: waiting, retrying, guarding, renewing. Cheap to copy; copies share
/// everything. Guards keep the engine alive, so they may outlive this. The last copy waits, on a thread of
/// yours, until what dropped guards left to the background is done, their releases above all. All functions
/// may be called from any thread. They block and throw holdfast::Error; `start` is for those who must not
/// block.
class HOLDFAST_EXPORT Locks {
 public:
  /// `log` may be null: then nothing is logged. `observer` may be null; it is told of waits, holds and
  /// renewals (for the operations of the backend itself see with_observer).
  explicit Locks(std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log = {},
                 std::shared_ptr<Observer> observer = {});

  /// Waits for the lock and guards it. AcquisitionTimeout when the options' patience is used up, the last
  /// transient error if that is what stood in the way, Aborted when `stop` is triggered.
  [[nodiscard]] Guard lock(LockKeyView key, const LockOptions& options = {},
                           std::stop_token stop = {}) const {
    return run(operation::Lock{key, options}, std::move(stop));
  }

  /// One attempt: nothing if somebody else holds the lock. `options.wait` and `retries` are not used.
  [[nodiscard]] std::optional<Guard> try_lock(LockKeyView key, const LockOptions& options = {},
                                              std::stop_token stop = {}) const {
    return run(operation::TryLock{key, options}, std::move(stop));
  }

  /// Runs `function(guard)` under the lock, releases, and returns what it returned. If the function throws,
  /// the lock is released and its exception goes on. Does not report a loss: the function checks
  /// `guard.still_held()` where that matters.
  template <class F>
    requires std::is_invocable_v<F, Guard&>
  auto with_lock(LockKeyView key, const LockOptions& options, F&& function, std::stop_token stop = {}) const
      -> std::invoke_result_t<F, Guard&> {
    Guard guard = lock(key, options, std::move(stop));
    if constexpr (std::is_void_v<std::invoke_result_t<F, Guard&>>) {
      std::forward<F>(function)(guard);
      guard.release();
    } else {
      auto result = std::forward<F>(function)(guard);
      guard.release();
      return result;
    }
  }

  /// Guards a lock that was detached, here or in another process: extends it first, which proves it.
  /// Nothing if the lock is gone.
  [[nodiscard]] std::optional<Guard> adopt(const LeaseView& lease, const LockOptions& options = {},
                                           std::stop_token stop = {}) const {
    return run(operation::Adopt{detail::owned(lease), options}, std::move(stop));
  }

  /// Waits for the lock as lock() does, durably, without a guard: it ends when it is released by id or
  /// when its ttl has passed.
  [[nodiscard]] Lease acquire(LockKeyView key, const LockOptions& options = {},
                              std::stop_token stop = {}) const {
    return run(operation::Acquire{key, options}, std::move(stop));
  }
  /// By id alone, for locks without a guard. False if that id holds nothing (any more).
  bool release(std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::Release{std::string(lock_id)}, std::move(stop));
  }
  /// Releases by id alone without waiting for it: for a lock whose caller has gone, or never got to know of
  /// it. Resent while it is not answered (on SQLite once), for a minute at most; the last `Locks` of the
  /// engine waits a second for it. An id that is none is ignored. In a forked child it does nothing.
  void release_in_background(std::string_view lock_id) const noexcept;
  /// The new expiry, or nothing if that id holds nothing.
  std::optional<WallTime> extend(std::string_view lock_id, std::chrono::milliseconds ttl,
                                 std::stop_token stop = {}) const {
    return run(operation::Extend{std::string(lock_id), ttl}, std::move(stop));
  }

  [[nodiscard]] bool is_locked(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::IsLocked{key}, std::move(stop));
  }
  [[nodiscard]] std::optional<LockInfo> get_by_key(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::GetByKey{key}, std::move(stop));
  }
  [[nodiscard]] std::optional<LockInfo> get_by_id(std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::GetById{std::string(lock_id)}, std::move(stop));
  }
  /// With the raw key and lock id. Whoever has the id can release the lock: do not log it.
  [[nodiscard]] std::optional<LockRecord> get_by_key_raw(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::GetByKeyRaw{key}, std::move(stop));
  }
  [[nodiscard]] std::optional<LockRecord> get_by_id_raw(std::string_view lock_id,
                                                        std::stop_token stop = {}) const {
    return run(operation::GetByIdRaw{std::string(lock_id)}, std::move(stop));
  }
  /// Whether that id holds that key. For diagnosis only: it may be untrue a moment later.
  [[nodiscard]] bool owns(LockKeyView key, std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::Owns{key, std::string(lock_id)}, std::move(stop));
  }
  /// The live locks with their raw keys and ids, a page at a time.
  [[nodiscard]] LockPage list_raw(const ListLocks& what = {}, std::stop_token stop = {}) const {
    return run(operation::ListLocksRaw{what.request()}, std::move(stop));
  }

  /// For operators: takes the lock away from whoever holds it, and says whose it was; nothing if nobody held
  /// it. The old holder's release and extend find nothing from then on, and the next grant's fence is higher,
  /// as always; but until its proof ends or a renewal bounces, the old holder believes in its lock, and only
  /// the fence keeps its writes out. The reason, which must not be empty, goes to telemetry and to the log.
  std::optional<LockInfo> break_lock(LockKeyView key, std::string_view reason,
                                     std::stop_token stop = {}) const {
    return run(operation::BreakLock{key, std::string(reason)}, std::move(stop));
  }
  /// The same for the lock that is held with this fence only: for whoever looked at it before deciding. One
  /// that another has taken since stays.
  std::optional<LockInfo> break_lock(LockKeyView key, std::string_view reason, Fence held_with,
                                     std::stop_token stop = {}) const {
    return run(operation::BreakLock{key, std::string(reason), held_with}, std::move(stop));
  }

  /// Runs one of the operations above on this thread; see <holdfast/lock_operations.hpp>.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {}) const;
  /// The same without blocking, for <holdfast/asio.hpp> and other event loops. `done` is completed exactly
  /// once with what `run` returns or throws, inline or on a thread of the library, which must not be kept
  /// waiting. An engine that blocks does so on a thread of a small pool.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const;

  [[nodiscard]] Capabilities capabilities() const noexcept;
  [[nodiscard]] std::string authority() const;
  [[nodiscard]] LockBackend& backend() const noexcept;

 private:
  friend class LockStore;
  class End;
  std::shared_ptr<End> end_;  ///< of the last copy; the runtime's last owner, if no guard is left
  std::shared_ptr<LockStore> store_;
};

}  // namespace holdfast
