#pragma once

#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>

namespace holdfast {

class ClaimedTask;

/// A task that somebody works on: its lock is held and renewed, and every write through this carries the
/// lock's fence. Claiming raised the record's fence, so whoever had it before can no longer write. Movable; a
/// moved-from claim is empty. The destructor releases the lock, as Guard's does, and leaves the task as it
/// is, for the next.
///
/// `stopped()` is triggered when the lock is lost, and when the task ends or disappears by somebody else's
/// hand: a worker that looks at it from time to time does no useless work. Stop callbacks run on a thread
/// that may block.
class HOLDFAST_EXPORT Claim {
 public:
  Claim() noexcept;
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  [[nodiscard]] explicit operator bool() const noexcept { return claimed_ != nullptr; }

  /// As it was when it was claimed, or last written through this.
  [[nodiscard]] Task task() const;
  [[nodiscard]] Fence fence() const;
  /// The fence, with the lock and the authority that it belongs to.
  [[nodiscard]] FencingToken token() const;
  [[nodiscard]] std::stop_token stopped() const noexcept;
  /// True if the task was cancelled, as far as is known.
  [[nodiscard]] bool cancelled() const;
  /// True if the task is no longer there, as far as is known: it was removed, or has expired. Another may
  /// have its id.
  [[nodiscard]] bool gone() const;
  /// The lock. Releasing it ends the claim.
  [[nodiscard]] Guard& guard();

  Task update_status(TaskStatus status, std::optional<std::string_view> message = {},
                     std::stop_token stop = {});
  Task set_variables(JsonView changes, std::stop_token stop = {});
  /// These end the task and then release the lock. If the write is refused, the claim stays as it is.
  Task complete(JsonView result, std::optional<std::string_view> message = {}, std::stop_token stop = {});
  Task fail(std::optional<std::string_view> message = {}, std::stop_token stop = {});
  /// Failed, with a result that says more.
  Task fail_with_result(JsonView result, std::optional<std::string_view> message = {},
                        std::stop_token stop = {});
  /// Gives the task back, as it is. False if the lock was lost already.
  bool release(std::stop_token stop = {});

  // The same without blocking: `done` is completed once, inline or on a thread of the library, with what the
  // function above returns or throws. The claim may end or move meanwhile; it ends the lock then, and what is
  // under way counts or is refused.

  void update_status(TaskStatus status, std::optional<std::string_view> message, std::stop_token stop,
                     Done<Task> done);
  void set_variables(JsonView changes, std::stop_token stop, Done<Task> done);
  void complete(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                Done<Task> done);
  void fail(std::optional<std::string_view> message, std::stop_token stop, Done<Task> done);
  void fail_with_result(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                        Done<Task> done);
  /// A stop request ends the waiting, not the release: that goes on in the background.
  void release(std::stop_token stop, Done<bool> done);

  /// What the destructor does, but in the background: returns at once and leaves the claim empty.
  void release_in_background() noexcept;

 private:
  friend class ClaimedTask;
  explicit Claim(std::shared_ptr<ClaimedTask> claimed) noexcept;
  [[nodiscard]] std::optional<Error> unusable() const;
  const std::shared_ptr<ClaimedTask>& claimed() const;
  std::shared_ptr<ClaimedTask> claimed_;
};

}  // namespace holdfast
