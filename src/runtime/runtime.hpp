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

/// The threads of one opened engine, shared by everything built on it. Each starts when it is first needed.
/// docs/internals/locks.md, "Threads", lists which work runs where, and why no kind of work delays another.
class Runtime {
 public:
  /// `while_idle`: run by the timer's thread until its next call.
  explicit Runtime(BootTimer::WhileIdle while_idle = {});
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Decides when to renew and which guard is lost. Never blocks, never runs user code.
  TimerQueue timer;

  /// Steps of operations (`limited`: they queue for one file) may use this many of the threads. The others
  /// are reserved for renewals and background releases (`first`).
  static constexpr std::size_t max_steps = 4;
  static constexpr std::size_t max_renewals = 16;
  /// For engines that block.
  WorkerPool blocking{max_renewals + max_steps, max_steps};

  /// For the user's callbacks (`first`) and predicates (`limited`). A callback that blocks does not delay the
  /// next. Blocked predicates do not delay callbacks either: they never get the last thread, so a loss is
  /// reported.
  static constexpr std::size_t max_callbacks = 1000;
  static constexpr std::size_t max_predicates = 16;
  WorkerPool user_code{max_callbacks + max_predicates, max_predicates, 1};

  /// Completes `done` with false at that time or soon after a stop request, never on the timer's thread.
  /// Throws Error(Internal), and leaves nothing behind, if the machine has no thread for it.
  void sleep_until(BootTime at, std::stop_token stop, Done<bool> done);

  /// Ensures that `go_on` finds a thread. Throws Error(Internal) if the machine has none.
  void prepare_to_go_on();
  /// For `on_time`: runs `next`, the rest of an operation, on a thread for user code, because it may end in
  /// its caller's completion. They run one after another: thousands that wake together need only one thread,
  /// and a completion must not block. This object must not be used afterwards: `next` may be its last owner.
  void go_on(std::function<void()> next);

  /// True on a thread that user code may block for any time.
  [[nodiscard]] bool may_run_user_code_here() const noexcept;
  /// False in a forked child, which has none of the threads.
  [[nodiscard]] bool in_own_process() const noexcept { return user_code.in_own_process(); }

 private:
  class Sleep;
  class Continuations;
  const std::shared_ptr<Continuations> continuations_;
};

}  // namespace holdfast::runtime
