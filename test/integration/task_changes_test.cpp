// Many changes of one task by one process.

#include <gtest/gtest.h>

#include <holdfast/memory.hpp>
#include <stop_token>
#include <thread>

#include "support/times.hpp"
#include "tasks/operations.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class TaskChanges : public testing::Test {
 protected:
  [[nodiscard]] tasks::Call call(std::stop_token stop = {}) const {
    return {.flow = runtime::Flow::blocking(),
            .store = store,
            .stop = std::move(stop),
            .fence = {},
            .incarnation = {}};
  }
  [[nodiscard]] Task set(const char* variables, std::stop_token stop = {}) const {
    return tasks::run(
        tasks::perform(call(std::move(stop)),
                       operation::SetTaskVariables{"alice", id, Json::parse(variables).value_or_throw()}));
  }

  const std::shared_ptr<TaskStore> store = std::make_shared<TaskStore>(
      make_memory_storage_backend(), TaskOptions{}, nullptr, std::make_shared<runtime::Runtime>());
  const std::string id =
      tasks::run(tasks::perform(call(), operation::CreateTask{"alice", detail::owned(NewTask{})})).id;
};

TEST_F(TaskChanges, AChangeBehindOneThatGetsNoAnswerGoesOnAfterAWhile) {
  const tasks::ChangeTurns::Place stuck(store->changes, "alice:" + id);
  ASSERT_TRUE(store->changes.has_line("alice:" + id));
  EXPECT_EQ(set(R"({"a":1})").variables.str(), R"({"a":1})");
}

TEST_F(TaskChanges, AChangeThatWaitsForItsTurnIsStopped) {
  const tasks::ChangeTurns::Place stuck(store->changes, "alice:" + id);
  std::stop_source stop;
  const std::jthread soon([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  try {
    std::ignore = set(R"({"a":1})", stop.get_token());
    ADD_FAILURE() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Aborted);
  }
}

}  // namespace
}  // namespace holdfast::test
