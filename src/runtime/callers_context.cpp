#include "runtime/callers_context.hpp"

#include <holdfast/done.hpp>
#include <utility>

#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {
namespace {
thread_local const CallersContext* carried_here = nullptr;
}  // namespace

CallersContext CallersContext::of(Observer* observer) noexcept {
  if (observer == nullptr) return {};
  return {.observer = observer, .context = context_of_caller(*observer)};
}

TraceContext context_of_caller(Observer& observer) noexcept {
  if (carried_here != nullptr && carried_here->observer == &observer) return carried_here->context;
  if (WorkerPool::on_library_thread() || detail::Trampoline::completing()) return {};
  return observer.context();
}

CarriedContext::CarriedContext(const CallersContext& carried) noexcept
    : before_(std::exchange(carried_here, &carried)) {}

CarriedContext::~CarriedContext() {
  carried_here = before_;
}

}  // namespace holdfast::runtime
