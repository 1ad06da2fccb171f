// Which task is meant, of those that have had its id: ids that are made from request keys recur.

#include "contract/tasks_on.hpp"
#include "support/eventually.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

class TaskIncarnations : public TasksOn {
 protected:
  static constexpr NewTask request{.method = "m", .request_key = "r"};

  /// Removes it and creates it again, under the same id.
  static void replace(TestedTasks& store, const std::string& id) {
    ASSERT_TRUE(store.remove("alice", id));
    ASSERT_EQ(store.create("alice", request).id, id);
  }
};

TEST_P(TaskIncarnations, ANamedOneIsMeantAndNoOtherThatHasItsId) {
  auto store = tasks();
  const auto first = store.create("alice", request);
  const auto id = first.id;
  auto meant = store.with_incarnation(first.incarnation);
  EXPECT_EQ(meant.set_variables("alice", id, json(R"({"x":1})")).version, 2U);
  EXPECT_EQ(meant.bind("alice", id, token(7)).bound_to, token(7));
  replace(store, id);
  auto fenced = meant.with_fence(token(9));
  EXPECT_EQ(code_of([&] { (void)meant.get("alice", id); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)meant.wait("alice", id, 10ms); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)meant.bind("alice", id, token(9)); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)meant.claim("alice", id); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)meant.cancel("alice", id); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)fenced.set_variables("alice", id, json(R"({"x":2})")); }),
            ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)fenced.complete_with_result("alice", id, json("1")); }), ErrorCode::NotFound);
  EXPECT_FALSE(fenced.remove("alice", id));
  const auto successor = store.get("alice", id);
  EXPECT_EQ(successor.version, 1U);
  EXPECT_EQ(successor.status, TaskStatus::working);
  EXPECT_FALSE(successor.bound_to);
}

TEST_P(TaskIncarnations, AWorkerLearnsThatItsTaskIsGone) {
  auto store = tasks();
  const auto id = store.create("alice", request).id;
  auto claim = store.claim("alice", id);
  EXPECT_FALSE(claim.gone());
  ASSERT_TRUE(store.remove("alice", id));
  EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
  EXPECT_TRUE(claim.gone());
  EXPECT_FALSE(claim.cancelled());
  EXPECT_TRUE(claim.release()) << "the lock was not lost";
}

TEST_P(TaskIncarnations, AWorkerLearnsThatAnotherTaskHasItsTasksId) {
  auto store = tasks();
  const auto id = store.create("alice", request).id;
  auto claim = store.claim("alice", id);
  replace(store, id);
  // Cancelled or not, it is another.
  (void)store.cancel("alice", id);
  EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
  EXPECT_TRUE(claim.gone());
  EXPECT_FALSE(claim.cancelled());
}

TEST_P(TaskIncarnations, ARefusedWriteTellsThatTheTaskIsGone) {
  auto store = tasks();
  const auto id = store.create("alice", request).id;
  auto claim = store.claim("alice", id);
  replace(store, id);
  EXPECT_EQ(code_of([&] { (void)claim.set_variables(json(R"({"late":1})")); }), ErrorCode::NotFound);
  EXPECT_TRUE(claim.gone());
}

TEST_P(TaskIncarnations, ATaskThatEndedIsNotGone) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto claim = store.claim("alice", id);
  (void)store.cancel("alice", id);
  EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
  EXPECT_TRUE(claim.cancelled());
  EXPECT_FALSE(claim.gone());
}

INSTANTIATE_TEST_SUITE_P(Engine, TaskIncarnations, testing::ValuesIn(ways_to_tasks()), way_name);

}  // namespace
}  // namespace holdfast::test
