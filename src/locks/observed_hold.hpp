#pragma once

#include <atomic>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/observer.hpp>

#include "sys/callers_context.hpp"

namespace holdfast::locks {

/// Tells an observer, if there is one, of one hold and its renewals.
class ObservedHold {
 public:
  /// What is held. It and the observer must outlive this.
  struct Subject {
    std::string_view backend;
    const LockKey& key;
    const LockId& id;
    const Fence& fence;
    const TraceContext& context;
  };

  /// The hold begins. `observer` may be null.
  ObservedHold(Observer* observer, const Subject& subject) noexcept;
  ObservedHold(const ObservedHold&) = delete;
  ObservedHold& operator=(const ObservedHold&) = delete;

  /// Its end, once: what comes after a loss, the release of what is lost, is not told.
  void released() noexcept { end(Reason::none); }
  void lost(LossReason reason) noexcept;

  /// Runs `extend`, which gives its Result<ExtendOutcome>.
  template <class Extend>
  void renew(Extend&& extend) {
    if (observer_ == nullptr) return void(extend());
    observer_->begun(Activity::renew, subject_.backend);
    const sys::CallersContext context{.observer = observer_, .context = subject_.context};
    const sys::CarriedContext carried(context);
    const BootTime started = BootClock::now();
    renewed(started, extend());
  }

 private:
  void end(Reason reason) noexcept;
  void renewed(BootTime started, const Result<ExtendOutcome>& answer) noexcept;
  [[nodiscard]] Occurrence occurrence(Activity activity, BootTime started) const noexcept;

  Observer* const observer_;
  const Subject subject_;
  BootTime started_;
  std::atomic<bool> ended_ = false;
};

}  // namespace holdfast::locks
