#pragma once

#include <atomic>
#include <functional>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/log.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "locks/release_loop.hpp"
#include "locks/renew_loop.hpp"
#include "os/process.hpp"
#include "runtime/flow.hpp"
#include "runtime/runtime.hpp"
#include "runtime/unfinished.hpp"

namespace holdfast {

/// State shared by the guards of one engine. The first thread of each kind that guards need starts with the
/// first guard. So if the machine has no thread left later, no other thread has to do their work.
class LockStore {
 public:
  LockStore(std::shared_ptr<LockBackend> engine, std::shared_ptr<Log> sink, std::shared_ptr<Observer> told,
            std::shared_ptr<const LockHolder> label)
      : observer(std::move(told)),
        backend(std::move(engine)),
        log(std::move(sink)),
        holder(std::move(label)),
        capabilities(backend->capabilities()) {}

  [[nodiscard]] static Guard guard(std::shared_ptr<HeldLock> held) noexcept { return Guard(std::move(held)); }
  /// The state of a guard, for policies built on locks.
  [[nodiscard]] static std::shared_ptr<HeldLock> held(const Guard& guard) noexcept { return guard.held_; }
  [[nodiscard]] static std::shared_ptr<LockStore> of(const Locks& locks) noexcept { return locks.store_; }
  /// For an operation that its caller starts now.
  [[nodiscard]] runtime::Flow completing() const noexcept {
    return runtime::Flow::completing(threads, runtime::CallersContext::of(observer.get()));
  }

  /// Waits for background releases. The wait for ids in doubt is short: their leases expire anyway.
  ~LockStore();
  LockStore(const LockStore&) = delete;
  LockStore& operator=(const LockStore&) = delete;

  /// The longest wait for ids in doubt.
  static constexpr std::chrono::milliseconds last_doubt_timeout{1000};

  /// The label that LockOptions::holder chooses. Throws InvalidArgument.
  [[nodiscard]] std::shared_ptr<const LockHolder> label(std::string_view chosen) const {
    return chosen.empty() ? holder : LockHolder::from_setting(chosen).value_or_throw();
  }

  /// Starts the threads that every guard needs, besides the timer's. Throws Internal if the machine has none.
  void start_threads();
  /// Releases in the background a lock whose holder does not wait, or an id in doubt. The last owner of this
  /// object waits for it, so a program that exits right after has released its locks.
  void release_in_background(ReleaseRequest request, locks::ReleaseLoop::For whom);
  /// Runs a release until its outcome is final, and ends with what `finish` makes of that Result. One
  /// coroutine for every release, so that a guard's needs no frame of its own.
  template <class T = ReleaseOutcome, class Finish = std::identity>
  static runtime::Op<T> release(runtime::Flow flow, std::shared_ptr<LockBackend> backend,
                                locks::ReleaseLoop loop, std::stop_token stop,
                                std::stop_token resend_no_more = {}, Finish finish = {}) {
    const auto ends = [&] { return stop.stop_requested() || resend_no_more.stop_requested(); };
    for (;;) {
      auto answer = co_await flow.ask(backend, loop.request(), stop);
      const auto send_at = answer ? std::nullopt : loop.resend_at(answer, BootClock::now(), ends());
      if (!send_at) co_return finish(std::move(answer));
      if (*send_at > BootClock::now()) (void)co_await flow.sleep_until(*send_at, stop);
      if (ends()) co_return finish(std::move(answer));
    }
  }
  /// A grant came from this authority. If the previous grant had another authority, the store may have lost
  /// its data: every guard is renewed at once, and the answers show which locks are lost.
  void granted_by(const SharedText& authority) {
    // Grants of an engine that stays the same share its characters. So most are recognised by their address,
    // without the mutex of all. It is the address of that very text: `last_authority_` keeps it alive, and is
    // replaced only after the address is.
    if (&authority.str() != last_authority_at_.load(std::memory_order_acquire)) compare_authority(authority);
  }
  /// The number of such changes.
  [[nodiscard]] std::uint64_t store_changes() const noexcept { return store_changes_.load(); }
  /// Logs the one line about a release that has no caller to report to.
  static void tell_unreleased(const std::shared_ptr<Log>& log, const Error& error) noexcept;
  void log_debug(std::string message) const noexcept {
    if (log) log->write(LogLevel::debug, std::move(message));
  }

  /// Null: waits, holds and renewals are not observed.
  const std::shared_ptr<Observer> observer;
  const std::shared_ptr<LockBackend> backend;
  const std::shared_ptr<Log> log;
  /// The label of grants that name no other; null: none.
  const std::shared_ptr<const LockHolder> holder;
  const Capabilities capabilities;  ///< the backend's
  const os::ProcessIdentity process;
  /// Renewals, background releases and callbacks.
  const runtime::Unfinished unfinished;
  /// Null: the timer's thread cannot do the I/O of renewals.
  const std::shared_ptr<IdleIo> idle_io = capabilities.blocks ? nullptr : backend->idle_io();
  /// Shared with the policies built on these locks.
  const std::shared_ptr<runtime::Runtime> threads = std::make_shared<runtime::Runtime>(while_idle(idle_io));
  locks::RenewalCrowd crowd;  ///< the timer's alone

 private:
  /// Background releases. None keeps this object alive.
  const runtime::Unfinished releases_;
  std::stop_source doubts_end_;   ///< stops those of ids in doubt
  std::stop_source resends_end_;  ///< lets pending ones be answered, and sends no others
  std::mutex authority_mutex_;
  SharedText last_authority_ = backend->authority();
  /// Of last_authority_'s characters. Written under the mutex.
  std::atomic<const std::string*> last_authority_at_ = &last_authority_.str();
  std::atomic<std::uint64_t> store_changes_ = 0;

  void compare_authority(const SharedText& authority);
  static runtime::BootTimer::WhileIdle while_idle(const std::shared_ptr<IdleIo>& io) {
    if (!io) return {};
    // Weak: tasks may still need the threads when the connection for locks is gone.
    return [weak = std::weak_ptr(io)](int descriptor) {
      if (const auto here = weak.lock()) here->run_until_readable(descriptor);
    };
  }
};

}  // namespace holdfast
