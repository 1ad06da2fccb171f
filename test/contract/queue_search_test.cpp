// A claim that answers "none": the search of the policies goes on where one request to the engine ends early,
// because its work is bounded.

#include <holdfast/queue.hpp>

#include "contract/storage_contract.hpp"
#include "queue/operations.hpp"
#include "support/queue_calls.hpp"
#include "tasks/address.hpp"

namespace holdfast::test {
namespace {

class QueueSearch : public StorageContract {
 protected:
  void SetUp() override {
    StorageContract::SetUp();
    if (!mine) return;
    const auto threads = std::make_shared<runtime::Runtime>();
    store = std::make_shared<const QueueStore>(
        std::make_shared<TaskStore>(mine, TaskOptions{.max_tasks_per_owner = 0}, nullptr, threads),
        std::make_shared<queue::Renewals>(mine, threads, nullptr), "worker");
  }
  template <class Operation>
  [[nodiscard]] typename Operation::Answer run(Operation operation, const std::string& queue = "q") const {
    queue::QueueCall call{.store = store,
                          .owner = tasks::owner_of_queue(queue).value_or_throw(),
                          .flow = runtime::Flow::blocking(),
                          .stop = {}};
    return tasks::run(queue::perform(std::move(call), std::move(operation)));
  }
  [[nodiscard]] std::string add(const NewQueueTask& task = {}, const std::string& queue = "q") const {
    return run(operation::AddTask{detail::owned(task)}, queue).id;
  }
  /// More than two requests pass.
  void add_blocked() const {
    for (int i = 0; i < 250; ++i) std::ignore = add({.limit_key = "k"});
  }
  /// The next task of these queues, without waiting.
  [[nodiscard]] std::optional<Job> claim(std::vector<std::string> queues = {},
                                         milliseconds lease = 60s) const {
    return run(operation::ClaimNextTask{detail::owned(ClaimOptions{.lease = lease}), std::move(queues)});
  }

  std::shared_ptr<const QueueStore> store;
};

TEST_P(QueueSearch, ATaskBehindManyThatAreBlockedIsFoundByOneClaim) {
  add_blocked();
  const auto free = add();
  const auto blocking = claim();
  ASSERT_TRUE(blocking);
  const auto found = claim();
  ASSERT_TRUE(found) << "all others are blocked";
  EXPECT_EQ(found->id(), free);
  EXPECT_FALSE(claim());
}

TEST_P(QueueSearch, ATaskOfALaterQueueDoesNotComeBeforeOneBehindManyThatAreBlocked) {
  add_blocked();
  const auto urgent = add();
  const auto normal = add({}, "normal");
  const auto blocking = claim();
  const auto first = claim({"q", "normal"}), second = claim({"q", "normal"});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id(), urgent);
  EXPECT_EQ(second->id(), normal);
}

TEST_P(QueueSearch, AnOutcomeWithTheNextClaimFindsATaskBehindManyThatAreBlocked) {
  std::ignore = add({.priority = 2});
  std::ignore = add({.priority = 1, .limit_key = "k"});
  add_blocked();
  const auto free = add();
  auto job = claim();
  const auto blocking = claim();
  ASSERT_TRUE(job && blocking);
  const auto next = job->complete_and_claim(Json());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id(), free);
}

TEST_P(QueueSearch, ATaskBehindManyWhoseLastAttemptDiedIsFoundByOneClaim) {
  const milliseconds brief = GetParam().hand_clock ? 250ms : 1s;
  for (int i = 0; i < 150; ++i) std::ignore = add({.max_attempts = 1});
  const auto again = add({.max_attempts = 2});
  const auto owner = tasks::owner_of_queue("q").value_or_throw();
  for (std::size_t died = 0; died < 151;) {
    died += claim_next(*theirs, claim_terms(died < 100 ? 100 : 51, "dies", brief), owner).claimed.size();
  }
  world->reach(now_ms(*mine) + brief.count());
  const auto found = claim();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id(), again);
}

INSTANTIATE_TEST_SUITE_P(Engines, QueueSearch,
                         testing::ValuesIn(storage_engines({"memory", "memory_hand_clock", "sqlite",
                                                            "redis_tcp", "redis_native", "redis_cluster",
                                                            "redis_disturbed"})),
                         engine_name);

}  // namespace
}  // namespace holdfast::test
