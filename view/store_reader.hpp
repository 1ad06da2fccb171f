#pragma once

#include <chrono>
#include <cstddef>
#include <holdfast/clock.hpp>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>

#include "view/read_pace.hpp"
#include "view/store_model.hpp"

namespace holdfast::view {

/// Reads both clocks.
[[nodiscard]] inline Moment this_moment() {
  return {.boot = BootClock::now(),
          .wall = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now())};
}

/// Performs readings: calls the store and puts the answers into a model. For one thread.
class StoreReader {
 public:
  /// The model must outlive it. More than `max_queues` queues are not counted.
  StoreReader(Holdfast store, std::size_t max_queues, StoreModel& model);

  /// Performs a reading that began at `sent`, and says in `result` what it found and how long the store took,
  /// also if it fails. Throws Error if the store cannot be read; what one user may not see, or one invalid
  /// record, hides nothing else.
  void read(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);

  /// Opens the task store when it is first needed. Throws Error, and is retried by the next call.
  const Tasks& tasks();
  /// Returns how many queues of this round are not counted.
  [[nodiscard]] std::size_t queues_beyond() const noexcept { return queues_beyond_; }

 private:
  /// Calls the store. A server works while this thread sleeps; an embedded store is this thread.
  template <class Call>
  std::invoke_result_t<const Call&> timed(ReadingResult& result, const Call& call);
  void read_locks(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);
  void read_single_locks(std::span<const std::string> hinted, BootTime sent, ReadingResult& result,
                         const std::stop_token& stop);
  /// A user without the right to count sees the locks all the same.
  void count_waiters(std::span<const LockKey> keys, ReadingResult& result, const std::stop_token& stop);
  /// A user without the right to read tasks sees the locks all the same.
  void read_owners(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);
  void read_tasks(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);
  void read_task(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);
  void read_queues(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop);
  void refuse_tasks(BootTime sent);
  void read_failed_tasks(const Queue& queue, std::size_t count, ReadingResult& result,
                         const std::stop_token& stop);
  void count_queue(const std::string& name, BootTime sent, ReadingResult& result,
                   const std::stop_token& stop);

  const Holdfast store_;
  const bool is_server_;
  const std::size_t max_queues_;
  StoreModel& model_;
  std::optional<Tasks> tasks_;
  bool may_count_ = true;
  BootTime tasks_retry_at_ = {};                      ///< after a refusal
  std::size_t queues_found_ = 0, queues_beyond_ = 0;  ///< names, in this round; how many are not counted
  bool counts_all_ = true;                            ///< waiters of locks that were not read, in this round
  BootTime counted_at_ = {};
};

}  // namespace holdfast::view
