#include <gtest/gtest.h>

#include <holdfast/memory.hpp>

#include "tasks/wait_for_task.hpp"

namespace holdfast::tasks {
namespace {

using namespace std::chrono_literals;
using runtime::Flow;
using runtime::Op;

/// Waits for a task that `get` reads.
Result<std::optional<Task>> wait_for(std::function<Result<Task>()> get, BootTime deadline) {
  WaitForTask what{
      .flow = Flow::blocking(),
      .store = std::make_shared<TaskStore>(make_memory_storage_backend(), TaskOptions{}, nullptr, nullptr),
      .key = RecordKey::of("alice", "7").value_or_throw(),
      .get = [get = std::move(get)]() -> Op<Task> { co_return get(); },
      .until = {.is_so = [](const Task& task) { return is_final(task.status); }},
      .deadline = deadline,
      .stop = {}};
  return Op<std::optional<Task>>::run(wait_for_task(std::move(what)));
}

TEST(WaitForTask, AStoreThatIsAwayForAWhileDoesNotEndIt) {
  int asked = 0;
  const auto get = [&]() -> Result<Task> {
    if (++asked < 3) return Error(ErrorCode::ServiceUnavailable, "away");
    Task task;
    task.status = TaskStatus::completed;
    return task;
  };
  const auto task = wait_for(get, never).value_or_throw();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(asked, 3);
}

TEST(WaitForTask, OneThatIsAwayAtTheDeadlineSaysSo) {
  const auto get = []() -> Result<Task> { return Error(ErrorCode::NetworkTimeout, "no answer"); };
  const auto answer = wait_for(get, BootClock::now() + 300ms);
  ASSERT_FALSE(answer) << "it ended without the error";
  EXPECT_EQ(answer.error().code(), ErrorCode::NetworkTimeout);
}

TEST(WaitForTask, AnyOtherErrorEndsItAtOnce) {
  int asked = 0;
  const auto get = [&]() -> Result<Task> {
    ++asked;
    return Error(ErrorCode::NotFound, "gone");
  };
  const auto answer = wait_for(get, never);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::NotFound);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace holdfast::tasks
