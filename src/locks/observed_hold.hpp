#pragma once

#include <atomic>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/observer.hpp>

#include "runtime/callers_context.hpp"

namespace holdfast::locks {

/// Reports one hold and its renewals to an observer, if there is one.
class ObservedHold {
 public:
  /// The lock that is held. It and the observer must outlive this object.
  struct Subject {
    std::string_view backend;
    const LockKey& key;
    const LockId& id;
    const Fence& fence;
    const std::shared_ptr<const LockHolder>& holder;
    const TraceContext& context;
  };

  /// The hold begins. `observer` may be null.
  ObservedHold(Observer* observer, const Subject& subject) noexcept;
  ObservedHold(const ObservedHold&) = delete;
  ObservedHold& operator=(const ObservedHold&) = delete;

  /// Reports the end of the hold, once: the release after a loss is not reported.
  void released() noexcept { end(Reason::none); }
  void lost(LossReason reason) noexcept;

  /// Reports that a renewal begins. Returns the time, for the report of its end.
  [[nodiscard]] BootTime renewal_begun() noexcept;
  void renewed(BootTime begun, const Result<ExtendOutcome>& answer) noexcept;
  /// The context that a renewal carries.
  [[nodiscard]] runtime::CallersContext context() const noexcept {
    return {.observer = observer_, .context = subject_.context};
  }

 private:
  void end(Reason reason) noexcept;
  [[nodiscard]] Occurrence occurrence(Activity activity, BootTime started) const noexcept;

  Observer* const observer_;
  const Subject subject_;
  BootTime started_;
  std::atomic<bool> ended_ = false;
};

}  // namespace holdfast::locks
