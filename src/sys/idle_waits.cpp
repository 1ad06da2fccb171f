#include "sys/idle_waits.hpp"

#include "sys/wake_queue.hpp"

namespace holdfast::sys {

std::unique_ptr<IdleWait> IdleWaits::make(BootTime look_again_at, BootTime deadline,
                                          const std::stop_token& stop, Done<bool> done) {
  std::unique_ptr<IdleWait> wait(new IdleWait(look_again_at, deadline, stop, std::move(done)));
  if (stop.stop_possible()) {
    // Before the wait begins: afterwards it may end, and be gone, at any moment. A request that comes in
    // between finds nothing to end, and `begin` finds the request.
    wait->on_stop_.emplace(stop, [this, raw = wait.get()] {
      const std::lock_guard lock(mutex_);
      if (raw->waiter_ != nullptr) end(*raw, false);
    });
  }
  return wait;
}

void IdleWaits::end_due(BootTime now) {
  while (!times_.empty() && times_.begin()->first <= now) {
    IdleWait& wait = *times_.begin()->second;
    QueuedWaiter& waiter = *wait.waiter_;
    if (waiter.queue.is_over(waiter, now)) {
      end(wait, false);
    } else {
      schedule(wait, waiter.queue.ends_at(waiter));
    }
  }
}

void IdleWaits::schedule(IdleWait& wait, BootTime at) {
  if (at == wait.scheduled_at_) return;
  const BootTime before = next();
  unschedule(wait);
  wait.scheduled_at_ = at;
  if (at == never) return;
  times_.emplace(at, &wait);
  if (at < before) attend_();
}

void IdleWaits::unschedule(IdleWait& wait) {
  if (wait.scheduled_at_ != never) times_.erase({wait.scheduled_at_, &wait});
  wait.scheduled_at_ = never;
}

void IdleWaits::end(IdleWait& wait, bool woken) {
  unschedule(wait);
  wait.woken_ = woken;
  QueuedWaiter& waiter = *std::exchange(wait.waiter_, nullptr);
  ended_.push_back(std::move(waiter.idle));
  waiter.queue.end_pause(waiter);
  attend_();
}

}  // namespace holdfast::sys
