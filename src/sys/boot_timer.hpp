#pragma once

#include <functional>
#include <holdfast/clock.hpp>
#include <memory>

namespace holdfast::sys {

/// One thread that calls `on_due(now)` when the boot clock reaches the armed time, and again at the time
/// that returns. A suspended machine's timer fires on resume. The callback must not block.
class BootTimer {
 public:
  using OnDue = std::function<BootTime(BootTime now)>;
  /// Something else for the thread to do until the descriptor is readable: then it must return. It may return
  /// sooner. -1: the thread ends.
  using WhileIdle = std::function<void(int descriptor)>;

  explicit BootTimer(OnDue on_due, WhileIdle while_idle = {});
  /// After it no callback runs; on the timer's own thread it does not wait. In a forked child it does
  /// nothing.
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;
  BootTimer& operator=(const BootTimer&) = delete;

  /// Makes sure the callback runs at `at` or earlier. Starts the thread on first use; throws Error(Internal)
  /// if the machine has no descriptor or thread left.
  void arm(BootTime at);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::sys
