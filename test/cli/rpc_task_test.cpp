#include <chrono>
#include <holdfast/open.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "output_parts.hpp"
#include "rpc_client.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// What a client sees of tasks is the same on every engine.
class RpcTasks : public RpcTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "redis") {
      if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
      engine_url_ = shared_redis_url();
      engine_url_ += (engine_url_.find('?') == std::string::npos ? "?" : "&");
      engine_url_ += "lock_prefix=" + private_prefix() + "&task_prefix=" + private_prefix();
    } else {
      engine_url_ = GetParam() == "memory" ? "memory:" : url();
    }
    sidecar_.emplace(directory(), engine_url_);
  }
  RpcClient& client() { return sidecar_->client(); }

  /// A new task, as parameters that name it.
  json create(const json& more = json::object()) {
    json params{{"ownerId", "o"}};
    params.update(more);
    const auto task = client().result("task.create", params);
    return {{"ownerId", "o"}, {"taskId", task["task"]["taskId"]}};
  }
  static json with(json params, const json& more) {
    params.update(more);
    return params;
  }

  std::optional<PipedSidecar> sidecar_;

 private:
  std::string engine_url_;
};

INSTANTIATE_TEST_SUITE_P(Engines, RpcTasks, ::testing::Values("memory", "sqlite", "redis"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(RpcTasks, AreRecordsAsTheyAreStoredWithTheirVersionIncarnationAndFence) {
  client().send(
      R"({"jsonrpc":"2.0","id":7,"method":"task.create","params":{"ownerId":"o","requestMethod":"tools/call",)"
      R"("ttl":60000,"pollInterval":250,"variables":{"b":1,"a":[true]}}})"
      "\n");
  const auto record = nlohmann::ordered_json::parse(client().line().value_or("null"))["result"];
  EXPECT_EQ(member_names(record),
            (std::vector<std::string>{"task", "ownerId", "variables", "result", "requestMethod", "expiresAt",
                                      "version", "incarnation", "fence"}));
  EXPECT_EQ(member_names(record["task"]), (std::vector<std::string>{"taskId", "status", "createdAt",
                                                                    "lastUpdatedAt", "ttl", "pollInterval"}));
  EXPECT_EQ(record["task"]["status"], "working");
  EXPECT_EQ(record["task"]["ttl"], 60000);
  EXPECT_EQ(record["task"]["pollInterval"], 250);
  EXPECT_EQ(record["ownerId"], "o");
  EXPECT_EQ(record["variables"].dump(), R"({"b":1,"a":[true]})");
  EXPECT_EQ(record["result"], nullptr);
  EXPECT_EQ(record["requestMethod"], "tools/call");
  EXPECT_EQ(record["version"], 1);
  EXPECT_EQ(record["fence"], nullptr);
  const json same = client().result("task.get", {{"ownerId", "o"}, {"taskId", record["task"]["taskId"]}});
  EXPECT_EQ(same, json(record));
}

TEST_P(RpcTasks, ChangeAndEndAsTheRulesSay) {
  const auto task = create();
  EXPECT_EQ(client().error("task.getResult", task)["data"]["code"], "NotReady");
  auto now = client().result("task.updateStatus",
                             with(task, {{"status", "input_required"}, {"statusMessage", "Which region?"}}));
  EXPECT_EQ(now["task"]["status"], "input_required");
  EXPECT_EQ(now["task"]["statusMessage"], "Which region?");
  now = client().result("task.setVariables", with(task, {{"variables", {{"a", 1}, {"b", 2}}}}));
  now = client().result("task.setVariables", with(task, {{"variables", {{"a", nullptr}}}}));
  EXPECT_EQ(now["variables"], (json{{"b", 2}}));
  EXPECT_EQ(client().result("task.setResult", with(task, {{"result", {1, 2}}}))["result"], (json{1, 2}));
  now = client().result("task.complete", task);
  EXPECT_EQ(now["task"]["status"], "completed");
  EXPECT_EQ(now["version"], 6);
  EXPECT_EQ(client().result("task.getResult", task), (json{1, 2}));
  const auto error = client().error("task.updateStatus", with(task, {{"status", "working"}}));
  EXPECT_EQ(error["code"], -32602);
  EXPECT_EQ(error["data"]["code"], "InvalidTransition");
  EXPECT_EQ(client().result("task.remove", task), (json{{"ok", true}}));
  EXPECT_EQ(client().result("task.remove", task), (json{{"ok", false}}));
  EXPECT_EQ(client().error("task.get", task)["data"]["code"], "NotFound");
}

TEST_P(RpcTasks, EndWithAResultAndAMessageInOneWrite) {
  const auto done = client().result("task.completeWithResult",
                                    with(create(), {{"result", {{"rows", 42}}}, {"statusMessage", "fine"}}));
  EXPECT_EQ(done["task"]["status"], "completed");
  EXPECT_EQ(done["task"]["statusMessage"], "fine");
  EXPECT_EQ(done["result"]["rows"], 42);
  EXPECT_EQ(done["version"], 2);
  const auto failed = client().result("task.fail", with(create(), {{"result", {{"why", "disk"}}}}));
  EXPECT_EQ(failed["task"]["status"], "failed");
  EXPECT_EQ(failed["result"]["why"], "disk");
  EXPECT_EQ(client().result("task.fail", create())["result"], nullptr);
  const auto called_off = create();
  EXPECT_EQ(client().result("task.cancel", called_off)["task"]["status"], "cancelled");
  EXPECT_EQ(client().result("task.getResult", called_off), nullptr);
  EXPECT_EQ(client().error("task.completeWithResult", create())["code"], -32602);  // without a result
}

TEST_P(RpcTasks, ANullResultLeavesTheOneThatWasSetWhereItMayBeLeftOut) {
  for (const auto* end : {"task.complete", "task.fail"}) {
    const auto task = create();
    client().result("task.setResult", with(task, {{"result", {{"rows", 42}}}}));
    EXPECT_EQ(client().result(end, with(task, {{"result", nullptr}}))["result"], (json{{"rows", 42}})) << end;
  }
  const auto task = create();
  client().result("task.setResult", with(task, {{"result", 1}}));
  EXPECT_EQ(client().result("task.setResult", with(task, {{"result", nullptr}}))["result"], nullptr);
  client().result("task.setResult", with(task, {{"result", 1}}));
  EXPECT_EQ(client().result("task.completeWithResult", with(task, {{"result", nullptr}}))["result"], nullptr);
}

TEST_P(RpcTasks, AreListedNewestFirstInPages) {
  std::vector<json> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(create()["taskId"]);
  client().result("task.cancel", {{"ownerId", "o"}, {"taskId", ids[0]}});
  std::vector<json> listed;
  json params{{"ownerId", "o"}, {"limit", 2}};
  int pages = 0;
  do {
    const auto page = client().result("task.list", params);
    for (const auto& task : page["tasks"]) listed.push_back(task["task"]["taskId"]);
    params.erase("cursor");
    if (page.contains("nextCursor")) params["cursor"] = page["nextCursor"];
    ++pages;
  } while (params.contains("cursor") && pages < 10);
  EXPECT_EQ(listed.size(), 5U);
  EXPECT_EQ(std::set(listed.begin(), listed.end()), std::set(ids.begin(), ids.end()));
  const auto cancelled = client().result("task.list", {{"ownerId", "o"}, {"status", "cancelled"}});
  EXPECT_EQ(cancelled["tasks"].size(), 1U);
  EXPECT_FALSE(cancelled.contains("nextCursor"));
  EXPECT_EQ(client().error("task.list", {{"ownerId", "o"}, {"cursor", "nonsense"}})["data"]["code"],
            "BadCursor");
  EXPECT_EQ(client().error("task.list", {{"ownerId", "o"}, {"status", "done"}})["code"], -32602);
  EXPECT_EQ(client().result("task.list", {{"ownerId", "somebody else"}})["tasks"], json::array());
}

TEST_P(RpcTasks, ErrorsHaveTheNumbersOfTheContract) {
  const auto task = create();
  const std::vector<std::tuple<std::string, json, int, std::string>> all{
      {"task.get", {{"ownerId", "other"}, {"taskId", task["taskId"]}}, -32602, "NotFound"},
      {"task.create", {{"ownerId", "local"}}, -32602, "AnonymousOwner"},
      {"task.create", {{"ownerId", "o"}, {"ttl", 25LL * 3600 * 1000}}, -32602, "TtlTooLong"},
      {"task.create",
       {{"ownerId", "o"}, {"variables", {{"x", std::string(70'000, 'x')}}}},
       -32602,
       "TooLarge"},
      {"task.setVariables",
       with(task, {{"variables", {{"x", json::parse(std::string(11, '[') + std::string(11, ']'))}}}}), -32602,
       "TooDeep"},
      {"task.updateStatus", with(task, {{"status", "working"}}), -32602, "InvalidTransition"},
      {"task.updateStatus", with(task, {{"status", "asleep"}}), -32602, "InvalidArgument"},
      {"task.create", {{"requestMethod", "m"}}, -32602, "InvalidArgument"},
      {"task.create", {{"ownerId", "o"}, {"requestKey", ""}}, -32602, "InvalidArgument"},
      {"task.setResult", with(task, {{"result", 1}, {"fence", "000000000000005"}}), -32602,
       "InvalidArgument"},
      {"task.setResult", with(task, {{"result", 1}, {"fence", 5}, {"lockKey", "k"}}), -32602,
       "InvalidArgument"},
      {"task.bind", with(task, {{"fence", "000000000000000"}, {"lockKey", "k"}}), -32602, "InvalidArgument"},
      {"task.bind", task, -32602, "InvalidArgument"},
  };
  for (const auto& [method, params, number, name] : all) {
    const auto error = client().error(method, params);
    EXPECT_EQ(error["code"], number) << method << ": " << error;
    EXPECT_EQ(error["data"]["code"], name) << method << ": " << error;
  }
}

TEST_P(RpcTasks, ManyChangesOfOneTaskAtOnceAreAllMade) {
  const auto task = create();
  std::vector<int> requests;
  for (int i = 0; i < 200; ++i) {
    const json variables{{"v" + std::to_string(i), i}};
    requests.push_back(client().request("task.setVariables", with(task, {{"variables", variables}})));
  }
  for (const auto id : requests) {
    const auto answer = client().answer(id);
    EXPECT_FALSE(answer.contains("error")) << answer;
  }
  EXPECT_EQ(client().result("task.get", task)["variables"].size(), 200U);
}

TEST_P(RpcTasks, TheSameRequestKeyGivesTheSameTask) {
  const json params{{"ownerId", "o"}, {"requestMethod", "m"}, {"requestKey", "r1"}};
  const auto first = client().result("task.create", params);
  EXPECT_EQ(client().result("task.create", params)["task"]["taskId"], first["task"]["taskId"]);
  const auto error =
      client().error("task.create", {{"ownerId", "o"}, {"requestMethod", "other"}, {"requestKey", "r1"}});
  EXPECT_EQ(error["data"]["code"], "RequestKeyConflict");
}

TEST_P(RpcTasks, AWaitEndsWithTheTaskAndDoesNotHoldUpOthers) {
  const auto task = create();
  EXPECT_EQ(client().result("task.wait", with(task, {{"timeoutMs", 30}})), nullptr);
  const auto waiting = client().request("task.wait", task);
  EXPECT_FALSE(client().has_answer(waiting, milliseconds(30)));
  client().result("task.complete", with(task, {{"result", "done"}}));
  EXPECT_EQ(client().answer(waiting)["result"]["result"], "done");
  const auto second = client().request("task.wait", create());
  client().notify("$/cancelRequest", {{"id", second}});
  EXPECT_EQ(client().answer(second)["error"]["data"]["code"], "Aborted");
}

TEST_P(RpcTasks, AClaimIsALockThatWritesName) {
  const auto task = create();
  const auto claim = client().result("task.claim", task);
  EXPECT_EQ(claim["ok"], true);
  EXPECT_EQ(claim["task"]["task"]["taskId"], task["taskId"]);
  EXPECT_EQ(claim["task"]["fence"]["fence"], claim["fence"]);
  // Nobody else gets it meanwhile, and who asks may call that off.
  const auto second = client().request("task.claim", with(task, {{"waitMs", 60000}}));
  EXPECT_FALSE(client().has_answer(second, milliseconds(30)));
  const auto written = client().result("task.setVariables",
                                       with(task, {{"variables", {{"x", 1}}}, {"lockId", claim["lockId"]}}));
  EXPECT_EQ(written["fence"]["fence"], claim["fence"]);
  EXPECT_EQ(client().result("lock.release", {{"lockId", claim["lockId"]}})["ok"], true);
  const auto next = client().answer(second)["result"];
  EXPECT_GT(next["fence"], claim["fence"]);

  // The old claim's fence is refused from now on, and so is its lock id.
  const json late{
      {"variables", {{"x", 2}}}, {"fence", claim["fence"]}, {"lockKey", claim["task"]["fence"]["key"]}};
  auto error = client().error("task.setVariables", with(task, late));
  EXPECT_EQ(error["code"], -32603);
  EXPECT_EQ(error["data"]["code"], "StaleFence");
  error = client().error("task.setVariables",
                         with(task, {{"variables", {{"x", 2}}}, {"lockId", claim["lockId"]}}));
  EXPECT_EQ(error["data"]["code"], "StaleFence");
  EXPECT_EQ(client().result("task.complete", with(task, {{"lockId", next["lockId"]}}))["task"]["status"],
            "completed");
  EXPECT_EQ(client().error("task.claim", task)["data"]["code"], "InvalidTransition");
}

TEST_P(RpcTasks, AWriteUnderALostClaimIsRefused) {
  const auto task = create();
  EXPECT_EQ(client().result("lock.subscribe")["ok"], true);
  const auto claim = client().result("task.claim", with(task, {{"maxHoldMs", 200}, {"noticeMs", 0}}));
  const auto loss = client().notification("lock.lost");
  EXPECT_EQ(loss["lockId"], claim["lockId"]);
  std::this_thread::sleep_for(std::chrono::milliseconds(loss["remainingMs"].get<int>() + 1));
  const auto error = client().error("task.setVariables",
                                    with(task, {{"variables", {{"x", 1}}}, {"lockId", claim["lockId"]}}));
  EXPECT_EQ(error["data"]["code"], "StaleFence");
}

TEST_P(RpcTasks, AWriteUnderAClaimThatIsEndingIsAccepted) {
  const auto task = create();
  EXPECT_EQ(client().result("lock.subscribe")["ok"], true);
  const auto claim = client().result("task.claim", with(task, {{"maxHoldMs", 1800}, {"noticeMs", 600}}));
  EXPECT_GT(client().notification("lock.lost")["remainingMs"], 0);
  EXPECT_EQ(client().result("task.complete", with(task, {{"lockId", claim["lockId"]}}))["task"]["status"],
            "completed");
  EXPECT_EQ(client().result("lock.extend", {{"lockId", claim["lockId"]}, {"ttlMs", 60000}}),
            (json{{"ok", false}, {"reason", "lost"}}));
}

TEST_P(RpcTasks, AWriteMeansTheTaskOfItsIncarnationOrOfItsClaim) {
  const json by_key{{"requestKey", "r"}};
  const auto task = create(by_key);
  const auto incarnation = client().result("task.get", task)["incarnation"];
  auto named = with(task, {{"variables", {{"x", 1}}}, {"incarnation", incarnation}});
  EXPECT_EQ(client().result("task.setVariables", named)["version"], 2);
  const auto claim = client().result("task.claim", task);
  EXPECT_EQ(claim["task"]["incarnation"], incarnation);
  EXPECT_EQ(client().result("task.remove", task)["ok"], true);
  ASSERT_EQ(create(by_key), task);

  EXPECT_EQ(client().error("task.setVariables", named)["data"]["code"], "NotFound");
  EXPECT_EQ(client().result("task.remove", with(task, {{"incarnation", incarnation}}))["ok"], false);
  EXPECT_EQ(client().error("task.cancel", with(task, {{"incarnation", incarnation}}))["data"]["code"],
            "NotFound");
  EXPECT_EQ(client().error("task.remove", with(task, {{"incarnation", "~0"}}))["data"]["code"],
            "InvalidArgument")
      << "it would not be compared";
  const json under_claim{{"lockId", claim["lockId"]}};
  EXPECT_EQ(client().error("task.bind", with(task, under_claim))["data"]["code"], "NotFound");
  EXPECT_EQ(client().error("task.complete", with(task, under_claim))["data"]["code"], "NotFound");
  const auto successor = client().result("task.get", task);
  EXPECT_EQ(successor["version"], 1);
  EXPECT_EQ(successor["fence"], nullptr);
  // The lock may still guard another task.
  const auto other = create();
  EXPECT_EQ(client().result("task.bind", with(other, under_claim))["fence"]["fence"], claim["fence"]);
}

TEST_P(RpcTasks, APageHasALimit) {
  for (const int limit : {0, 1001}) {
    EXPECT_EQ(client().error("task.list", {{"ownerId", "alice"}, {"limit", limit}})["code"], -32602) << limit;
  }
}

TEST_P(RpcTasks, AnyLockMayGuardATaskAPlainOneToo) {
  const auto task = create();
  const auto plain = client().result("lock.acquire", {{"key", "guard"}, {"ttlMs", 60000}});
  auto now = client().result("task.bind", with(task, {{"lockId", plain["lockId"]}}));
  EXPECT_EQ(now["fence"]["key"], "guard");
  EXPECT_EQ(now["fence"]["fence"], plain["fence"]);
  const auto other = client().result("lock.lock", {{"key", "other"}});
  const auto error =
      client().error("task.setResult", with(task, {{"result", 1}, {"lockId", other["lockId"]}}));
  EXPECT_EQ(error["code"], -32603);
  EXPECT_EQ(error["data"]["code"], "WrongLock");
  now = client().result("task.rebind", with(task, {{"lockId", other["lockId"]}}));
  EXPECT_EQ(now["fence"]["key"], "other");
  EXPECT_EQ(client().result("task.rebind", with(task, {{"fromAuthority", "lost"}}))["fence"], now["fence"])
      << "another authority's guard stays";
  EXPECT_EQ(
      client().result("task.rebind", with(task, {{"fromAuthority", now["fence"]["authority"]}}))["fence"],
      nullptr);
  EXPECT_EQ(client().result("task.rebind", task)["fence"], nullptr);
  EXPECT_TRUE(client().result("task.cleanupExpired")["removed"].is_number());
}

TEST_P(RpcTasks, TheQuotaIsAnInternalErrorToJsonRpc) {
  json batch = json::array();
  for (int i = 0; i < 101; ++i) {
    batch.push_back(
        {{"jsonrpc", "2.0"}, {"id", i}, {"method", "task.create"}, {"params", {{"ownerId", "q"}}}});
  }
  client().send(batch.dump() + "\n");
  const auto answers = json::parse(client().line().value_or("[]"));
  ASSERT_EQ(answers.size(), 101U);
  int refused = 0;
  for (const auto& answer : answers) {
    if (!answer.contains("error")) continue;
    ++refused;
    EXPECT_EQ(answer["error"]["code"], -32603);
    EXPECT_EQ(answer["error"]["data"]["code"], "QuotaExceeded");
  }
  EXPECT_EQ(refused, 1);
}

using RpcTasksOfTheCommandLine = RpcTest;

TEST_F(RpcTasksOfTheCommandLine, AreTheSameAndTheirOwnerIsLetInOnRequest) {
  const auto id = holdfast({"task", "create", "--method", "report"}).out;
  const json task{{"ownerId", "local"}, {"taskId", id.substr(0, id.find('\n'))}};
  EXPECT_EQ(piped().client().error("task.get", task)["data"]["code"], "AnonymousOwner");
  auto sidecar = piped({"--allow-anonymous"});
  const auto record = sidecar.client().result("task.get", task);
  EXPECT_EQ(record, json::parse(holdfast({"--json", "task", "get", task["taskId"]}).out));
}

TEST_P(RpcTasks, ARefusedTransitionNamesBothStates) {
  const auto task = create();
  EXPECT_EQ(client().error("task.updateStatus", with(task, {{"status", "working"}}))["data"],
            (json{{"code", "InvalidTransition"}, {"from", "working"}, {"to", "working"}}));
  (void)client().result("task.complete", task);
  EXPECT_EQ(client().error("task.fail", task)["data"],
            (json{{"code", "InvalidTransition"}, {"from", "completed"}, {"to", "failed"}}));
  EXPECT_EQ(client().error("task.setVariables", with(task, {{"variables", {{"a", 1}}}}))["data"],
            (json{{"code", "InvalidTransition"}, {"from", "completed"}}));
}

using RpcTaskLimits = RpcTest;

TEST_F(RpcTaskLimits, AreThoseOfTheSidecarsOptions) {
  auto sidecar = piped({"--max-tasks", "2", "--max-ttl", "48h", "--default-ttl", "2s", "--max-variables",
                        "40", "--max-string", "5", "--max-depth", "1", "--poll-interval", "50ms"});
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("holdfast.version")["taskLimits"], (json{{"maxTasksPerOwner", 2},
                                                                   {"maxTasksPerQueue", 100'000},
                                                                   {"defaultTtl", 2000},
                                                                   {"maxTtl", 172'800'000},
                                                                   {"maxVariablesBytes", 40},
                                                                   {"maxStringBytes", 5},
                                                                   {"maxVariableDepth", 1},
                                                                   {"pollInterval", 50}}));
  const auto refusal = [&](const json& more) {
    json params{{"ownerId", "o"}};
    params.update(more);
    return client.error("task.create", params)["data"]["code"];
  };
  EXPECT_EQ(refusal({{"variables", {{"v", "123456"}}}}), "TooLarge");
  EXPECT_EQ(refusal({{"variables", {{"v", {{1}}}}}}), "TooDeep");
  EXPECT_EQ(refusal({{"variables", {{"v", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}}}}),
            "TooLarge");
  EXPECT_EQ(refusal({{"ttl", 172'800'001}}), "TtlTooLong");
  const auto task = client.result("task.create", {{"ownerId", "o"}})["task"];
  EXPECT_EQ(task["ttl"], 2000);
  EXPECT_EQ(task["pollInterval"], 50);
  EXPECT_EQ(client.result("task.create", {{"ownerId", "p"}, {"ttl", 172'800'000}})["task"]["ttl"],
            172'800'000);
  (void)client.result("task.create", {{"ownerId", "p"}});
  EXPECT_EQ(client.error("task.create", {{"ownerId", "p"}})["data"]["code"], "QuotaExceeded");
}

using RpcTaskLists = RpcTest;

TEST_F(RpcTaskLists, NameWhatCannotBeRead) {
  auto sidecar = piped();
  (void)sidecar.client().result("task.create", {{"ownerId", "o"}, {"requestMethod", "m"}});
  EXPECT_FALSE(sidecar.client().result("task.list", {{"ownerId", "o"}}).contains("unreadable"));
  auto engine = open(url());
  const auto tasks = engine.tasks();
  put(tasks.storage(), "o:broken", "no JSON");
  const auto page = sidecar.client().result("task.list", {{"ownerId", "o"}});
  ASSERT_EQ(page["tasks"].size(), 1U);
  EXPECT_EQ(page["tasks"][0]["requestMethod"], "m");
  ASSERT_EQ(page["unreadable"].size(), 1U);
  EXPECT_EQ(page["unreadable"][0]["taskId"], "broken");
  EXPECT_EQ(page["unreadable"][0]["code"], "Internal");
}

}  // namespace
}  // namespace holdfast::test
