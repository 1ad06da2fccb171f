#pragma once

#include <chrono>
#include <holdfast/job.hpp>
#include <holdfast/queue_requests.hpp>
#include <optional>
#include <variant>

#include "tasks/record.hpp"

namespace holdfast::queue {

/// How long a task is not claimable after its attempt failed: 1 s · 2^attempt, at most 10 min, of which half
/// is random. `random` is in [0, 1).
[[nodiscard]] std::chrono::milliseconds backoff(std::uint32_t attempt, double random) noexcept;

/// The outcome of one attempt: one request that writes it and ends the lease, with the version that the
/// holder knows. After a conflict the record is read and decided again. Decides only; no I/O.
class EndLoop {
 public:
  struct Read {};
  struct Finished {
    Result<Task> result;
  };
  using Action = std::variant<EndLease, Read, Finished>;

  static constexpr int max_conflicts = 50;

  struct Attempt {
    RecordKey key;
    Task task;  ///< as the holder knows it
    FencingToken token;
  };
  /// `then`: how to claim the next task in the same step. `random`: for the backoff. `max_dead`: how many
  /// dead letters the queue keeps.
  EndLoop(Attempt attempt, operation::EndJob what, std::optional<ClaimTerms> then, double random,
          std::size_t max_dead = QueueOptions{}.max_dead)
      : attempt_(std::move(attempt)),
        what_(std::move(what)),
        then_(std::move(then)),
        random_(random),
        max_dead_(max_dead) {}

  [[nodiscard]] Action start(WallTime now) { return decide(now); }
  /// What the read returned.
  [[nodiscard]] Action resume(const Result<std::optional<StoredRecord>>& answer, WallTime now);
  [[nodiscard]] Action resume(const Result<EndOutcome>& answer);

 private:
  /// By the task as it is known, which may be final: then nothing of it is written.
  [[nodiscard]] Action decide(WallTime now);
  [[nodiscard]] Action send(WallTime now);
  /// For a task that another client has ended: the lease ends, the record stays as it is.
  [[nodiscard]] Action tidy_up(WallTime now);
  [[nodiscard]] bool is_last_attempt() const noexcept;
  [[nodiscard]] std::optional<std::string> final_message() const;
  /// Whether the task, which is final, has the outcome of this attempt: an earlier copy of it was accepted.
  [[nodiscard]] bool has_our_outcome() const;

  Attempt attempt_;
  operation::EndJob what_;
  std::optional<ClaimTerms> then_;
  double random_;
  std::size_t max_dead_;
  int conflicts_ = 0;
  std::optional<Error> over_;  ///< the task was ended by another client
  Task edited_;                ///< as it will be if the request succeeds
};

}  // namespace holdfast::queue
