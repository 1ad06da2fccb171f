#include "tasks/refusals.hpp"

namespace holdfast::tasks {

Error refusal(const FenceRefused& refused, std::string_view what) {
  const auto& lock = refused.bound_to;
  if (refused.why == ErrorCode::StaleFence) {
    return {ErrorCode::StaleFence,
            std::string(what) + " was not written: the write carries fence " + refused.given.to_string() +
                ", but fence " + lock.fence.to_string() +
                " has been seen. Another holder or worker has it since; stop working on "
                "it"};
  }
  return {ErrorCode::WrongLock, std::string(what) + " was not written: it is bound to the lock " +
                                    lock.lock_key + " of the store " + lock.authority + " (highest fence " +
                                    lock.fence.to_string() + "); write under that lock, or rebind it"};
}

bool ends_the_work(const Error& error) noexcept {
  switch (error.code()) {
    case ErrorCode::NotFound:
    case ErrorCode::InvalidTransition:
    case ErrorCode::StaleFence:
    case ErrorCode::WrongLock:
      return true;
    default:
      return false;
  }
}

Error no_such_task(std::string_view id) {
  return {ErrorCode::NotFound, "there is no task " + std::string(id) +
                                   ": it has expired, was removed, or belongs to another owner or queue"};
}

Error is_over(std::string_view id, TaskStatus status, std::optional<TaskStatus> to) {
  return Error(ErrorCode::InvalidTransition, "the task " + std::string(id) + " is already " +
                                                 std::string(to_string(status)) + " and cannot be changed")
      .between(to_string(status), to ? to_string(*to) : "");
}

}  // namespace holdfast::tasks
