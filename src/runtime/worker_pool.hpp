#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace holdfast::runtime {

/// Background threads, started when there is work and none is idle, up to a limit. All but one end after
/// being idle for a while. They block all signals, so that the program's own threads get them. Jobs must not
/// throw.
class WorkerPool {
 public:
  enum class Priority : std::uint8_t {
    first,    ///< before the limited ones, on any thread
    limited,  ///< on at most `max_limited` threads at once, and never on the last `kept_free`
  };

  explicit WorkerPool(std::size_t max_threads) : WorkerPool(max_threads, max_threads) {}
  WorkerPool(std::size_t max_threads, std::size_t max_limited, std::size_t kept_free = 0,
             std::chrono::milliseconds longest_idle = std::chrono::seconds(10));
  /// Waits until all posted jobs are finished; on one of the pool's own threads it does not wait. In a forked
  /// child it does nothing.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs the job on one of the threads; on the calling thread only if the machine has no free thread and the
  /// pool has none yet that this job may use.
  /// In a forked child the job is dropped.
  void post(std::function<void()> job, Priority priority = Priority::first);
  /// Ensures that the pool has a thread, so that no job runs on the thread that posts it. False if the
  /// machine has none. Costs one load once the pool has a thread.
  [[nodiscard]] bool ensure_thread();
  /// For a job that may take long: returns false, and does nothing, if no thread is free at once.
  [[nodiscard]] bool try_post(std::function<void()> job, Priority priority = Priority::first);
  [[nodiscard]] bool in_own_process() const noexcept;
  /// True inside a job of this pool that has this priority.
  [[nodiscard]] bool runs_here(Priority priority) const noexcept;

  /// True on any thread of the library (of a pool, or marked with LibraryThread).
  [[nodiscard]] static bool on_library_thread() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
};

/// Marks the current thread as one of the library for its lifetime.
class LibraryThread {
 public:
  LibraryThread() noexcept;
  ~LibraryThread();
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;

 private:
  const bool was_one_;
};

}  // namespace holdfast::runtime
