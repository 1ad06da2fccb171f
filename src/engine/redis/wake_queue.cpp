#include "engine/redis/wake_queue.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace holdfast::redis {

WakeQueue::Place WakeQueue::enter() {
  waiters_.emplace_back();
  const auto place = std::prev(waiters_.end());
  if (place == waiters_.begin()) place->first_since = BootTime{};
  return place;
}

void WakeQueue::leave(Place place) {
  const bool was_first = place == waiters_.begin();
  const bool unused = place->woken;
  waiters_.erase(place);
  if (unused) pass_on();
  if (!was_first || waiters_.empty()) return;
  waiters_.front().first_since = BootClock::now();
  waiters_.front().poke();
}

void WakeQueue::pass_on() {
  if (wakes_ == Wakes::one) wake();
}

void WakeQueue::wake() {
  if (wakes_ == Wakes::all) {
    for (auto& waiter : waiters_) {
      waiter.woken = true;
      waiter.poke();
    }
    return;
  }
  const auto asleep = std::ranges::find_if(waiters_, [](const Waiter& waiter) { return !waiter.woken; });
  if (asleep == waiters_.end()) return;
  asleep->woken = true;
  asleep->poke();
}

bool WakeQueue::sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline,
                      const std::stop_token& stop, const bool& alone, const Pause& pause) {
  const BootTime began = BootClock::now();
  // Whoever becomes the first while it sleeps begins its pause anew: the lock has just been taken.
  const auto look_at = [&] {
    if (alone || wakes_ == Wakes::all || place->first_since <= began) return look_again_at;
    return place->first_since == never ? never : saturating_add(place->first_since, look_again_at - began);
  };
  // The callback needs the mutex: so it is made and ended without it.
  lock.unlock();
  std::optional<std::stop_callback<std::function<void()>>> interrupt;
  if (stop.stop_possible()) {
    interrupt.emplace(stop, [&] {
      const std::lock_guard inner(*lock.mutex());
      place->poke();
    });
  }
  lock.lock();
  bool woken = false;
  while (!stop.stop_requested()) {
    woken = std::exchange(place->woken, false);
    const BootTime until = std::min(look_at(), deadline);
    if (woken || BootClock::now() >= until) break;
    pause(lock, *place, until);
  }
  if (interrupt) {
    lock.unlock();
    interrupt.reset();
    lock.lock();
  }
  return woken;
}

}  // namespace holdfast::redis
