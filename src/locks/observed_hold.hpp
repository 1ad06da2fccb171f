#pragma once

#include <atomic>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/observer.hpp>

#include "runtime/callers_context.hpp"

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

  /// A renewal begins: when, for its end.
  [[nodiscard]] BootTime renewal_begun() noexcept;
  void renewed(BootTime begun, const Result<ExtendOutcome>& answer) noexcept;
  /// What a renewal carries along.
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
