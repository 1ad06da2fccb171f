#include <nlohmann/json.hpp>

#include "output_parts.hpp"
#include "rpc_client.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

/// Which tasks are listed, who works on them, and the limits of a store, from the shell and over rpc.
class TaskFilters : public RpcTest {
 protected:
  Finished task(std::vector<std::string> arguments, Program::Options options = {}) const {
    arguments.insert(arguments.begin(), "task");
    return holdfast(std::move(arguments), std::move(options));
  }
  [[nodiscard]] std::string create() const {
    auto id = task({"create", "--owner", "o"}).out;
    if (!id.empty()) id.pop_back();
    return id;
  }
};

TEST_F(TaskFilters, TheShellListsByAgeOldestFirstAndWithoutAWorker) {
  const auto first = create();
  const auto second = create();
  auto sidecar = piped();
  const json claimed{{"ownerId", "o"}, {"taskId", first}, {"holder", "worker 7"}};
  sidecar.client().result("task.claim", claimed);
  const auto ids = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"--json", "task", "list", "--owner", "o"});
    std::vector<std::string> found;
    for (const auto& line : lines_of(holdfast(options).out)) {
      const auto object = json::parse(line);
      if (object.contains("task")) found.push_back(object["task"]["taskId"]);
    }
    return found;
  };
  EXPECT_EQ(ids({"--oldest-first"}), (std::vector{first, second}));
  EXPECT_EQ(ids({}), (std::vector{second, first}));
  EXPECT_EQ(ids({"--unclaimed"}), std::vector{second});
  EXPECT_EQ(ids({"--older-than", "1h"}), std::vector<std::string>{});
  EXPECT_EQ(task({"list", "--owner", "o", "--older-than", "soon"}).code, 64);
  const auto next = task({"list", "--owner", "o", "--oldest-first", "--older-than", "0", "--limit", "1"}).err;
  EXPECT_NE(next.find("--older-than 0 --oldest-first --limit 1 --cursor"), std::string::npos) << next;
  const auto all = task({"list", "--all-owners", "--unclaimed"}).out;
  EXPECT_EQ(all.find(first), std::string::npos) << all;
  EXPECT_NE(all.find(second), std::string::npos) << all;

  const auto shown = task({"get", "--owner", "o", first}).out;
  EXPECT_NE(shown.find("worker 7"), std::string::npos) << shown;
  EXPECT_EQ(json::parse(holdfast({"--json", "task", "get", "--owner", "o", first}).out)["claim"]["worker"],
            "worker 7");
}

TEST_F(TaskFilters, AClientListsInTheSameWaysAndSeesWhoWorks) {
  const auto first = create();
  const auto second = create();
  auto sidecar = piped();
  auto& client = sidecar.client();
  const json named{{"ownerId", "o"}, {"taskId", first}};
  EXPECT_FALSE(client.result("task.get", named).contains("claim"));
  auto wanted = named;
  wanted["holder"] = "worker 7";
  const auto claim = client.result("task.tryClaim", wanted);
  EXPECT_EQ(claim["ok"], true);
  EXPECT_EQ(client.result("task.tryClaim", named),
            (json{{"ok", false}, {"reason", "claimed"}, {"holder", "worker 7"}}));
  EXPECT_EQ(client.result("task.get", named)["claim"]["worker"], "worker 7");
  const auto ids = [&](const json& more) {
    json params{{"ownerId", "o"}};
    params.update(more);
    std::vector<json> found;
    const auto page = client.result("task.list", params);
    for (const auto& task : page["tasks"]) found.push_back(task["task"]["taskId"]);
    return found;
  };
  EXPECT_EQ(ids({{"oldestFirst", true}}), (std::vector<json>{first, second}));
  EXPECT_EQ(ids({{"unclaimed", true}}), (std::vector<json>{second}));
  EXPECT_EQ(ids({{"olderThanMs", 3'600'000}}), std::vector<json>{});
  client.result("task.complete", {{"ownerId", "o"}, {"taskId", first}, {"lockId", claim["lockId"]}});
  EXPECT_FALSE(client.result("task.get", named).contains("claim")) << "it has ended";
  EXPECT_EQ(client.error("task.tryClaim", named)["data"]["code"], "InvalidTransition");
}

TEST_F(TaskFilters, OfAQueueKnowItsWorkersFromTheRecords) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  client.result("queue.add", {{"queue", "q"}});
  const auto second = client.result("queue.add", {{"queue", "q"}});
  client.result("queue.claimNext", {{"queues", {"q"}}});
  const auto listed = client.result("queue.listTasks", {{"queue", "q"}, {"unclaimed", true}})["tasks"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["task"]["taskId"], second["task"]["taskId"]);
  const auto shown = lines_of(holdfast({"--json", "queue", "show", "q", "--unclaimed"}).out);
  EXPECT_EQ(shown.size(), 2U);  // the counts, and one task
}

TEST_F(TaskFilters, LimitsComeFromOptionsThenTheUrlThenTheEnvironment) {
  const auto quota_of = [&](const std::string& parameters, std::vector<std::string> options,
                            const std::string& variable) {
    options.insert(options.begin(), "rpc");
    options.insert(options.begin(), {"--url", url() + parameters});
    const auto answer = holdfast(
        options,
        {.environment = {variable}, .input = R"({"jsonrpc":"2.0","id":1,"method":"holdfast.version"})"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    return json::parse(answer.out)["result"]["taskLimits"]["maxTasksPerOwner"];
  };
  EXPECT_EQ(quota_of("", {}, "HOLDFAST_TASK_QUOTA="), 100);
  EXPECT_EQ(quota_of("", {}, "HOLDFAST_TASK_QUOTA=7"), 7);
  EXPECT_EQ(quota_of("?task_quota=5", {}, "HOLDFAST_TASK_QUOTA=7"), 5);
  EXPECT_EQ(quota_of("?task_quota=5", {"--max-tasks", "3"}, "HOLDFAST_TASK_QUOTA=7"), 3);
  EXPECT_EQ(task({"list"}, {.environment = {"HOLDFAST_TASK_QUOTA=many"}}).code, 64);
  const Program::Options full{.environment = {"HOLDFAST_QUEUE_MAX_TASKS=1"}};
  EXPECT_EQ(task({"add", "q"}, full).code, 0);
  EXPECT_EQ(task({"add", "q"}, full).code, 75);
  EXPECT_EQ(task({"add", "q", "--queue-limit", "2"}, full).code, 0);
}

}  // namespace
}  // namespace holdfast::test
