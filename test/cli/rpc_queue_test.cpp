#include <csignal>

#include "rpc_client.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// The queues of a sidecar on each engine.
class RpcQueues : public RpcTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    std::string store = GetParam() == "memory" ? "memory:" : url();
    if (GetParam() == "redis") {
      if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
      store = shared_redis_url();
      store += (store.find('?') == std::string::npos ? "?" : "&");
      store += "lock_prefix=" + private_prefix() + "&task_prefix=" + private_prefix();
    }
    server_ = start({"--url", store, "rpc", "--listen", socket().string()});
    client_.emplace(connect());
  }
  RpcClient& client() { return *client_; }
  Program& server() { return *server_; }

  /// A new task, as parameters that name it.
  json add(const json& more = json::object()) {
    json params{{"queue", "q"}};
    params.update(more);
    const auto task = client().result("queue.add", params);
    return {{"queue", params["queue"]}, {"taskId", task["task"]["taskId"]}};
  }
  static json claim(RpcClient& worker, const json& more = json::object()) {
    json params{{"queues", {"q"}}};
    params.update(more);
    return worker.result("queue.claimNext", params)["jobs"];
  }
  json claim(const json& more = json::object()) { return claim(client(), more); }
  /// The only job there is to claim.
  json claim_one(RpcClient& worker) {
    auto jobs = claim(worker);
    EXPECT_EQ(jobs.size(), 1U) << jobs;
    return jobs.empty() ? json{{"jobId", ""}} : jobs[0];
  }
  json state_of(const json& task) { return client().result("queue.get", task)["queue"]; }

 private:
  std::unique_ptr<Program> server_;
  std::optional<RpcClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Engines, RpcQueues, ::testing::Values("memory", "sqlite", "redis"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(RpcQueues, ATaskGoesFromItsRequesterToAWorkerAndBack) {
  const auto task = add({{"requestMethod", "render"},
                         {"variables", {{"frame", 7}}},
                         {"priority", -5},
                         {"maxAttempts", 3},
                         {"attemptLimitMs", 60000},
                         {"retentionMs", 5000},
                         {"failedRetentionMs", 9000},
                         {"limitKey", "customer 7"},
                         {"limit", 2},
                         {"requester", "alice"}});
  auto requester = connect();
  const auto waiting = requester.request("queue.wait", task);
  const auto job = claim_one(client());
  EXPECT_EQ(job["queue"], "q");
  EXPECT_EQ(job["taskId"], task["taskId"]);
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(job["fence"], job["task"]["fence"]["fence"]);
  EXPECT_EQ(job["task"]["variables"], (json{{"frame", 7}}));
  EXPECT_EQ(job["task"]["requestMethod"], "render");
  const auto state = state_of(task);
  EXPECT_EQ(state["place"], "leased");
  EXPECT_EQ(state["priority"], -5);
  EXPECT_EQ(state["maxAttempts"], 3);
  EXPECT_EQ(state["attemptLimitMs"], 60000);
  EXPECT_EQ(state["retentionMs"], 5000);
  EXPECT_EQ(state["failedRetentionMs"], 9000);
  EXPECT_EQ(state["limitKey"], "customer 7");
  EXPECT_EQ(state["limit"], 2);
  EXPECT_EQ(state["requester"], "alice");
  EXPECT_NE(state["worker"], nullptr);
  const json named{{"jobId", job["jobId"]}};
  auto params = named;
  params["variables"] = {{"progress", 0.5}};
  EXPECT_EQ(client().result("job.setVariables", params)["variables"],
            (json{{"frame", 7}, {"progress", 0.5}}));
  params = named;
  params.update({{"result", {{"url", "x"}}}, {"statusMessage", "fine"}});
  EXPECT_EQ(client().result("job.complete", params)["task"]["status"], "completed");
  const auto ended = requester.answer(waiting)["result"];
  EXPECT_EQ(ended["task"]["statusMessage"], "fine");
  EXPECT_EQ(ended["queue"]["place"], "finished");
  EXPECT_EQ(client().result("queue.getResult", task), (json{{"url", "x"}}));
  EXPECT_EQ(client().error("job.complete", named)["data"]["code"], "InvalidArgument");  // it has ended
  EXPECT_EQ(client().result("queue.remove", task), (json{{"ok", true}}));
  EXPECT_EQ(client().result("queue.remove", task), (json{{"ok", false}}));
}

TEST_P(RpcQueues, AClaimTriesItsQueuesInOrderAndTakesAsManyAsItMay) {
  EXPECT_EQ(claim(), json::array());
  EXPECT_EQ(claim({{"waitMs", 20}}), json::array());
  std::vector<json> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(add()["taskId"]);
  const auto urgent = add({{"queue", "urgent"}});
  auto jobs = claim({{"queues", {"urgent", "q"}}, {"limit", 2}, {"worker", "w 1"}, {"leaseMs", 60000}});
  ASSERT_EQ(jobs.size(), 1U);  // of one queue at a time
  EXPECT_EQ(jobs[0]["taskId"], urgent["taskId"]);
  EXPECT_EQ(jobs[0]["task"]["queue"]["worker"], "w 1");
  EXPECT_EQ(jobs[0]["task"]["queue"]["leaseExpiresAtMs"].get<std::int64_t>() -
                jobs[0]["task"]["queue"]["claimedAtMs"].get<std::int64_t>(),
            60000);
  jobs = claim({{"queues", {"urgent", "q"}}, {"limit", 2}});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0]["taskId"], ids[0]);
  EXPECT_EQ(jobs[1]["taskId"], ids[1]);
  EXPECT_EQ(claim().size(), 1U);
}

TEST_P(RpcQueues, ANewTaskEndsAWaitingClaimAndACancelledOneClaimsNothing) {
  auto worker = connect();
  const json forever{{"queues", {"other", "q"}}, {"waitMs", 3'600'000}};
  const auto cancelled = worker.request("queue.claimNext", forever);
  EXPECT_FALSE(worker.has_answer(cancelled, milliseconds(20)));
  worker.notify("$/cancelRequest", {{"id", cancelled}});
  EXPECT_EQ(worker.answer(cancelled)["error"]["data"]["code"], "Aborted");
  const auto waiting = worker.request("queue.claimNext", forever);
  const auto task = add();
  EXPECT_EQ(worker.answer(waiting)["result"]["jobs"][0]["taskId"], task["taskId"]);
}

TEST_P(RpcQueues, AJobEndsInOneOfFiveWays) {
  const auto task = add({{"maxAttempts", 2}});
  auto job = claim_one(client());
  EXPECT_EQ(client().result("queue.claim", task), nullptr);  // it is claimed
  client().result("job.giveBack", {{"jobId", job["jobId"]}});
  EXPECT_EQ(state_of(task)["attempts"], 0);
  EXPECT_EQ(state_of(task)["place"], "ready");
  job = client().result("queue.claim", task);
  EXPECT_EQ(job["taskId"], task["taskId"]);
  client().result("job.retry", {{"jobId", job["jobId"]}, {"delayMs", 3'600'000}, {"statusMessage", "busy"}});
  EXPECT_EQ(state_of(task)["place"], "delayed");
  EXPECT_EQ(state_of(task)["attempts"], 1);
  job = client().result("queue.claim", task);  // it may be claimed though it is delayed
  const auto failed = client().result(
      "job.fail", {{"jobId", job["jobId"]}, {"result", {{"why", "disk"}}}, {"statusMessage", "no space"}});
  EXPECT_EQ(failed["task"]["status"], "failed");
  EXPECT_EQ(failed["result"], (json{{"why", "disk"}}));

  const auto first = add();
  const auto second = add();
  job = claim_one(client());
  auto next = client().result("job.completeAndClaim", {{"jobId", job["jobId"]}, {"result", 1}});
  EXPECT_EQ(next["task"]["task"]["taskId"], first["taskId"]);
  EXPECT_EQ(next["task"]["task"]["status"], "completed");
  EXPECT_EQ(next["job"]["taskId"], second["taskId"]);
  const auto left = client().result("job.remaining", {{"jobId", next["job"]["jobId"]}});
  EXPECT_GT(left["remainingMs"], 0) << "the end of the first job takes nothing from it";
  const auto last = client().result("job.completeAndClaim", {{"jobId", next["job"]["jobId"]}});
  EXPECT_EQ(last["task"]["task"]["status"], "completed");
  EXPECT_EQ(last["job"], nullptr);
}

TEST_P(RpcQueues, AFailedTaskIsRetriedOnceByANewOne) {
  const auto task = add({{"variables", {{"n", 1}}}});
  EXPECT_EQ(client().error("queue.retry", task)["data"]["code"], "InvalidTransition");
  client().result("job.fail", {{"jobId", claim_one(client())["jobId"]}});
  const auto again = client().result("queue.retry", task);
  EXPECT_NE(again["task"]["taskId"], task["taskId"]);
  EXPECT_EQ(again["variables"], (json{{"n", 1}}));
  EXPECT_EQ(client().result("queue.retry", task)["task"]["taskId"], again["task"]["taskId"]);
  EXPECT_EQ(client().result("queue.listTasks", {{"queue", "q"}, {"status", "failed"}})["tasks"].size(), 1U);
}

TEST_P(RpcQueues, AreCountedPausedAndLimited) {
  const auto task = add();
  add({{"delayMs", 3'600'000}});
  auto counts = client().result("queue.pause", {{"queue", "q"}});
  EXPECT_EQ(counts["queue"], "q");
  EXPECT_EQ(counts["paused"], true);
  EXPECT_EQ(counts["ready"], 1);
  EXPECT_EQ(counts["delayed"], 1);
  EXPECT_EQ(claim(), json::array());
  EXPECT_EQ(client().result("queue.resume", {{"queue", "q"}})["paused"], false);
  add();
  EXPECT_EQ(client().result("queue.limit", {{"queue", "q"}, {"limit", 1}})["limit"], 1);
  EXPECT_EQ(claim({{"limit", 10}}).size(), 1U);
  EXPECT_EQ(claim(), json::array());
  EXPECT_EQ(client().result("queue.limit", {{"queue", "q"}, {"limit", 0}})["limit"], nullptr);
  counts = client().result("queue.counts", {{"queue", "q"}});
  EXPECT_EQ(counts["working"], 1);
  EXPECT_EQ(counts["tasks"], 3);
  EXPECT_EQ(client().result("queue.list")["queues"], json::array({"q"}));
  const auto page = client().result("queue.listTasks", {{"queue", "q"}, {"limit", 2}});
  EXPECT_EQ(page["tasks"].size(), 2U);
  EXPECT_TRUE(page.contains("nextCursor"));
  EXPECT_EQ(page["tasks"][0]["queue"]["name"], "q");
}

TEST_P(RpcQueues, TheSameRequestKeyAddsOneTask) {
  EXPECT_EQ(add({{"requestKey", "k"}}), add({{"requestKey", "k"}}));
  EXPECT_EQ(
      client().error("queue.add", {{"queue", "q"}, {"requestKey", "k"}, {"priority", 1}})["data"]["code"],
      "RequestKeyConflict");
}

TEST_P(RpcQueues, AWorkerIsToldThatItsTaskWasCancelledOrRemoved) {
  auto worker = connect();
  worker.result("job.subscribe");
  const std::vector<std::pair<std::string, std::string>> ways{{"queue.cancel", "cancelled"},
                                                              {"queue.remove", "removed"}};
  for (const auto& [method, reason] : ways) {
    const auto task = add();
    const auto job = claim(worker, {{"leaseMs", 1500}})[0];
    client().result(method, task);
    auto stopped = worker.notification("job.stopped");
    EXPECT_GE(stopped.value("remainingMs", -1), 0);
    stopped.erase("remainingMs");
    EXPECT_EQ(
        stopped,
        (json{{"jobId", job["jobId"]}, {"queue", "q"}, {"taskId", task["taskId"]}, {"reason", reason}}));
    const auto late = worker.error("job.complete", {{"jobId", job["jobId"]}})["data"]["code"];
    EXPECT_EQ(late, reason == "removed" ? "NotFound" : "InvalidTransition");
    // The store has decided: the job is over.
    EXPECT_EQ(worker.error("job.giveBack", {{"jobId", job["jobId"]}})["data"]["code"], "InvalidArgument");
    EXPECT_EQ(worker.result("job.subscribe", {{"jobId", job["jobId"]}}), (json{{"ok", false}}));
  }
}

TEST_P(RpcQueues, AJobBelongsToItsConnection) {
  add();
  auto worker = connect();
  const json job{{"jobId", claim_one(worker)["jobId"]}};
  EXPECT_EQ(client().error("job.complete", job)["data"]["code"], "InvalidArgument");
  EXPECT_EQ(worker.result("job.complete", job)["task"]["status"], "completed");
}

TEST_P(RpcQueues, AJobSaysHowLongItsLeaseIsProven) {
  add();
  auto worker = connect();
  const json job{{"jobId", claim_one(worker)["jobId"]}};
  EXPECT_GT(worker.result("job.remaining", job)["remainingMs"], 15000);
  EXPECT_LT(worker.result("job.remaining", job)["remainingMs"], 30000);
  EXPECT_EQ(client().result("job.remaining", job), (json{{"ok", false}}));  // of another connection
  worker.result("job.complete", job);
  EXPECT_EQ(worker.result("job.remaining", job), (json{{"ok", false}}));
}

TEST_P(RpcQueues, AClientThatClosesInOrderGivesItsJobsBack) {
  const auto task = add();
  auto worker = connect();
  claim_one(worker);
  worker.stop_sending();
  EXPECT_TRUE(worker.ended());
  const auto state = state_of(task);
  EXPECT_EQ(state["place"], "ready");
  EXPECT_EQ(state["attempts"], 0);
}

TEST_P(RpcQueues, TheAttemptOfAClientThatVanishesCounts) {
  const auto task = add({{"maxAttempts", 1}});
  auto worker = connect();
  claim_one(worker);
  worker.vanish();  // long before its lease expires
  const auto ended = client().result("queue.wait", task);
  EXPECT_EQ(ended["task"]["status"], "failed");
  EXPECT_EQ(ended["queue"]["attempts"], 1);
}

TEST_P(RpcQueues, AJobThatItsClientNeverHeardOfIsGivenBack) {
  constexpr int large_tasks = 20;
  for (int i = 0; i < large_tasks; ++i) add({{"variables", {{"x", std::string(60'000, 'x')}}}});
  auto worker = connect();
  worker.request("queue.claimNext", {{"queues", {"q"}}, {"limit", large_tasks}});
  const auto working = [&] { return client().result("queue.counts", {{"queue", "q"}})["working"]; };
  EXPECT_TRUE(eventually([&] { return working() == large_tasks; }));
  worker.vanish();  // the answer does not fit into the socket, and was not read
  EXPECT_TRUE(eventually([&] { return working() == 0; }));
  const auto page = client().result("queue.listTasks", {{"queue", "q"}});
  ASSERT_EQ(page["tasks"].size(), std::size_t{large_tasks});
  for (const auto& task : page["tasks"]) {
    EXPECT_EQ(task["queue"]["attempts"], 0);
    EXPECT_EQ(task["queue"]["place"], "ready");
  }
}

TEST_P(RpcQueues, AClaimAsANotificationIsNotCarriedOut) {
  add();
  client().notify("queue.claimNext", {{"queues", {"q"}}});
  EXPECT_EQ(client().result("queue.counts", {{"queue", "q"}})["working"], 0);
  const auto job = claim_one(client());
  client().notify("job.completeAndClaim", {{"jobId", job["jobId"]}});
  EXPECT_EQ(client().result("job.complete", {{"jobId", job["jobId"]}})["task"]["status"], "completed");
}

TEST_P(RpcQueues, ErrorsNameTheParameter) {
  const std::vector<std::tuple<std::string, json, std::string>> all{
      {"queue.add", {{"queue", ""}}, ""},
      {"queue.add", {{"queue", "q"}, {"priority", 1001}}, "priority"},
      {"queue.add", {{"queue", "q"}, {"priority", 0.5}}, "priority"},
      {"queue.add", {{"queue", "q"}, {"maxAttempts", 0}}, "maxAttempts"},
      {"queue.add", {{"queue", "q"}, {"requestKey", ""}}, "requestKey"},
      {"queue.add", {{"queue", "q"}, {"requester", std::string("bob\0EVIL=1", 10)}}, "requester"},
      {"queue.claimNext", {{"queues", json::array()}}, "queues"},
      {"queue.claimNext", {{"queues", "q"}}, "queues"},
      {"queue.claimNext", {{"queues", {"q"}}, {"limit", 101}}, "limit"},
      {"queue.claimNext", {{"queues", {"q"}}, {"leaseMs", 0}}, ""},
      {"queue.listTasks", {{"queue", "q"}, {"limit", 0}}, "limit"},
      {"job.complete", {{"jobId", "nonsense"}}, "jobId"},
  };
  for (const auto& [method, params, named] : all) {
    const auto error = client().error(method, params);
    EXPECT_EQ(error["code"], -32602) << method << params << error;
    EXPECT_NE(error["message"].get<std::string>().find(named), std::string::npos) << error;
  }
  EXPECT_EQ(client().error("queue.get", {{"queue", "q"}, {"taskId", "none"}})["data"]["code"], "NotFound");
}

/// On an engine that outlives the sidecar.
using RpcQueueShutdown = RpcTest;

TEST_F(RpcQueueShutdown, ASidecarThatStopsGivesTheJobsOfItsClientsBack) {
  const auto server = listening();
  auto worker = connect();
  const auto task = worker.result("queue.add", {{"queue", "q"}});
  EXPECT_EQ(worker.result("queue.claimNext", {{"queues", {"q"}}})["jobs"].size(), 1U);
  const auto waiting = worker.request("queue.claimNext", {{"queues", {"q"}}, {"waitMs", 3'600'000}});
  EXPECT_EQ(worker.result("queue.counts", {{"queue", "q"}})["working"], 1);
  server->signal(SIGTERM);
  EXPECT_EQ(worker.answer(waiting)["error"]["data"]["code"], "Aborted");
  EXPECT_EQ(server->wait().code, 0);
  const auto shown = holdfast({"--json", "queue", "get", "q", task["task"]["taskId"]});
  const auto state = json::parse(shown.out)["queue"];
  EXPECT_EQ(state["place"], "ready");
  EXPECT_EQ(state["attempts"], 0);
}

TEST_F(RpcQueueShutdown, TheLimitOfAQueueIsAnOption) {
  auto sidecar = piped({"--queue-limit", "1"});
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("holdfast.version")["taskLimits"]["maxTasksPerQueue"], 1);
  client.result("queue.add", {{"queue", "q"}});
  EXPECT_EQ(client.error("queue.add", {{"queue", "q"}})["data"]["code"], "QuotaExceeded");
  client.result("queue.add", {{"queue", "other"}});
}

}  // namespace
}  // namespace holdfast::test
