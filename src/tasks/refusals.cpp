#include "tasks/refusals.hpp"

namespace holdfast::tasks {

Error refusal(const StaleFence& stale, std::string_view what) {
  return {ErrorCode::StaleFence,
          std::string(what) + " was not written: the write carries fence " + stale.given.to_string() +
              ", but fence " + stale.highest.to_string() +
              " has been seen. The lock was granted to another holder since; stop working on it"};
}

Error refusal(const WrongLock& wrong, std::string_view what) {
  const auto& guard = wrong.guarded_by;
  return {ErrorCode::WrongLock, std::string(what) + " was not written: it is bound to the lock " +
                                    guard.lock_key + " of the store " + guard.authority + " (highest fence " +
                                    guard.fence.to_string() + "); write under that lock, or rebind it"};
}

Error no_such_task(std::string_view id) {
  return {ErrorCode::NotFound,
          "there is no task " + std::string(id) + " of this owner; it may have expired or been removed"};
}

Error is_over(std::string_view id, TaskStatus status, std::optional<TaskStatus> to) {
  return Error(ErrorCode::InvalidTransition, "the task " + std::string(id) + " is already " +
                                                 std::string(to_string(status)) + " and cannot be changed")
      .between(to_string(status), to ? to_string(*to) : "");
}

}  // namespace holdfast::tasks
