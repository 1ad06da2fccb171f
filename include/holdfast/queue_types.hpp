#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/json.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// The text in the following structs needs to be valid only until the call that takes them returns, as in
// <holdfast/task_types.hpp>.

/// The initial values of a task of a queue, for Queue::add.
struct NewQueueTask {
  /// What is to be done, in the caller's words: at most 1024 bytes of UTF-8 (InvalidArgument).
  std::string_view method = {};
  /// The variables: a JSON object, or null for none. Checked as in Tasks::create.
  JsonView variables = {};
  /// Tasks of a higher priority are claimed first: -1000 to 1000 (InvalidArgument). Strict: under a lasting
  /// load of higher ones, a task of a lower priority is never claimed.
  std::int32_t priority = 0;
  /// Not claimable before this time has passed.
  std::chrono::milliseconds delay{};
  /// How many attempts the task has: 1 to 1,000,000 (InvalidArgument). After the last one it is failed.
  std::uint32_t max_attempts = 5;
  /// The longest time that one attempt may take: its job is stopped then. Zero: no limit.
  std::chrono::milliseconds attempt_limit{};
  /// After this time from when it is due, an unfinished task is failed.
  std::chrono::milliseconds max_age = std::chrono::days(14);
  /// How long the task is kept after its end, if it is completed or cancelled.
  std::chrono::milliseconds retention = std::chrono::days(1);
  /// How long it is kept as a dead letter, if it is failed.
  std::chrono::milliseconds failed_retention = std::chrono::days(14);
  /// Makes `add` repeatable: see NewTask::request_key. Keys of different queues are independent.
  std::string_view request_key = {};
  /// For whom the work is done; at most 512 bytes of UTF-8 without NUL bytes (InvalidArgument). For people
  /// and for the worker.
  std::string_view requester = {};
  /// Limits how many tasks with this key are worked on at once, for example the id of a customer: at most
  /// `limit` have a lease. The others wait in QueuePlace::parked, and other tasks pass them. Empty: no such
  /// limit. At most 256 bytes of UTF-8 (InvalidArgument); keys of different queues are independent.
  std::string_view limit_key = {};
  /// The limit of the key: 1 to 1,000,000 (InvalidArgument). Use the same for all tasks of a key: each task's
  /// own counts when it is claimed.
  std::uint32_t limit = 1;
};
template <>
struct detail::MembersOf<NewQueueTask> {
  static auto of(auto& task) {
    auto& [method, variables, priority, delay, max_attempts, attempt_limit, max_age, retention,
           failed_retention, request_key, requester, limit_key, limit] = task;
    return std::tie(method, variables, priority, delay, max_attempts, attempt_limit, max_age, retention,
                    failed_retention, request_key, requester, limit_key, limit);
  }
};

/// How to claim tasks of a queue.
struct ClaimOptions {
  /// How long a job's lease lasts without renewal, and so at most after the end of its process. Renewed while
  /// the job lives; as the ttl of a lock.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  /// How much time the worker needs to stop: Job::stopped() is triggered this long before the lease's proof
  /// ends, and from then on it is not renewed. If not set: a sixth of the lease, or of the attempt's time
  /// limit if that is shorter, at most 5 s. Zero: shortly before the end. More than a third of the lease is
  /// InvalidArgument; a shorter time limit of the attempt allows a third of that.
  std::optional<std::chrono::milliseconds> notice = std::nullopt;
  /// How long to wait for a task if none can be claimed. Zero: not at all. See no_time_limit.
  std::chrono::milliseconds wait{};
  /// A label of the worker, for people: at most 256 bytes of UTF-8. Empty: the holder label of the locks.
  std::string_view worker = {};
  /// Whether the work ends with this process. Then an SQLite store gives the task to another worker as soon
  /// as this process has ended, without waiting for the lease to expire; as a death of the worker. See
  /// Queue::process_mark.
  bool ends_with_process = true;
};
template <>
struct detail::MembersOf<ClaimOptions> {
  static auto of(auto& how) {
    auto& [lease, notice, wait, worker, ends_with_process] = how;
    return std::tie(lease, notice, wait, worker, ends_with_process);
  }
};

/// When a task is attempted again, for Job::retry.
struct RetryOptions {
  /// How long the task is not claimable. Empty: 1 s · 2^attempt, at most 10 min, of which half is random.
  std::optional<std::chrono::milliseconds> delay = std::nullopt;
  /// Why this attempt failed: the new status message.
  std::optional<std::string_view> message = std::nullopt;
};
template <>
struct detail::MembersOf<RetryOptions> {
  static auto of(auto& how) {
    auto& [delay, message] = how;
    return std::tie(delay, message);
  }
};

/// Limits of a Queue object. They are checked by this object, not stored: every process should use the same.
struct QueueOptions {
  /// Tasks of the queue, finished ones included; beyond it, `add` fails with QuotaExceeded. Zero: no limit.
  std::size_t max_tasks = 100'000;
  /// Failed tasks that the queue keeps as dead letters; beyond it, a task that fails removes the oldest of
  /// them. Zero: no limit.
  std::size_t max_dead = 10'000;
  /// The limits of variables and messages; the others of its members do not count.
  TaskOptions tasks = {};
};

/// One page of the names of queues.
struct QueuePage {
  /// The names, in no particular order.
  std::vector<std::string> queues;
  /// The cursor of the next page; empty on the last one.
  std::string cursor;
};

}  // namespace holdfast
