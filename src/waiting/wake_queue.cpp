#include "waiting/wake_queue.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace holdfast::waiting {

std::unique_ptr<IdleWait> IdleWaits::make(BootTime look_again_at, BootTime deadline,
                                          const std::stop_token& stop, Done<bool> done) {
  std::unique_ptr<IdleWait> wait(new IdleWait(look_again_at, deadline, stop, std::move(done)));
  if (stop.stop_possible()) {
    // Registered before the wait begins: afterwards it may end and be destroyed at any moment. A request that
    // comes in between finds no wait to end, and `begin` finds the request.
    wait->on_stop_.emplace(stop, [this, raw = wait.get()] {
      const std::lock_guard lock(mutex_);
      if (raw->waiter_ != nullptr) end(*raw, false);
    });
  }
  return wait;
}

bool IdleWaits::end_due(BootTime now, BootTime polls_from) {
  bool any_polls = false;
  while (!times_.empty() && times_.begin()->first <= now) {
    IdleWait& wait = *times_.begin()->second;
    QueuedWaiter& waiter = *wait.waiter_;
    const bool may_poll = polls_from <= now;
    if (may_poll ? waiter.queue.is_over(waiter, now) : wait.deadline_ <= now) {
      any_polls |= wait.deadline_ > now;
      end(wait, false);
    } else {
      schedule(wait, waiter.queue.ends_at(waiter, polls_from));
    }
  }
  return any_polls;
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

WakeQueue::Place WakeQueue::enter(std::uint64_t number) {
  const auto place = waiters_
                         .emplace(std::piecewise_construct, std::forward_as_tuple(number),
                                  std::forward_as_tuple(*this, number))
                         .first;
  not_woken_.emplace(number, &place->second);
  if (place == waiters_.begin()) {
    place->second.first_since = BootTime{};
    if (const auto second = std::next(place); second != waiters_.end()) second->second.first_since = never;
  }
  return place;
}

void WakeQueue::leave(Place place) {
  const bool was_first = place == waiters_.begin();
  const bool unused = place->second.woken;
  not_woken_.erase(place->first);
  waiters_.erase(place);
  if (unused && wakes_ == Wakes::one) wake();
  if (!was_first || waiters_.empty()) return;
  auto& first = waiters_.begin()->second;
  first.first_since = BootClock::now();
  reconsider(first);
}

void WakeQueue::reconsider(QueuedWaiter& waiter) {
  if (waiter.idle) {
    idle_waits_.schedule(*waiter.idle, ends_at(waiter));
  } else {
    waiter.poke();
  }
}

void WakeQueue::pass_on(Place place) {
  if (wakes_ == Wakes::all) return;
  auto next = not_woken_.begin();
  if (next != not_woken_.end() && next->second == &place->second) ++next;
  if (next != not_woken_.end()) wake(*next->second);
}

void WakeQueue::wake(std::size_t reasons) {
  if (reasons == 0) return;
  if (wakes_ == Wakes::all) {
    for (auto& [number, waiter] : waiters_) wake(waiter);
    return;
  }
  // A waiter whose wait has just ended may get the next reason too, before it tries: it passes that on.
  for (; reasons > 0 && !not_woken_.empty(); --reasons) wake(*not_woken_.begin()->second);
}

void WakeQueue::wake(QueuedWaiter& waiter) {
  looked_at_ = BootClock::now();  // it tries, or passes the wake-up on to a waiter that does
  if (waiter.idle) return idle_waits_.end(*waiter.idle, true);
  if (!std::exchange(waiter.woken, true)) not_woken_.erase(waiter.number);
  waiter.poke();
}

bool WakeQueue::notice(QueuedWaiter& waiter) {
  if (!std::exchange(waiter.woken, false)) return false;
  not_woken_.emplace(waiter.number, &waiter);
  return true;
}

void WakeQueue::set_silent(bool silent) {
  if (std::exchange(silent_, silent) == silent || !silent) return;
  for (auto& [number, waiter] : waiters_) reconsider(waiter);
}

void WakeQueue::begin_pause(QueuedWaiter& waiter, BootTime began, BootTime look_again_at, BootTime deadline) {
  looked_at_ = std::max(looked_at_, began);                       // the waiter has just been refused
  if (wakes_ == Wakes::all || look_again_at >= deadline) return;  // it polls for no other, or not at all
  waiter.pause = std::max(look_again_at - began, BootClock::duration::zero());
  pauses_.emplace(std::pair(waiter.pause, waiter.number), &waiter);
}

void WakeQueue::end_pause(QueuedWaiter& waiter) {
  const auto found = pauses_.find({waiter.pause, waiter.number});
  if (found == pauses_.end()) return;
  const bool was_shortest = found == pauses_.begin();
  pauses_.erase(found);
  if (was_shortest && !pauses_.empty()) reconsider(*pauses_.begin()->second);
}

BootTime WakeQueue::look_at(const QueuedWaiter& waiter, BootTime began, BootTime look_again_at) const {
  if (silent_ || wakes_ == Wakes::all || waiter.first_since <= began) return look_again_at;
  BootTime at = never;
  // A waiter that becomes the first while it sleeps restarts its pause: the lock has just been acquired.
  if (waiter.first_since != never) at = saturating_add(waiter.first_since, look_again_at - began);
  if (!pauses_.empty() && pauses_.begin()->second == &waiter) {
    at = std::min(at, saturating_add(looked_at_, waiter.pause));
  }
  return at;
}

BootTime WakeQueue::ends_at(const QueuedWaiter& waiter, BootTime polls_from) const {
  const IdleWait& wait = *waiter.idle;
  const BootTime poll_at = std::max(look_at(waiter, wait.began_, wait.look_again_at_), polls_from);
  return std::min(poll_at, wait.deadline_);
}

bool WakeQueue::is_over(const QueuedWaiter& waiter, BootTime now) {
  const IdleWait& wait = *waiter.idle;
  if (look_at(waiter, wait.began_, wait.look_again_at_) > now) return wait.deadline_ <= now;
  looked_at_ = std::max(looked_at_, now);
  return true;
}

bool WakeQueue::sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline,
                      const std::stop_token& stop, const Pause& pause) {
  QueuedWaiter& waiter = place->second;
  const BootTime began = BootClock::now();
  // The callback locks the mutex, so it is constructed and destroyed without it.
  lock.unlock();
  std::optional<std::stop_callback<std::function<void()>>> interrupt;
  if (stop.stop_possible()) {
    interrupt.emplace(stop, [&] {
      const std::lock_guard inner(*lock.mutex());
      waiter.poke();
    });
  }
  lock.lock();
  begin_pause(waiter, began, look_again_at, deadline);
  bool woken = false;
  while (!stop.stop_requested()) {
    woken = notice(waiter);
    const BootTime look = look_at(waiter, began, look_again_at);
    const BootTime now = BootClock::now();
    if (look <= now) looked_at_ = std::max(looked_at_, now);
    if (woken || std::min(look, deadline) <= now) break;
    pause(lock, waiter, std::min(look, deadline));
  }
  end_pause(waiter);
  if (interrupt) {
    lock.unlock();
    interrupt.reset();
    lock.lock();
  }
  return woken;
}

std::unique_ptr<IdleWait> WakeQueue::begin(Place place, std::unique_ptr<IdleWait> wait) {
  QueuedWaiter& waiter = place->second;
  if (wait->stop_.stop_requested()) return wait;
  wait->woken_ = notice(waiter);
  if (wait->woken_) return wait;
  begin_pause(waiter, wait->began_, wait->look_again_at_, wait->deadline_);
  waiter.idle = std::move(wait);
  if (is_over(waiter, BootClock::now())) {
    auto over = std::move(waiter.idle);
    end_pause(waiter);
    return over;
  }
  waiter.idle->waiter_ = &waiter;
  idle_waits_.schedule(*waiter.idle, ends_at(waiter));
  return nullptr;
}

}  // namespace holdfast::waiting
