#include "runtime/worker_pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/process.hpp"
#include "os/thread.hpp"

namespace holdfast::runtime {
namespace {
thread_local bool is_library_thread = false;
struct RunningJob {
  const void* pool = nullptr;
  WorkerPool::Priority priority = WorkerPool::Priority::first;
};
thread_local RunningJob job_of_this_thread;
}  // namespace

LibraryThread::LibraryThread() noexcept : was_one_(std::exchange(is_library_thread, true)) {}
LibraryThread::~LibraryThread() {
  is_library_thread = was_one_;
}

class WorkerPool::State {
 public:
  State(std::size_t max_threads, std::size_t max_limited, std::size_t kept_free,
        std::chrono::milliseconds longest_idle)
      : max_threads_(max_threads),
        max_limited_(max_limited),
        kept_free_(kept_free),
        longest_idle_(longest_idle) {}

  static void post(const std::shared_ptr<State>& self, std::function<void()> job, Priority priority) {
    {
      const std::lock_guard lock(self->mutex_);
      self->start_if_none_is_idle(self, priority);
      if (self->may_take(priority) > 0) return self->enqueue(std::move(job), priority);
    }
    job();
  }

  static bool try_post(const std::shared_ptr<State>& self, std::function<void()> job, Priority priority) {
    const std::lock_guard lock(self->mutex_);
    if (priority == Priority::limited && self->limited_running_ + self->limited_.size() >= self->max_limited_)
      return false;
    if (!self->start_if_none_is_idle(self, priority)) return false;
    self->enqueue(std::move(job), priority);
    return true;
  }

  static bool ensure_thread(const std::shared_ptr<State>& self) {
    if (self->has_thread_.load(std::memory_order_acquire)) return true;
    const std::lock_guard lock(self->mutex_);
    return !self->threads_.empty() || self->start(self);
  }

  void finish() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      threads.swap(threads_);
    }
    next_needed_.notify_all();
    spare_needed_.notify_all();
    const auto self = std::this_thread::get_id();
    const bool inside = is_library_thread;
    for (auto& thread : threads) {
      if (inside || thread.get_id() == self) {
        thread.detach();  // it shares ownership of this state
      } else {
        thread.join();
      }
    }
  }

  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  /// How many of the current threads may run jobs of that priority at once.
  [[nodiscard]] std::size_t may_take(Priority priority) const noexcept {
    if (priority == Priority::first) return threads_.size();
    if (closing_) return max_limited_;  // every posted job is finished by threads that are joined elsewhere
    return std::min(max_limited_, threads_.size() - std::min(threads_.size(), kept_free_));
  }

  /// Whether the job finds a thread that is idle, or will be idle before its next job; starts one if needed.
  bool start_if_none_is_idle(const std::shared_ptr<State>& self, Priority priority) {
    if (priority == Priority::first) return idle_ > ready() || start_another(self);
    const auto limited = limited_running_ + limited_.size();
    if (limited >= max_limited_) return false;
    if (may_take(priority) > limited && idle_ > ready()) return true;
    // The threads that are kept free start before one for the job.
    while (threads_.size() < kept_free_) {
      if (!start_another(self)) return false;
    }
    return start_another(self);
  }
  bool start_another(const std::shared_ptr<State>& self) {
    return threads_.size() < max_threads_ && start(self);
  }

  bool start(const std::shared_ptr<State>& self) {
    try {
      threads_.push_back(os::start_thread([self] { self->work(); }));
      has_thread_.store(true, std::memory_order_release);
      return true;
    } catch (const std::system_error&) {  // no further thread: the running ones must do
      return false;
    }
  }

  void enqueue(std::function<void()> job, Priority priority) {
    (priority == Priority::first ? first_ : limited_).push_back(std::move(job));
    (next_waits_ && ready() == 1 ? next_needed_ : spare_needed_).notify_one();
  }

  /// The jobs that an idle thread could begin now.
  [[nodiscard]] std::size_t ready() const noexcept {
    const auto limit = may_take(Priority::limited);
    return first_.size() + std::min(limited_.size(), limit - std::min(limit, limited_running_));
  }

  void work() {
    const LibraryThread mark;
    std::unique_lock lock(mutex_);
    while (wait_for_job(lock)) {
      const auto priority = first_.empty() ? Priority::limited : Priority::first;
      auto& queue = priority == Priority::first ? first_ : limited_;
      auto job = std::move(queue.front());
      queue.pop_front();
      if (priority == Priority::limited) ++limited_running_;
      lock.unlock();
      job_of_this_thread = {.pool = this, .priority = priority};
      job();
      job = nullptr;  // its captures are destroyed before the mutex is locked again
      job_of_this_thread = {};
      lock.lock();
      if (priority == Priority::limited) --limited_running_;
    }
  }

  /// False if the thread should end. One idle thread takes the next job; the others are spare, and end after
  /// a while without work.
  bool wait_for_job(std::unique_lock<std::mutex>& lock) {
    ++idle_;
    bool stays = true;
    while (stays && !closing_ && ready() == 0) {
      if (!next_waits_) {
        next_waits_ = true;
        next_needed_.wait(lock);
        next_waits_ = false;
      } else if (spare_needed_.wait_for(lock, longest_idle_) == std::cv_status::timeout) {
        stays = closing_ || ready() > 0 || !next_waits_;
      }
    }
    --idle_;
    if (stays) return ready() > 0;
    const auto mine = std::ranges::find(threads_, std::this_thread::get_id(), &std::thread::get_id);
    mine->detach();  // it shares ownership of this state
    threads_.erase(mine);
    return false;
  }

  const os::ProcessIdentity process_;
  const std::size_t max_threads_;
  const std::size_t max_limited_;
  const std::size_t kept_free_;
  const std::chrono::milliseconds longest_idle_;  ///< of a spare thread
  std::mutex mutex_;
  std::condition_variable next_needed_;
  std::condition_variable spare_needed_;
  bool next_waits_ = false;
  std::deque<std::function<void()>> first_;
  std::deque<std::function<void()>> limited_;
  std::size_t limited_running_ = 0;
  std::vector<std::thread> threads_;
  std::atomic<bool> has_thread_ = false;
  std::size_t idle_ = 0;
  bool closing_ = false;
};

WorkerPool::WorkerPool(std::size_t max_threads, std::size_t max_limited, std::size_t kept_free,
                       std::chrono::milliseconds longest_idle)
    : state_(std::make_shared<State>(max_threads, max_limited, kept_free, longest_idle)) {}

WorkerPool::~WorkerPool() {
  if (state_->in_own_process()) {
    state_->finish();
  } else {
    // The threads are not in this process, and one of them may hold the mutex: leak the state untouched.
    new std::shared_ptr<State>(std::move(state_));
  }
}

void WorkerPool::post(std::function<void()> job, Priority priority) {
  if (in_own_process()) State::post(state_, std::move(job), priority);
}

bool WorkerPool::ensure_thread() {
  return in_own_process() && State::ensure_thread(state_);
}

bool WorkerPool::try_post(std::function<void()> job, Priority priority) {
  return in_own_process() && State::try_post(state_, std::move(job), priority);
}

bool WorkerPool::in_own_process() const noexcept {
  return state_->in_own_process();
}

bool WorkerPool::runs_here(Priority priority) const noexcept {
  return job_of_this_thread.pool == state_.get() && job_of_this_thread.priority == priority;
}

bool WorkerPool::on_library_thread() noexcept {
  return is_library_thread;
}

}  // namespace holdfast::runtime
