#pragma once

#include <holdfast/observer.hpp>

namespace holdfast::runtime {

/// The result of the observer's `context` at the call of an operation, for its work on other threads.
struct CallersContext {
  const Observer* observer = nullptr;
  TraceContext context = {};

  /// Calls `observer`, which may be null. See context_of_caller.
  [[nodiscard]] static CallersContext of(Observer* observer) noexcept;
};

/// The caller's context for the operation that this thread works on; null if unknown. The observer itself is
/// called only on a caller's thread, and not while that runs a completion: it is user code, and the thread
/// may be the one that reads all answers.
[[nodiscard]] TraceContext context_of_caller(Observer& observer) noexcept;

/// While it lives, `context_of_caller` returns `carried` on this thread. `carried` must outlive it.
class CarriedContext {
 public:
  explicit CarriedContext(const CallersContext& carried) noexcept;
  ~CarriedContext();
  CarriedContext(const CarriedContext&) = delete;
  CarriedContext& operator=(const CarriedContext&) = delete;

 private:
  const CallersContext* const before_;
};

}  // namespace holdfast::runtime
