#include "tasks/refusals.hpp"

namespace holdfast::tasks {

Error refusal(const StaleFence& stale, std::string_view what) {
  return {ErrorCode::StaleFence, std::string(what) + " was not written: the write carries fence " +
                                     stale.given.to_string() + ", and it has seen fence " +
                                     stale.highest.to_string() +
                                     "; whoever holds the lock now works on it, so stop"};
}

Error refusal(const WrongLock& wrong, std::string_view what) {
  const auto& guard = wrong.guarded_by;
  return {ErrorCode::WrongLock,
          std::string(what) + " was not written: it is guarded by the lock " + guard.lock_key +
              " of the store " + guard.authority + " (highest fence " + guard.fence.to_string() +
              "); write under that lock, or rebind it (if that store lost its data: task rebind "
              "--from-authority)"};
}

Error no_such_task(std::string_view id) {
  return {ErrorCode::NotFound,
          "there is no task " + std::string(id) + " of this owner; it may have expired or been removed"};
}

Error is_over(std::string_view id, TaskStatus status, std::optional<TaskStatus> to) {
  return Error(ErrorCode::InvalidTransition, "the task " + std::string(id) + " is " +
                                                 std::string(to_string(status)) +
                                                 ", which is final: it changes no more")
      .between(to_string(status), to ? to_string(*to) : "");
}

}  // namespace holdfast::tasks
