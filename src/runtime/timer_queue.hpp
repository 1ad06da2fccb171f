#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <holdfast/clock.hpp>
#include <memory>

namespace holdfast::runtime {

/// One thread that calls `on_due(now)` when the boot clock reaches the armed time, and again at the time
/// that returns. A suspended machine's timer fires on resume. The callback must not block.
class BootTimer {
 public:
  using OnDue = std::function<BootTime(BootTime now)>;
  /// Work for the thread until the descriptor is readable: then it must return. It may return sooner. -1: the
  /// thread ends.
  using WhileIdle = std::function<void(int descriptor)>;

  explicit BootTimer(OnDue on_due, WhileIdle while_idle = {});
  /// After it no callback runs; on the timer's own thread it does not wait. In a forked child it does
  /// nothing.
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;
  BootTimer& operator=(const BootTimer&) = delete;

  /// Ensures that the callback runs at `at` or earlier. Starts the thread on first use; throws
  /// Error(Internal) if the machine has no descriptor or thread left.
  void arm(BootTime at);

 private:
  class State;
  std::shared_ptr<State> state_;
};

/// An object that a TimerQueue calls at a scheduled time.
class Timed : public std::enable_shared_from_this<Timed> {
 public:
  virtual ~Timed() = default;
  Timed() = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  /// Called on the timer's thread; must not block. Returns when to be called again; `never`: not again
  /// until it is scheduled anew.
  virtual BootTime on_time(BootTime now) = 0;

 private:
  friend class TimerQueue;
  // The timer's, changed under its mutex.
  std::atomic<BootTime> scheduled_at_ = never;
  std::size_t place_ = 0;  ///< while it is scheduled
};

/// One thread that calls every Timed object at its time. Scheduling needs a system call only if the new time
/// is the earliest of all.
class TimerQueue {
 public:
  explicit TimerQueue(BootTimer::WhileIdle while_idle = {});
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  /// Replaces the target's previous time. The target is not kept alive.
  void schedule(Timed& target, BootTime at);
  /// A call that is running on another thread may still finish after this.
  void cancel(Timed& target) noexcept;

  /// Calls every scheduled target now, regardless of its time.
  void call_all_now();

  /// For `on_time` alone: runs `job`, which must not block, on the timer's thread when nothing is due. So,
  /// however many jobs there are, a call is delayed at most by the duration of one job.
  void after_due(std::function<void()> job);

  /// True on the thread of any TimerQueue. No operation may resume there: its end may be user code.
  [[nodiscard]] static bool on_timers_thread() noexcept;

 private:
  class Schedule;
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::runtime
