#include <gtest/gtest.h>

#include <holdfast/memory.hpp>

#include "tasks/wait_for_task.hpp"

namespace holdfast::tasks {
namespace {

using namespace std::chrono_literals;

const auto key = RecordKey::of("alice", "7").value_or_throw();
const auto is_over = [](const Task& task) { return is_final(task.status); };

TEST(WaitForTask, AStoreThatIsAwayForAWhileDoesNotEndIt) {
  const auto storage = make_memory_storage_backend();
  int asked = 0;
  const auto get = [&]() -> Task {
    if (++asked < 3) throw Error(ErrorCode::ServiceUnavailable, "away");
    Task task;
    task.status = TaskStatus::completed;
    return task;
  };
  const auto task = wait_for_task(*storage, key, get, is_over, never, {});
  ASSERT_TRUE(task);
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(asked, 3);
}

TEST(WaitForTask, OneThatIsAwayAtTheDeadlineSaysSo) {
  const auto storage = make_memory_storage_backend();
  const auto get = []() -> Task { throw Error(ErrorCode::NetworkTimeout, "no answer"); };
  try {
    (void)wait_for_task(*storage, key, get, is_over, BootClock::now() + 300ms, {});
    FAIL() << "it ended without the error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NetworkTimeout);
  }
}

TEST(WaitForTask, AnyOtherErrorEndsItAtOnce) {
  const auto storage = make_memory_storage_backend();
  int asked = 0;
  const auto get = [&]() -> Task {
    ++asked;
    throw Error(ErrorCode::NotFound, "gone");
  };
  EXPECT_THROW((void)wait_for_task(*storage, key, get, is_over, never, {}), Error);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace holdfast::tasks
