// Which task a command means, of those that have had its id.

#include <csignal>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace holdfast::test {
namespace {

using nlohmann::ordered_json;

class TaskIncarnation : public CliTest {
 protected:
  struct Made {
    std::string id, incarnation;
  };
  /// Always under the same id.
  [[nodiscard]] Made create() const {
    const auto task = json({"create", "--request-key", "r"});
    return {task["task"]["taskId"], task["incarnation"]};
  }
  [[nodiscard]] Made replace(const Made& old) const {
    EXPECT_EQ(holdfast({"task", "rm", old.id}).code, 0);
    auto successor = create();
    EXPECT_EQ(successor.id, old.id);
    EXPECT_NE(successor.incarnation, old.incarnation);
    return successor;
  }
  [[nodiscard]] ordered_json json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--json", "task"});
    const auto result = holdfast(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return ordered_json::parse(result.out, nullptr, false);
  }
  void expect_untouched(const Made& task) const {
    const auto now = json({"get", task.id});
    EXPECT_EQ(now["incarnation"], task.incarnation);
    EXPECT_EQ(now["version"], 1);
    EXPECT_EQ(now["fence"], nullptr);
  }
  static std::vector<std::vector<std::string>> writes_to(const std::string& id) {
    return {{"task", "set", id, "a=1"},
            {"task", "update", id, "input_required"},
            {"task", "complete", id},
            {"task", "fail", id},
            {"task", "cancel", id},
            {"task", "rm", id},
            {"task", "bind", id, "--fence", "1", "--fence-key", "k"}};
  }
};

TEST_F(TaskIncarnation, ThatIsNamedIsWrittenToAndNoOtherUnderItsId) {
  const auto first = create();
  EXPECT_EQ(json({"set", first.id, "a=1", "--incarnation", first.incarnation})["version"], 2);
  const auto second = replace(first);
  for (auto write : writes_to(first.id)) {
    write.insert(write.end(), {"--incarnation", first.incarnation});
    const auto result = holdfast(write);
    EXPECT_EQ(result.code, 1) << write[1] << result.err;
    EXPECT_NE(result.err.find("there is no task"), std::string::npos) << write[1] << result.err;
  }
  expect_untouched(second);
}

TEST_F(TaskIncarnation, OfTheTaskThatACommandRunsAsIsItsDefault) {
  const auto first = create();
  const auto ran = holdfast({"task", "run", "--id", first.id, "--", "sh", "-c",
                             "echo $HOLDFAST_TASK_INCARNATION; $HOLDFAST task set $HOLDFAST_TASK_ID a=1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, first.incarnation + "\n");
  // A script of its that comes late. To a successor, which no lock guards yet, it would write without a
  // fence.
  const auto second = replace(first);
  std::vector<std::string> late{"HOLDFAST_TASK_ID=" + first.id, "HOLDFAST_TASK_OWNER=local",
                                "HOLDFAST_TASK_INCARNATION=" + first.incarnation};
  for (const auto& write : writes_to(first.id)) {
    EXPECT_EQ(holdfast(write, {.environment = late}).code, 1) << write[1];
  }
  expect_untouched(second);
  // What it does to others is not concerned, nor to one of the same id elsewhere.
  const auto other = json({"create"})["task"]["taskId"].get<std::string>();
  EXPECT_EQ(holdfast({"task", "set", other, "a=1"}, {.environment = late}).code, 0);
  const auto elsewhere = "sqlite:" + file("elsewhere.db").string();
  ASSERT_EQ(holdfast({"--url", elsewhere, "task", "create", "--request-key", "r"}).code, 0);
  EXPECT_EQ(holdfast({"--url", elsewhere, "task", "set", first.id, "a=1"}, {.environment = late}).code, 0);
}

TEST_F(TaskIncarnation, ThatDoesNotLastIsRefusedRatherThanNotCompared) {
  const auto task = create();
  for (auto write : writes_to(task.id)) {
    write.insert(write.end(), {"--incarnation", "~0000"});
    const auto result = holdfast(write);
    EXPECT_EQ(result.code, 64) << write[1] << result.err;
    EXPECT_NE(result.err.find("is not a lasting incarnation"), std::string::npos) << result.err;
  }
  expect_untouched(task);
}

TEST_F(TaskIncarnation, IsTheDefaultHoweverTheUrlOfTheStoreIsSpelt) {
  const auto first = create();
  const auto ran = holdfast({"task", "run", "--id", first.id, "--", "sh", "-c", "echo $HOLDFAST_AUTHORITY"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto authority = ran.out.substr(0, ran.out.find('\n'));
  const std::vector<std::string> late{"HOLDFAST_TASK_ID=" + first.id, "HOLDFAST_TASK_OWNER=local",
                                      "HOLDFAST_TASK_INCARNATION=" + first.incarnation,
                                      "HOLDFAST_AUTHORITY=" + authority};
  const auto second = replace(first);
  const auto respelt = "sqlite:" + (directory() / "." / "locks.db").string();
  for (auto write : writes_to(first.id)) {
    write.insert(write.begin(), {"--url", respelt});
    EXPECT_EQ(holdfast(write, {.environment = late}).code, 1) << write[3];
  }
  expect_untouched(second);
  // A store that lost its data has another authority at the same URL; a task of this id there is a successor.
  auto reset = late;
  reset.back() = "HOLDFAST_AUTHORITY=another";
  EXPECT_EQ(holdfast({"task", "set", first.id, "a=1"}, {.environment = reset}).code, 1);
  expect_untouched(second);
}

TEST_F(TaskIncarnation, AWorkerWhoseTaskWasReplacedIsToldThatItWasRemoved) {
  const auto first = create();
  auto worker =
      start({"task", "run", "--id", first.id, "--", "sh", "-c", "echo $$ > $DIR/started; exec sleep 60"});
  const auto command = pid_in(file("started"));
  worker->signal(SIGSTOP);  // so that it never sees the time between
  const auto second = replace(first);
  worker->signal(SIGCONT);
  const auto result = worker->wait();
  EXPECT_EQ(result.code, 80) << result.err;
  EXPECT_NE(result.err.find("the task \"" + first.id + "\" was removed; the command was stopped"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("lost"), std::string::npos) << result.err;
  EXPECT_FALSE(alive(command));
  expect_untouched(second);
}

}  // namespace
}  // namespace holdfast::test
