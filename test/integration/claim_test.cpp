#include <gtest/gtest.h>

#include <holdfast/memory.hpp>
#include <holdfast/tasks.hpp>

#include "support/hooked_backend.hpp"

namespace holdfast::test {
namespace {

/// What is asked of the locks can be held up.
class ClaimInSteps : public testing::Test {
 protected:
  void begin(const std::string& id) {
    tasks.start(operation::ClaimTask{"alice", id}, {},
                [this](Result<Claim> result) { answer.emplace(std::move(result)); });
  }
  static constexpr NewTask request{.method = "m", .request_key = "r"};

  Gate gate;
  Locks locks{std::make_shared<HookedBackend>(make_memory_lock_backend(), gate.hook()), nullptr};
  Tasks tasks{make_memory_storage_backend(), locks};
  std::optional<Result<Claim>> answer;
};

TEST_F(ClaimInSteps, TakesTheTaskThatItReadAndNoOtherThatGotItsIdMeanwhile) {
  const auto id = tasks.create("alice", request).id;
  gate.close();
  begin(id);
  ASSERT_EQ(gate.held_up(), 1U) << "it has read the task, and waits for its lock";
  ASSERT_TRUE(tasks.remove("alice", id));
  ASSERT_EQ(tasks.create("alice", request).id, id);
  gate.open();
  ASSERT_TRUE(answer);
  ASSERT_FALSE(*answer) << "it claimed the successor";
  EXPECT_EQ(answer->error().code(), ErrorCode::NotFound);
  EXPECT_FALSE(tasks.get("alice", id).bound_to);
  EXPECT_FALSE(locks.is_locked(Tasks::lock_key("alice", id))) << "the lock was released";
}

TEST_F(ClaimInSteps, TakesATaskThatWasWrittenToMeanwhile) {
  const auto id = tasks.create("alice", request).id;
  gate.close();
  begin(id);
  (void)tasks.update_status("alice", id, TaskStatus::input_required);
  gate.open();
  ASSERT_TRUE(answer);
  ASSERT_TRUE(*answer) << answer->error().what();
  EXPECT_EQ((*answer)->task().status, TaskStatus::input_required);
}

}  // namespace
}  // namespace holdfast::test
