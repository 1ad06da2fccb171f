#include "engine/redis/wake_queue.hpp"

#include <algorithm>

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
  if (unused) wake_one();
  if (!was_first || waiters_.empty()) return;
  waiters_.front().first_since = BootClock::now();
  waiters_.front().changed.notify_one();
}

void WakeQueue::wake_one() {
  const auto asleep = std::ranges::find_if(waiters_, [](const Waiter& waiter) { return !waiter.woken; });
  if (asleep == waiters_.end()) return;
  asleep->woken = true;
  asleep->changed.notify_one();
}

bool WakeQueue::sleep(std::unique_lock<std::mutex>& lock, Place place, BootTime look_again_at,
                      BootTime deadline, const std::stop_token& stop, const bool& alone) {
  const BootTime began = BootClock::now();
  // Whoever becomes the first while it sleeps begins its pause anew: the lock has just been taken.
  const auto look_at = [&] {
    if (alone || place->first_since <= began) return look_again_at;
    return place->first_since == never ? never : saturating_add(place->first_since, look_again_at - began);
  };
  // The callback needs the mutex, and registering runs it if the stop came before.
  lock.unlock();
  const std::stop_callback interrupt(stop, [&] {
    const std::lock_guard inner(*lock.mutex());
    place->changed.notify_one();
  });
  lock.lock();
  bool woken = false;
  while (!stop.stop_requested()) {
    if (place->woken) {
      place->woken = false;
      woken = true;
      break;
    }
    const auto left = std::min(look_at(), deadline) - BootClock::now();
    if (left <= BootClock::duration::zero()) break;
    // In slices, because this clock stands still while the machine is suspended.
    place->changed.wait_for(lock, std::min<BootClock::duration>(left, std::chrono::seconds(1)));
  }
  lock.unlock();  // or the callback, if it runs now, could not end
  return woken;
}

}  // namespace holdfast::redis
