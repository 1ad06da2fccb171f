#pragma once

#include <holdfast/done.hpp>
#include <holdfast/observer.hpp>

#include "sys/worker_pool.hpp"

namespace holdfast::sys {

/// The observer's context, where that is to be had: it is user code, and so belongs on no thread of ours, nor
/// on one of the caller's that runs a completion, for it may be the one that reads everyone's answers.
[[nodiscard]] inline TraceContext context_of_caller(Observer& observer) noexcept {
  if (WorkerPool::on_library_thread() || detail::Trampoline::busy()) return {};
  return observer.context();
}

}  // namespace holdfast::sys
