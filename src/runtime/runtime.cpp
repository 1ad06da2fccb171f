#include "runtime/runtime.hpp"

#include <algorithm>
#include <holdfast/error.hpp>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace holdfast::runtime {
/// Shared with the job that runs them, which may be the last owner of its own pool.
class Runtime::Continuations {
 public:
  static void add(const std::shared_ptr<Continuations>& self, WorkerPool& pool, std::function<void()> next) {
    // The job is posted under the mutex, so that it cannot take `next`, which may own the pool, before the
    // post has returned.
    const std::lock_guard lock(self->mutex_);
    self->waiting_.push_back(std::move(next));
    if (!std::exchange(self->posted_, true)) pool.post([self] { self->run(); });
  }

 private:
  void run() {
    // Runs until none waits: a second job would run concurrently with this one.
    for (;;) {
      std::vector<std::function<void()>> taken;
      {
        const std::lock_guard lock(mutex_);
        taken.swap(waiting_);
        posted_ = !taken.empty();
      }
      if (taken.empty()) return;
      for (auto& next : taken) std::exchange(next, nullptr)();
    }
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  bool posted_ = false;  ///< a job is posted that will run the waiting ones
};

/// Owns itself until its time has come. Only the timer's thread ends it, so a simultaneous stop request
/// cannot race with that.
class Runtime::Sleep final : public Timed {
 public:
  Sleep(Runtime& runtime, Done<bool> done) : runtime_(runtime), done_(std::move(done)) {}

  void start(BootTime at, const std::stop_token& stop) {
    const std::lock_guard lock(starting_);
    // These come first, because they throw if the machine has no thread: then no callback may remain for an
    // operation that has gone on. After them a thread exists, so a stop request, which must not throw, finds
    // it.
    runtime_.prepare_to_go_on();
    runtime_.timer.schedule(*this, std::min(at, never - BootClock::duration(1)));
    self_ = std::static_pointer_cast<Sleep>(shared_from_this());
    if (stop.stop_possible()) on_stop_.emplace(stop, [this] { runtime_.timer.schedule(*this, BootTime()); });
  }

  BootTime on_time(BootTime) override {
    {
      const std::lock_guard lock(starting_);
    }
    auto keep = std::move(self_);
    if (!keep) return never;
    on_stop_.reset();
    runtime_.timer.cancel(*this);  // a stop request may have come while this was called
    runtime_.go_on([keep = std::move(keep)] { keep->done_(false); });
    return never;
  }

 private:
  Runtime& runtime_;  ///< the operation that sleeps owns it
  Done<bool> done_;
  std::mutex starting_;  ///< held until `start` has finished
  std::shared_ptr<Sleep> self_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

Runtime::Runtime(BootTimer::WhileIdle while_idle)
    : timer(std::move(while_idle)), continuations_(std::make_shared<Continuations>()) {}

void Runtime::sleep_until(BootTime at, std::stop_token stop, Done<bool> done) {
  const auto sleep = std::make_shared<Sleep>(*this, std::move(done));
  sleep->start(at, stop);
}

void Runtime::prepare_to_go_on() {
  if (user_code.ensure_thread()) return;
  throw Error(ErrorCode::Internal, "cannot start the runtime thread");
}

void Runtime::go_on(std::function<void()> next) {
  Continuations::add(continuations_, user_code, std::move(next));
}

bool Runtime::may_run_user_code_here() const noexcept {
  return user_code.runs_here(WorkerPool::Priority::limited);
}

}  // namespace holdfast::runtime
