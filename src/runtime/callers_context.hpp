#pragma once

#include <holdfast/observer.hpp>

namespace holdfast::runtime {

/// What an observer's `context` returned where an operation was called, for what the operation does
/// elsewhere.
struct CallersContext {
  const Observer* observer = nullptr;
  TraceContext context = {};

  /// Asks `observer`, which may be null. See context_of_caller.
  [[nodiscard]] static CallersContext of(Observer* observer) noexcept;
};

/// The context of whoever called the operation that this thread works on; null where nobody knows. The
/// observer itself is asked on a thread of the caller's only, and not while that runs a completion: it is
/// user code, and the thread may be the one that reads everyone's answers.
[[nodiscard]] TraceContext context_of_caller(Observer& observer) noexcept;

/// While it lives, `context_of_caller` gives this thread what was carried here. `carried` must outlive it.
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
