#include "runtime/worker_pool.hpp"

#include <atomic>
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
thread_local const void* pool_of_this_thread = nullptr;
}  // namespace

LibraryThread::LibraryThread() noexcept : was_one_(std::exchange(is_library_thread, true)) {}
LibraryThread::~LibraryThread() {
  is_library_thread = was_one_;
}

class WorkerPool::State {
 public:
  explicit State(std::size_t max_threads) : max_threads_(max_threads) {}

  static void post(const std::shared_ptr<State>& self, std::function<void()> job) {
    {
      const std::lock_guard lock(self->mutex_);
      self->start_if_none_is_idle(self);
      if (!self->threads_.empty()) return self->enqueue(std::move(job));
    }
    job();
  }

  static bool try_post(const std::shared_ptr<State>& self, std::function<void()> job) {
    const std::lock_guard lock(self->mutex_);
    if (!self->start_if_none_is_idle(self)) return false;
    self->enqueue(std::move(job));
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
    changed_.notify_all();
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
  /// Whether there is a thread that has nothing to do, or will have none before it gets this job.
  bool start_if_none_is_idle(const std::shared_ptr<State>& self) {
    if (idle_ > jobs_.size()) return true;
    return threads_.size() < max_threads_ && start(self);
  }

  bool start(const std::shared_ptr<State>& self) {
    try {
      threads_.push_back(os::start_thread([self] { self->work(); }));
      has_thread_.store(true, std::memory_order_release);
      return true;
    } catch (const std::system_error&) {  // no thread to be had: those that run must do
      return false;
    }
  }

  void enqueue(std::function<void()> job) {
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

  void work() {
    const LibraryThread mark;
    pool_of_this_thread = this;
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
      --idle_;
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = nullptr;  // what it owned goes before the mutex is taken again
      lock.lock();
    }
  }

  const os::ProcessIdentity process_;
  const std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::atomic<bool> has_thread_ = false;
  std::size_t idle_ = 0;
  bool closing_ = false;
};

WorkerPool::WorkerPool(std::size_t max_threads) : state_(std::make_shared<State>(max_threads)) {}

WorkerPool::~WorkerPool() {
  if (state_->in_own_process()) {
    state_->finish();
  } else {
    // The threads are not in this process, and a mutex may be held by one of them: leave it all alone.
    new std::shared_ptr<State>(std::move(state_));
  }
}

void WorkerPool::post(std::function<void()> job) {
  if (in_own_process()) State::post(state_, std::move(job));
}

bool WorkerPool::ensure_thread() {
  return in_own_process() && State::ensure_thread(state_);
}

bool WorkerPool::try_post(std::function<void()> job) {
  return in_own_process() && State::try_post(state_, std::move(job));
}

bool WorkerPool::in_own_process() const noexcept {
  return state_->in_own_process();
}

bool WorkerPool::is_mine() const noexcept {
  return pool_of_this_thread == state_.get();
}

bool WorkerPool::on_library_thread() noexcept {
  return is_library_thread;
}

}  // namespace holdfast::runtime
