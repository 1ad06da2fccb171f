#include "runtime/timer_queue.hpp"

#include <sys/timerfd.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/errno_error.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {
namespace {
thread_local bool is_timers_thread = false;
}  // namespace

class BootTimer::State {
 public:
  State(OnDue on_due, WhileIdle while_idle)
      : on_due_(std::move(on_due)), while_idle_(std::move(while_idle)) {}
  ~State() {
    if (fd_ >= 0) ::close(fd_);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static void arm(const std::shared_ptr<State>& self, BootTime at) {
    if (at >= self->armed_at_.load()) return;  // it will fire before, and then ask what is due
    const std::lock_guard lock(self->mutex_);
    if (!self->thread_.joinable()) start(self);
    if (at < self->armed_at_.load()) self->set(at);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (!thread_.joinable()) return;
      set(BootTime());
    }
    if (WorkerPool::on_library_thread()) {
      thread_.detach();  // it shares ownership of this state
    } else {
      thread_.join();
    }
  }

  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  /// Under the mutex. Leaves nothing behind if it fails, so that the next call tries again.
  static void start(const std::shared_ptr<State>& self) {
    if (self->fd_ < 0) self->fd_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (self->fd_ < 0) throw os::errno_error("cannot create a timer");
    try {
      self->thread_ = os::start_thread([self] { self->run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::Internal, "cannot start the lease timer thread", error.what());
    }
  }

  /// Under the mutex. `never` disarms.
  void set(BootTime at) {
    armed_at_ = at;
    itimerspec spec{};
    if (at != never) {
      // A time of zero would disarm it; anything in the past fires at once.
      const auto since = std::max(at.time_since_epoch(), std::chrono::nanoseconds(1));
      const auto whole = std::chrono::floor<std::chrono::seconds>(since);
      spec.it_value = {.tv_sec = whole.count(), .tv_nsec = (since - whole).count()};
    }
    timerfd_settime(fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  void run() {
    const LibraryThread mark;
    is_timers_thread = true;
    call_until_stopped();
    if (while_idle_) while_idle_(-1);
  }

  void call_until_stopped() {
    for (;;) {
      if (while_idle_) while_idle_(fd_);
      std::uint64_t fired = 0;
      [[maybe_unused]] const auto got = ::read(fd_, &fired, sizeof fired);
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        armed_at_ = never;  // every arm() from here on sets the timer again
      }
      const BootTime next = on_due_(BootClock::now());
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (next < armed_at_.load()) set(next);
    }
  }

  const os::ProcessIdentity process_;
  const OnDue on_due_;
  const WhileIdle while_idle_;
  std::mutex mutex_;
  std::thread thread_;
  int fd_ = -1;
  std::atomic<BootTime> armed_at_ =
      never;  ///< changed under the mutex; earlier than `never`: it has a thread
  bool stopping_ = false;
};

BootTimer::BootTimer(OnDue on_due, WhileIdle while_idle)
    : state_(std::make_shared<State>(std::move(on_due), std::move(while_idle))) {}

BootTimer::~BootTimer() {
  if (state_->in_own_process()) {
    state_->stop();
  } else {
    // The thread is not in this process, and may hold the mutex: leak the state untouched.
    new std::shared_ptr<State>(std::move(state_));
  }
}

void BootTimer::arm(BootTime at) {
  State::arm(state_, at);
}

/// The scheduled targets as a binary heap, the next one first. Each knows its place, so that it is removed
/// without a search; scheduling allocates nothing per target.
class TimerQueue::Schedule {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] Timed& first() const noexcept { return *heap_.front(); }
  [[nodiscard]] BootTime next() const noexcept { return heap_.empty() ? never : time_of(*heap_.front()); }

  /// Replaces the target's previous time.
  void put(Timed& target, BootTime at) {
    take(target);
    heap_.push_back(&target);
    target.scheduled_at_.store(at, std::memory_order_relaxed);
    move_up(heap_.size() - 1);
  }

  void take(Timed& target) noexcept {
    if (!is_scheduled(target)) return;
    const auto place = target.place_;
    Timed* const last = heap_.back();
    heap_.pop_back();
    if (last != &target) {
      set(place, last);
      move_up(place);
      move_down(last->place_);
    }
    // The last access: the target's destructor, which does not wait if it reads this, may be running.
    target.scheduled_at_.store(never, std::memory_order_release);
  }

  /// Makes all of them due.
  void expire_all() noexcept {
    for (Timed* target : heap_) target->scheduled_at_.store(BootTime(), std::memory_order_relaxed);
  }

  [[nodiscard]] static bool is_scheduled(const Timed& target) noexcept {
    return target.scheduled_at_.load(std::memory_order_acquire) != never;
  }
  [[nodiscard]] static BootTime time_of(const Timed& target) noexcept {
    return target.scheduled_at_.load(std::memory_order_relaxed);
  }

 private:
  void set(std::size_t place, Timed* target) noexcept {
    heap_[place] = target;
    target->place_ = place;
  }
  void move_up(std::size_t place) noexcept {
    Timed* const moved = heap_[place];
    for (; place > 0; place = (place - 1) / 2) {
      Timed* const above = heap_[(place - 1) / 2];
      if (time_of(*above) <= time_of(*moved)) break;
      set(place, above);
    }
    set(place, moved);
  }
  void move_down(std::size_t place) noexcept {
    Timed* const moved = heap_[place];
    for (;;) {
      auto below = 2 * place + 1;
      if (below >= heap_.size()) break;
      if (below + 1 < heap_.size() && time_of(*heap_[below + 1]) < time_of(*heap_[below])) ++below;
      if (time_of(*moved) <= time_of(*heap_[below])) break;
      set(place, heap_[below]);
      place = below;
    }
    set(place, moved);
  }

  std::vector<Timed*> heap_;
};

class TimerQueue::State {
 public:
  void schedule(Timed& target, BootTime at) {
    if (at == never) return cancel(target);
    const std::lock_guard lock(mutex_);
    if (Schedule::time_of(target) == at) return;
    timer_->arm(at);  // first, because it throws if the machine has no thread
    schedule_.put(target, at);
  }

  void cancel(Timed& target) {
    if (!Schedule::is_scheduled(target)) return;
    const std::lock_guard lock(mutex_);
    schedule_.take(target);
  }

  void call_all_now() {
    const std::lock_guard lock(mutex_);
    if (schedule_.empty()) return;
    schedule_.expire_all();
    timer_->arm(BootTime());
  }

  void after_due(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }

  BootTime run_due(BootTime now) {
    for (int jobs = 0;;) {
      std::shared_ptr<Timed> target;
      std::function<void()> job;
      {
        const std::lock_guard lock(mutex_);
        const BootTime at = schedule_.next();
        if (at <= now) {
          Timed& first = schedule_.first();
          target = first.weak_from_this().lock();
          schedule_.take(first);
          if (!target) continue;  // its destructor is on the way to cancel()
        } else if (!jobs_.empty()) {
          if (jobs++ == jobs_in_a_row) return now;
          job = std::move(jobs_.front());
          jobs_.pop_front();
        } else {
          return at;
        }
      }
      if (job) {
        job();
        job = nullptr;
        now = BootClock::now();
        continue;
      }
      const BootTime next = target->on_time(now);
      const std::lock_guard lock(mutex_);
      // Unless schedule() was called meanwhile: that time is newer.
      if (!Schedule::is_scheduled(*target) && next != never) schedule_.put(*target, next);
    }
  }

  void start(const std::shared_ptr<State>& self, BootTimer::WhileIdle while_idle) {
    timer_ = std::make_unique<BootTimer>(
        [weak = std::weak_ptr(self)](BootTime now) {
          const auto state = weak.lock();
          return state ? state->run_due(now) : never;
        },
        std::move(while_idle));
  }

  /// Ends the thread; must not be called under the mutex.
  void stop() { timer_.reset(); }

  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  /// After this many, the thread's idle work gets its turn: it may have to send what the jobs have begun.
  static constexpr int jobs_in_a_row = 64;

  const os::ProcessIdentity process_;
  std::mutex mutex_;
  Schedule schedule_;
  std::deque<std::function<void()>> jobs_;  ///< for when nothing is due
  std::unique_ptr<BootTimer> timer_;
};

TimerQueue::TimerQueue(BootTimer::WhileIdle while_idle) : state_(std::make_shared<State>()) {
  state_->start(state_, std::move(while_idle));
}

TimerQueue::~TimerQueue() {
  if (state_->in_own_process()) {
    state_->stop();
  } else {
    new std::shared_ptr<State>(std::move(state_));  // see BootTimer: nothing here is usable after a fork
  }
}

void TimerQueue::schedule(Timed& target, BootTime at) {
  state_->schedule(target, at);
}
void TimerQueue::cancel(Timed& target) noexcept {
  state_->cancel(target);
}

void TimerQueue::call_all_now() {
  state_->call_all_now();
}

bool TimerQueue::on_timers_thread() noexcept {
  return is_timers_thread;
}

void TimerQueue::after_due(std::function<void()> job) {
  state_->after_due(std::move(job));
}

}  // namespace holdfast::runtime
