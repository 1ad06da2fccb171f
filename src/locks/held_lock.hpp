#pragma once

#include <condition_variable>
#include <coroutine>
#include <functional>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "locks/observed_hold.hpp"
#include "locks/renew_loop.hpp"
#include "locks/risk_reports.hpp"
#include "runtime/flow.hpp"
#include "runtime/timer_queue.hpp"

namespace holdfast {

class LockStore;

/// The state of a Guard: the lease, its renewal, its loss and its one release.
class HeldLock final : public runtime::Timed {
 public:
  /// A grant from the acquire loop. `sent` was read before the first send of this id's acquire.
  struct Grant {
    LockKey key;
    LockId id;
    Fence fence;
    SharedText authority;
    WallTime expires_at;
    Ttl ttl;
    BootTime sent;
    bool acquire_may_be_repeated = false;                  ///< see Granted
    std::optional<std::uint32_t> replicas = std::nullopt;  ///< see Granted
    TraceContext context = {};                             ///< the waiter's context
    std::shared_ptr<const LockHolder> holder = nullptr;    ///< the label of this grant
    /// Another holder had it before: its extend for this ttl, or ours that adopted it, may still arrive.
    bool adopted = false;
  };

  static std::shared_ptr<HeldLock> start(std::shared_ptr<LockStore> store, Grant&& grant,
                                         const LockOptions& options);
  HeldLock(std::shared_ptr<LockStore> store, Grant&& grant, const LockOptions& options);
  ~HeldLock() override;

  [[nodiscard]] const std::string& key() const noexcept { return grant_.key.str(); }
  [[nodiscard]] const LockId& id() const noexcept { return grant_.id; }
  [[nodiscard]] Fence fence() const noexcept { return grant_.fence; }
  [[nodiscard]] const std::string& authority() const noexcept { return grant_.authority.str(); }
  [[nodiscard]] std::optional<std::uint32_t> replicas() const noexcept { return grant_.replicas; }
  [[nodiscard]] WallTime expires_at() const;
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  [[nodiscard]] std::stop_token lost() const noexcept { return loss_.get_token(); }
  [[nodiscard]] std::optional<LossReason> loss_reason() const;
  [[nodiscard]] std::optional<Error> renewal_error() const;
  [[nodiscard]] bool at_risk() const;
  [[nodiscard]] runtime::Flow completing() const noexcept;
  /// False in a forked child, where nothing here may be touched.
  [[nodiscard]] bool in_own_process() const noexcept;

  void on_lost(std::function<void(LossReason)> callback);
  void on_at_risk(std::function<void(bool)> callback);
  void on_release_error(std::function<void(const Error&)> callback);

  /// False after a release or a detach.
  [[nodiscard]] bool is_held() const noexcept;

  using Self = std::shared_ptr<HeldLock>;
  static runtime::Op<bool> release(runtime::Flow flow, Self self, std::stop_token stop);
  static runtime::Op<bool> extend(runtime::Flow flow, Self self, std::chrono::milliseconds ttl,
                                  std::stop_token stop);
  static runtime::Op<std::optional<Lease>> detach(runtime::Flow flow, Self self, std::stop_token stop);
  static runtime::Op<LossReason> wait_lost(runtime::Flow flow, Self self, std::stop_token stop);
  /// The destructor's release.
  void dispose() noexcept;
  /// The same without waiting.
  void dispose_in_background() noexcept;

  BootTime on_time(BootTime now) override;

 private:
  enum class Hold : std::uint8_t { held, ended, detached };
  /// The pending extend. One that detaches ends the hold with its answer, before another can begin.
  enum class Extending : std::uint8_t { none, to_hold, to_detach };

  /// Waits for pending extends, then sends one and processes its answer. Without a ttl it detaches.
  static runtime::Op<ExtendOutcome> extend_once(runtime::Flow flow, Self self, std::optional<Ttl> ttl,
                                                std::stop_token stop);
  static runtime::Op<bool> release_now(runtime::Flow flow, Self self, BootTime deadline,
                                       std::stop_token stop);

  [[nodiscard]] std::shared_ptr<HeldLock> shared_self() {
    return std::static_pointer_cast<HeldLock>(shared_from_this());
  }
  /// The same for background work: the last Locks waits until it is dropped.
  [[nodiscard]] std::shared_ptr<HeldLock> background_self();
  /// Sends a renewal that is due. Returns after the answer (an engine that blocks) or after the send.
  static void renew(const Self& self);
  /// Checks that the id still holds the lock, without extending it.
  static void look_up(const Self& self);
  static runtime::Op<Ok> send_look_up(runtime::Flow flow, Self self, LookupRequest request);
  void end_look_up(const Result<std::optional<LockRecord>>& answer);
  /// For background work.
  [[nodiscard]] runtime::Flow background_flow() const;
  /// Sends the request from begin_extend and processes its answer.
  static runtime::Op<ExtendOutcome> send_extend(runtime::Flow flow, Self self, ExtendRequest request,
                                                std::stop_token stop);
  /// The request for the engine, or why the lock can no longer be extended. Requires that no extend is
  /// pending.
  std::variant<ExtendRequest, Absence> begin_extend(Ttl ttl, Extending purpose);
  void end_extend(Ttl ttl, const Result<ExtendOutcome>& answer);
  /// What the end of the hold leaves to do.
  struct Ended {
    std::function<void(const Error&)> on_release_error;  ///< user code, as its destructor is
    bool is_announced;                                   ///< a thread runs on_lost or on_at_risk now
  };
  /// Marks the end of the hold; empty if it had ended. From then on there are no loss signals.
  std::optional<Ended> end_hold();
  [[nodiscard]] ReleaseRequest release_request(BootTime deadline) const;
  [[nodiscard]] Result<bool> end_release(const Result<ReleaseOutcome>& answer, const std::stop_token& stop);
  static runtime::Op<bool> not_released();
  static runtime::Op<bool> release_after_announcement(runtime::Flow flow, Self self, std::stop_token stop);
  void dispose_now(BootTime deadline, std::function<void(const Error&)> callback) noexcept;
  [[nodiscard]] BootTime dispose_deadline() const noexcept;

  /// Waits until `holds()`, which is called under the mutex, is true. Another thread may have changed the
  /// state again when the operation resumes. `deadline` applies to a blocking flow only.
  template <class Holds>
  struct Until;
  template <class Holds>
  [[nodiscard]] Until<Holds> until(const runtime::Flow& flow, Holds holds, BootTime deadline = never);
  /// An operation that is suspended in `until`.
  struct Waiting {
    std::coroutine_handle<> operation;
    std::function<bool()> holds;
  };
  /// Resumes every `until` whose condition holds. Must not be called under the mutex.
  void tell_change();
  void report(const Error& error, std::function<void(const Error&)> callback) noexcept;
  /// Notifies the holder, on a thread where user code may block. Must not be called under the mutex.
  void announce_loss();
  /// Calls on_at_risk likewise, until it knows the present state. The caller has begun that (RiskReports).
  void announce_risk();

  const std::shared_ptr<LockStore> store_;
  const Grant grant_;
  const std::chrono::milliseconds dispose_timeout_;
  const std::optional<std::uint32_t> min_replicas_;
  locks::ObservedHold observed_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting> waiting_;
  locks::RenewLoop lease_;
  WallTime expires_at_;
  Hold hold_ = Hold::held;
  std::uint64_t store_changes_;  ///< of the store, when last read
  Extending extending_ = Extending::none;
  std::optional<Error> renewal_error_;
  std::function<void(LossReason)> on_lost_;
  locks::RiskReports risk_reports_;
  std::function<void(const Error&)> on_release_error_;
  int announcers_ = 0;  ///< threads that run on_lost or on_at_risk
  int blocked_ = 0;     ///< threads that wait in `until`
  std::stop_source loss_;
};

}  // namespace holdfast
