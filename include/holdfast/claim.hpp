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

/// A task that this process works on: its lock is held and renewed, and every write through this object
/// carries the lock's fence. Tasks::claim returns one. Claiming raised the fence that the task remembers, so
/// writes of the previous worker are refused from then on. The destructor releases the lock, as Guard's does,
/// and leaves the task as it is, for the next worker.
///
/// @code
/// auto claim = tasks.claim("alice", id, {.ttl = 30s, .wait = 5s});
/// while (!claim.stopped().stop_requested() && !done) {
///   // ... one step of the work ...
///   claim.set_variables(holdfast::Json::parse(R"({"progress": 0.5})").value_or_throw());
/// }
/// if (done) claim.complete(holdfast::Json::parse(R"("done")").value_or_throw());  // and releases
/// @endcode
///
/// *Loss.* stopped() is triggered when the lock is lost, LockOptions::notice before its proof ends: the
/// worker has guard().remaining() to stop. It is also triggered when the task is finished, removed or expires
/// through another process or client, or can no longer be watched. A worker that checks it from time to time
/// does no useless work. A claim whose lock is lost still sends its writes; their fence decides whether they
/// are accepted.
///
/// *Errors.* Writes throw NotFound (the task is gone, even if another task has its id), InvalidTransition (it
/// is final), StaleFence (another worker has claimed it), WrongLock (an operator has bound it to another
/// lock), ConcurrentChange, TooLarge, TooDeep, InvalidArgument, and the errors of the engine (LockBackend).
/// On an empty claim, all functions but stopped(), `operator bool` and release_in_background() give
/// InvalidArgument, and so do writes after the lock was released. In a forked child they give
/// ServiceUnavailable, and the destructor does nothing.
///
/// *Without blocking.* The overloads with a Done complete it once, inline or on a thread of the library, with
/// what the blocking function returns or throws. Text and JSON need to be valid only until the call returns.
/// The claim may be moved or destroyed meanwhile: its end releases the lock, and a write that is under way is
/// then accepted or refused by its fence.
///
/// *Lifetime.* Movable; a moved-from claim is empty. It keeps the engine alive. *Cost:* each write is at
/// least two requests to the engine, one read and one conditional write.
class HOLDFAST_EXPORT Claim {
 public:
  /// Creates an empty claim.
  Claim() noexcept;
  /// Moves the claim; `other` is empty afterwards.
  Claim(Claim&& other) noexcept;
  /// Moves the claim, after it has released the claim that this object had, as the destructor does.
  Claim& operator=(Claim&& other) noexcept;
  /// Releases the lock and leaves the task as it is. Never throws; it may block as Guard's destructor does.
  ~Claim();

  /// Returns false for an empty claim (default-constructed, moved from, released in the background) and after
  /// complete(), fail() or release(). Says nothing about loss.
  [[nodiscard]] explicit operator bool() const noexcept;

  /// Returns the task as it was when it was claimed, or last written through this claim. No I/O.
  [[nodiscard]] Task task() const;
  /// Returns the fence of the lock.
  [[nodiscard]] Fence fence() const;
  /// Returns the fence, with the lock and the authority that it belongs to.
  [[nodiscard]] FencingToken token() const;
  /// Returns a token that is triggered when the work should stop; see above. Not triggered by this claim's
  /// own complete(), fail() or release(). Stop callbacks run on a thread that may block. An empty claim
  /// returns a token without a stop state.
  [[nodiscard]] std::stop_token stopped() const noexcept;
  /// Returns true if the task was cancelled, as far as is known. No I/O.
  [[nodiscard]] bool cancelled() const;
  /// Returns true if the task no longer exists, as far as is known: it was removed, or has expired. Another
  /// task may have its id. No I/O.
  [[nodiscard]] bool gone() const;
  /// Returns the guard of the task's lock, to look at. The reference is valid as long as the claim is not
  /// released in the background, assigned to or destroyed.
  ///
  /// End a claim by its own functions: a guard that is released or detached directly ends the claim's writes,
  /// but the claim is still notified of the task's end, and wait_stopped() waits until the claim is
  /// destroyed.
  [[nodiscard]] Guard& guard();

  /// Changes the status and returns the task. Without a message the old one is removed. A final status
  /// releases the lock, as complete() does.
  Task update_status(TaskStatus status, std::optional<std::string_view> message = {},
                     std::stop_token stop = {});
  /// Merges `changes` into the variables, as Tasks::set_variables, and returns the task.
  Task set_variables(JsonView changes, std::stop_token stop = {});
  /// Marks the task completed with this result, in one write, then releases the lock; returns the task. If
  /// the write fails, the lock is kept; if it was refused because the task is final, gone or another
  /// worker's, stopped() is triggered. If only the release fails, that is not reported: the lock expires with
  /// its lease.
  Task complete(JsonView result, std::optional<std::string_view> message = {}, std::stop_token stop = {});
  /// Marks the task failed, then releases the lock, as complete() does.
  Task fail(std::optional<std::string_view> message = {}, std::stop_token stop = {});
  /// Marks the task failed with a result that describes the failure, in one write, then releases the lock, as
  /// complete() does.
  Task fail_with_result(JsonView result, std::optional<std::string_view> message = {},
                        std::stop_token stop = {});
  /// Releases the lock and leaves the task as it is. Returns false if the store had no lock of this claim any
  /// more.
  /// Throws the errors of Guard::release; the lock then expires with its lease. A stop request ends the
  /// waiting, not the release, which continues in the background.
  bool release(std::stop_token stop = {});

  // The same without blocking.

  /// Starts update_status() and completes `done` with its result.
  void update_status(TaskStatus status, std::optional<std::string_view> message, std::stop_token stop,
                     Done<Task> done);
  /// Starts set_variables() and completes `done` with its result.
  void set_variables(JsonView changes, std::stop_token stop, Done<Task> done);
  /// Starts complete() and completes `done` with its result, after the release.
  void complete(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                Done<Task> done);
  /// Starts fail() and completes `done` with its result, after the release.
  void fail(std::optional<std::string_view> message, std::stop_token stop, Done<Task> done);
  /// Starts fail_with_result() and completes `done` with its result, after the release.
  void fail_with_result(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                        Done<Task> done);
  /// Starts release() and completes `done` with its result. A stop request ends the waiting, not the release,
  /// which continues in the background.
  void release(std::stop_token stop, Done<bool> done);

  /// Completes `done` when stopped() is triggered, immediately if it already is. Fails with Aborted when the
  /// claim ends first, and on a stop request, which leaves the claim as it is.
  void wait_stopped(std::stop_token stop, Done<Ok> done) const;

  /// Releases the lock in the background: returns at once and leaves the claim empty. Does nothing for an
  /// empty claim.
  void release_in_background() noexcept;

 private:
  friend class ClaimedTask;
  explicit Claim(std::shared_ptr<ClaimedTask> claimed) noexcept;
  [[nodiscard]] std::optional<Error> unusable() const;
  const std::shared_ptr<ClaimedTask>& claimed() const;
  std::shared_ptr<ClaimedTask> claimed_;
};

}  // namespace holdfast
