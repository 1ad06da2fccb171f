#pragma once

#include <cstddef>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <memory>
#include <stop_token>

#include "runtime/timer_queue.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {

/// The threads of one opened engine, for all that is built on it. Each starts when it is first needed; which
/// work runs where, and why no kind of it holds up another, is in docs/internals/locks.md, "Threads".
class Runtime {
 public:
  /// `while_idle`: what the timer's thread does until its next call.
  explicit Runtime(BootTimer::WhileIdle while_idle = {});
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Decides when to renew and which guard is lost. Never blocks, never runs user code.
  TimerQueue timer;

  /// The steps of operations (limited: they queue for one file) may take so many of the threads; renewals and
  /// releases that no thread waits for (first) have the others to themselves.
  static constexpr std::size_t max_steps = 4;
  static constexpr std::size_t max_renewals = 16;
  /// For engines that block.
  WorkerPool blocking{max_renewals + max_steps, max_steps};

  /// For callbacks (first) and predicates (limited) of the user's. A callback that blocks does not hold up
  /// the next; nor do predicates, however many block: they never get the last thread, so a loss is reported.
  static constexpr std::size_t max_callbacks = 1000;
  static constexpr std::size_t max_predicates = 16;
  WorkerPool user_code{max_callbacks + max_predicates, max_predicates, 1};

  /// Completes `done` with false at that time or soon after a stop request, never on the timer's thread.
  /// Throws Error(Internal), and keeps nothing, if the machine has no thread for it.
  void sleep_until(BootTime at, std::stop_token stop, Done<bool> done);

  /// Sees to it that `go_on` finds its thread. Throws Error(Internal) if there is none to be had.
  void prepare_to_go_on();
  /// For `on_time`: runs `next`, the rest of an operation, on a thread for user code, because that may be its
  /// caller's completion. One after another: thousands that wake together need one thread, and a completion
  /// must not block. Nothing of this object may be used afterwards, for `next` may be its last owner.
  void go_on(std::function<void()> next);

  /// True on a thread that the caller's code may keep for as long as it likes.
  [[nodiscard]] bool may_run_user_code_here() const noexcept;
  /// False in a forked child, which has none of the threads.
  [[nodiscard]] bool in_own_process() const noexcept { return user_code.in_own_process(); }

 private:
  class Sleep;
  class Continuations;
  const std::shared_ptr<Continuations> continuations_;
};

}  // namespace holdfast::runtime
