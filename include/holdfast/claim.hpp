#pragma once

#include <holdfast/guard.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace holdfast {

class ClaimedTask;

/// A task that somebody works on: its lock is held and renewed, and every write through this carries the
/// lock's fence. Claiming raised the record's fence, so whoever had it before can no longer write. Movable; a
/// moved-from claim is empty. The destructor releases the lock and leaves the task as it is, for the next.
///
/// `stopped()` is triggered when the lock is lost, and when the task ends or disappears by somebody else's
/// hand: a worker that looks at it from time to time does no useless work. Stop callbacks run on a thread
/// that may block.
class Claim {
 public:
  Claim() noexcept;
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  [[nodiscard]] explicit operator bool() const noexcept { return claimed_ != nullptr; }

  /// As it was when it was claimed, or last written through this.
  [[nodiscard]] Task task() const;
  [[nodiscard]] FencingToken fence() const;
  [[nodiscard]] std::stop_token stopped() const noexcept;
  /// True if the task was cancelled, as far as is known.
  [[nodiscard]] bool cancelled() const;
  /// The lock. Releasing it ends the claim.
  [[nodiscard]] Guard& guard();

  Task update_status(TaskStatus status, std::optional<std::string> message = {});
  Task set_variables(const Json& changes);
  /// These end the task and then release the lock. If the write is refused, the claim stays as it is.
  Task complete(const Json& result, std::optional<std::string> message = {});
  Task fail(std::optional<std::string> message = {});
  /// Failed, with a result that says more.
  Task fail_with_result(const Json& result, std::optional<std::string> message = {});
  /// Gives the task back, as it is. False if the lock was lost already.
  bool release();

 private:
  friend class Tasks;
  explicit Claim(std::unique_ptr<ClaimedTask> claimed) noexcept;
  ClaimedTask& claimed() const;
  std::unique_ptr<ClaimedTask> claimed_;
};

}  // namespace holdfast
