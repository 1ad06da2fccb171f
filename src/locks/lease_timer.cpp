#include "locks/lease_timer.hpp"

#include <mutex>
#include <set>
#include <utility>

#include "sys/boot_timer.hpp"
#include "sys/process.hpp"

namespace holdfast::locks {

class LeaseTimer::State {
 public:
  void schedule(Timed& target, BootTime at) {
    if (at == never) return cancel(target);
    const std::lock_guard lock(mutex_);
    put(target, at);
    timer_->arm(at);
  }

  void cancel(Timed& target) {
    const std::lock_guard lock(mutex_);
    take(target);
  }

  BootTime run_due(BootTime now) {
    for (;;) {
      std::shared_ptr<Timed> target;
      {
        const std::lock_guard lock(mutex_);
        if (queue_.empty()) return never;
        const auto [at, first] = *queue_.begin();
        if (at > now) return at;
        target = first->weak_from_this().lock();
        take(*first);
      }
      if (!target) continue;  // its destructor is on the way to cancel()
      const BootTime next = target->on_time(now);
      const std::lock_guard lock(mutex_);
      // Unless somebody scheduled it meanwhile, who knew better.
      if (target->scheduled_at_ == never && next != never) put(*target, next);
    }
  }

  void start(const std::shared_ptr<State>& self) {
    timer_ = std::make_unique<sys::BootTimer>([weak = std::weak_ptr(self)](BootTime now) {
      const auto state = weak.lock();
      return state ? state->run_due(now) : never;
    });
  }

  /// Ends the thread; must not be called under the mutex.
  void stop() { timer_.reset(); }

  [[nodiscard]] bool is_home() const noexcept { return home_.is_here(); }

 private:
  void put(Timed& target, BootTime at) {
    take(target);
    queue_.emplace(at, &target);
    target.scheduled_at_ = at;
  }
  void take(Timed& target) {
    if (target.scheduled_at_ == never) return;
    queue_.erase({target.scheduled_at_, &target});
    target.scheduled_at_ = never;
  }

  const sys::Birthplace home_;
  std::mutex mutex_;
  std::set<std::pair<BootTime, Timed*>> queue_;
  std::unique_ptr<sys::BootTimer> timer_;
};

LeaseTimer::LeaseTimer() : state_(std::make_shared<State>()) {
  state_->start(state_);
}

LeaseTimer::~LeaseTimer() {
  if (state_->is_home()) {
    state_->stop();
  } else {
    new std::shared_ptr<State>(std::move(state_));  // see BootTimer: nothing here is usable after a fork
  }
}

void LeaseTimer::schedule(Timed& target, BootTime at) {
  state_->schedule(target, at);
}
void LeaseTimer::cancel(Timed& target) noexcept {
  state_->cancel(target);
}

}  // namespace holdfast::locks
