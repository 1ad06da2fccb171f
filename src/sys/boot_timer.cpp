#include "sys/boot_timer.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

#include "sys/errno_error.hpp"
#include "sys/process.hpp"
#include "sys/thread.hpp"
#include "sys/worker_pool.hpp"

namespace holdfast::sys {

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
    const std::lock_guard lock(self->mutex_);
    if (!self->thread_.joinable()) start(self);
    if (at < self->armed_at_) self->set(at);
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

  [[nodiscard]] bool is_home() const noexcept { return home_.is_here(); }

 private:
  /// Under the mutex. Leaves nothing behind if it fails, so that the next call tries again.
  static void start(const std::shared_ptr<State>& self) {
    if (self->fd_ < 0) self->fd_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (self->fd_ < 0) throw Error(ErrorCode::Internal, "cannot create a timer", errno_error({}).cause());
    try {
      self->thread_ = start_thread([self] { self->run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::Internal, "cannot start the thread that watches over leases", error.what());
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
        armed_at_ = never;  // whatever is armed from here on counts anew
      }
      const BootTime next = on_due_(BootClock::now());
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (next < armed_at_) set(next);
    }
  }

  const Birthplace home_;
  const OnDue on_due_;
  const WhileIdle while_idle_;
  std::mutex mutex_;
  std::thread thread_;
  int fd_ = -1;
  BootTime armed_at_ = never;
  bool stopping_ = false;
};

BootTimer::BootTimer(OnDue on_due, WhileIdle while_idle)
    : state_(std::make_shared<State>(std::move(on_due), std::move(while_idle))) {}

BootTimer::~BootTimer() {
  if (state_->is_home()) {
    state_->stop();
  } else {
    // The thread is not in this process, and may hold the mutex: leave it all alone.
    new std::shared_ptr<State>(std::move(state_));
  }
}

void BootTimer::arm(BootTime at) {
  State::arm(state_, at);
}

}  // namespace holdfast::sys
