#include <unistd.h>

#include <csignal>

#include "output_parts.hpp"
#include "rpc_client.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// What a client sees of locks is the same on every engine.
class RpcLocks : public RpcTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "redis") return;
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    engine_url_ = shared_redis_url();
    engine_url_ += (engine_url_.find('?') == std::string::npos ? "?" : "&");
    engine_url_ += "lock_prefix=" + private_prefix() + "&task_prefix=" + private_prefix();
  }
  [[nodiscard]] PipedSidecar sidecar() const {
    return {directory(), GetParam() == "memory" ? "memory:" : GetParam() == "sqlite" ? url() : engine_url_};
  }

 private:
  std::string engine_url_;
};

INSTANTIATE_TEST_SUITE_P(Engines, RpcLocks, ::testing::Values("memory", "sqlite", "redis"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(RpcLocks, AreAcquiredOnceAndReleasedOnce) {
  auto process = sidecar();
  auto& client = process.client();
  const auto lock = client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}});
  EXPECT_EQ(member_names(lock), (std::vector<std::string>{"expiresAtMs", "fence", "lockId", "ok"}));
  EXPECT_EQ(lock["ok"], true);
  EXPECT_EQ(lock["lockId"].get<std::string>().size(), 22U);
  EXPECT_EQ(lock["fence"].get<std::string>().size(), 15U);
  EXPECT_TRUE(lock["expiresAtMs"].is_number_integer());

  const auto refused = client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}});
  EXPECT_EQ(member_names(refused), (std::vector<std::string>{"holder", "ok", "reason"}));
  EXPECT_EQ(refused["ok"], false);
  EXPECT_EQ(refused["reason"], "locked");
  EXPECT_EQ(client.result("lock.release", {{"lockId", lock["lockId"]}}), (json{{"ok", true}}));
  EXPECT_EQ(client.result("lock.release", {{"lockId", lock["lockId"]}}),
            (json{{"ok", false}, {"reason", "not-found"}}));
  const auto next = client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}});
  EXPECT_GT(next["fence"], lock["fence"]);
}

TEST_P(RpcLocks, AreExtendedAndLookedAt) {
  auto process = sidecar();
  auto& client = process.client();
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), false);
  EXPECT_EQ(client.result("lock.lookup", {{"key", "k"}}), nullptr);
  const auto lock = client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}});
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), true);

  const auto extended = client.result("lock.extend", {{"lockId", lock["lockId"]}, {"ttlMs", 90000}});
  EXPECT_EQ(member_names(extended), (std::vector<std::string>{"expiresAtMs", "ok"}));
  EXPECT_GT(extended["expiresAtMs"], lock["expiresAtMs"]);

  const auto seen = client.result("lock.lookup", {{"key", "k"}});
  EXPECT_EQ(member_names(seen), (std::vector<std::string>{"acquiredAtMs", "expiresAtMs", "fence", "holder",
                                                          "keyHash", "lockIdHash"}));
  EXPECT_EQ(seen["fence"], lock["fence"]);
  EXPECT_EQ(seen["expiresAtMs"], extended["expiresAtMs"]);
  EXPECT_EQ(client.result("lock.lookup", {{"lockId", lock["lockId"]}}), seen);

  EXPECT_EQ(client.result("lock.release", {{"lockId", lock["lockId"]}})["ok"], true);
  EXPECT_EQ(client.result("lock.extend", {{"lockId", lock["lockId"]}, {"ttlMs", 90000}}),
            (json{{"ok", false}, {"reason", "not-found"}}));
  EXPECT_EQ(client.result("lock.lookup", {{"lockId", lock["lockId"]}}), nullptr);
}

TEST_P(RpcLocks, ThatExpiredAreNotReleasedAndTheAnswerSaysWhy) {
  auto process = sidecar();
  auto& client = process.client();
  for (const std::string method : {"lock.release", "lock.extend"}) {
    const auto lock = client.result("lock.acquire", {{"key", method}, {"ttlMs", 30}});
    EXPECT_TRUE(eventually([&] { return client.result("lock.isLocked", {{"key", method}}) == false; }));
    json params{{"lockId", lock["lockId"]}};
    if (method == "lock.extend") params["ttlMs"] = 30000;
    const auto answer = client.result(method, params);
    EXPECT_EQ(answer["ok"], false);
    // Redis itself has dropped it by then, in most cases.
    if (GetParam() != "redis" || answer["reason"] != "not-found") {
      EXPECT_EQ(answer["reason"], "expired") << method;
    }
  }
}

TEST_P(RpcLocks, AWaitDoesNotHoldUpOthersAndEndsWithTheRelease) {
  auto process = sidecar();
  auto& client = process.client();
  const auto first = client.result("lock.lock", {{"key", "k"}});
  EXPECT_EQ(member_names(first), (std::vector<std::string>{"expiresAtMs", "fence", "lockId", "ok"}));
  const auto waiting = client.request("lock.lock", {{"key", "k"}, {"waitMs", 60000}});
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), true);
  EXPECT_EQ(client.result("lock.lock", {{"key", "other"}})["ok"], true);
  EXPECT_EQ(client.result("lock.release", {{"lockId", first["lockId"]}})["ok"], true);
  const auto second = client.answer(waiting)["result"];
  EXPECT_EQ(second["ok"], true);
  EXPECT_GT(second["fence"], first["fence"]);
}

TEST_P(RpcLocks, AWaitIsCalledOffByTheIdOfItsRequest) {
  auto process = sidecar();
  auto& client = process.client();
  const auto held = client.result("lock.lock", {{"key", "k"}});
  const auto waiting = client.request("lock.lock", {{"key", "k"}, {"waitMs", 60000}});
  client.notify("$/cancelRequest", {{"id", waiting}});
  const auto error = client.answer(waiting)["error"];
  EXPECT_EQ(error["code"], -32603);
  EXPECT_EQ(error["data"]["code"], "Aborted");
  // It holds nothing and waits no more.
  EXPECT_EQ(client.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), false);
  EXPECT_EQ(client.result("$/cancelRequest", {{"id", waiting}}), (json{{"ok", false}}));
}

TEST_P(RpcLocks, AWaitThatIsTooLongIsAnAcquisitionTimeout) {
  auto process = sidecar();
  auto& client = process.client();
  EXPECT_EQ(client.result("lock.lock", {{"key", "k"}})["ok"], true);
  const auto error = client.error("lock.lock", {{"key", "k"}, {"waitMs", 50}});
  EXPECT_EQ(error["code"], -32603);
  EXPECT_EQ(error["data"]["code"], "AcquisitionTimeout");
}

TEST_P(RpcLocks, AreRenewedForAsLongAsTheirClientIsThere) {
  auto process = sidecar();
  auto& client = process.client();
  const auto lock = client.result("lock.lock", {{"key", "k"}, {"ttlMs", 600}});
  const auto first_end = lock["expiresAtMs"].get<std::int64_t>();
  EXPECT_TRUE(eventually([&] {
    const auto seen = client.result("lock.lookup", {{"key", "k"}});
    return seen.is_object() && seen["expiresAtMs"].get<std::int64_t>() > first_end + 600;
  }));
  const auto extended = client.result("lock.extend", {{"lockId", lock["lockId"]}, {"ttlMs", 60000}});
  EXPECT_GT(extended["expiresAtMs"].get<std::int64_t>(), first_end + 30000);
}

TEST_P(RpcLocks, TheLossOfOneIsToldToWhoSubscribed) {
  auto process = sidecar();
  auto& client = process.client();
  EXPECT_EQ(client.result("lock.subscribe"), (json{{"ok", true}}));
  const auto lock = client.result("lock.lock", {{"key", "k"}, {"ttlMs", 900}, {"maxHoldMs", 300}});
  const auto loss = client.notification("lock.lost");
  EXPECT_EQ(loss["lockId"], lock["lockId"]);
  EXPECT_EQ(loss["reason"], "max_hold");
  EXPECT_LE(loss["remainingMs"], 50) << "a sixth of the longest hold";
  EXPECT_EQ(loss["keyHash"].get<std::string>().size(), 24U);
  // Who asks later learns of it then.
  EXPECT_EQ(client.result("lock.subscribe", {{"lockId", lock["lockId"]}})["ok"], true);
}

TEST_P(RpcLocks, ErrorsCarryTheirNames) {
  auto process = sidecar();
  auto& client = process.client();
  const auto empty = client.error("lock.acquire", {{"key", ""}, {"ttlMs", 1000}});
  EXPECT_EQ(empty["code"], -32602);
  EXPECT_EQ(empty["data"]["code"], "InvalidArgument");
  for (const auto& [method, params] : std::vector<std::pair<std::string, json>>{
           {"lock.acquire", {{"key", std::string(513, 'x')}, {"ttlMs", 1000}}},
           {"lock.acquire", {{"key", "k"}, {"ttlMs", 0}}},
           {"lock.acquire", {{"key", "k"}, {"ttlMs", -5}}},
           {"lock.acquire", {{"key", "k"}, {"ttlMs", "30s"}}},
           {"lock.acquire", {{"key", "k"}}},
           {"lock.acquire", {{"key", 7}, {"ttlMs", 1000}}},
           {"lock.acquire", {{"key", "k"}, {"ttlMs", 1000}, {"wait", 5}}},
           {"lock.lock", {{"key", "k"}, {"ttlMs", 400LL * 24 * 3600 * 1000}}},
           {"lock.release", {{"lockId", "short"}}},
           {"lock.extend", {{"lockId", std::string(22, '!')}, {"ttlMs", 1000}}},
           {"lock.lookup", json::object()},
           {"lock.lookup", {{"key", "k"}, {"lockId", std::string(22, 'a')}}},
           {"lock.subscribe", {{"lockId", "short"}}}}) {
    const auto error = client.error(method, params);
    EXPECT_EQ(error["code"], -32602) << method << params;
    EXPECT_EQ(error["data"]["code"], "InvalidArgument") << method << params;
    EXPECT_FALSE(error["message"].get<std::string>().empty());
  }
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), false);
}

TEST_P(RpcLocks, WhatIsAcquiredAsANotificationIsNotAcquired) {
  auto process = sidecar();
  auto& client = process.client();
  client.notify("lock.acquire", {{"key", "k"}, {"ttlMs", 60000}});
  client.notify("lock.lock", {{"key", "k"}});
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), false);
}

/// Two clients of one sidecar.
using RpcClients = RpcTest;

TEST_F(RpcClients, TheRenewedLocksOfOneThatGoesAreReleasedAndPlainOnesStay) {
  const auto server = listening();
  auto stays = connect();
  auto goes = connect();
  EXPECT_EQ(goes.result("lock.lock", {{"key", "renewed"}, {"ttlMs", 600000}})["ok"], true);
  EXPECT_EQ(goes.result("lock.acquire", {{"key", "plain"}, {"ttlMs", 600000}})["ok"], true);
  const auto waiting = stays.request("lock.lock", {{"key", "renewed"}, {"waitMs", 60000}});
  goes.close();
  EXPECT_EQ(stays.answer(waiting)["result"]["ok"], true);
  EXPECT_EQ(stays.result("lock.isLocked", {{"key", "plain"}}), true);
}

TEST_F(RpcClients, TheWaitOfOneThatGoesEndsWithIt) {
  const auto server = listening();
  auto holder = connect();
  const auto held = holder.result("lock.lock", {{"key", "k"}});
  auto goes = connect();
  goes.request("lock.lock", {{"key", "k"}, {"waitMs", 3'600'000}});
  EXPECT_EQ(goes.result("lock.isLocked", {{"key", "k"}}), true);  // so the wait has begun
  goes.close();
  EXPECT_EQ(holder.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
  auto third = connect();
  EXPECT_EQ(third.result("lock.lock", {{"key", "k"}, {"waitMs", 10000}})["ok"], true);
}

TEST_F(RpcClients, APlainLockThatOneThatGoesHasNotHeardOfIsReleased) {
  const auto server = listening();
  auto stays = connect();
  const auto gate = stays.result("lock.lock", {{"key", "gate"}});
  auto goes = connect();
  // The answers of a batch come together, so the first waits for the second.
  goes.send(R"([{"jsonrpc":"2.0","id":1,"method":"lock.acquire","params":{"key":"plain","ttlMs":600000}},)"
            R"({"jsonrpc":"2.0","id":2,"method":"lock.lock","params":{"key":"gate","waitMs":600000}}])"
            "\n");
  EXPECT_TRUE(eventually([&] { return stays.result("lock.isLocked", {{"key", "plain"}}) == true; }));
  goes.close();
  EXPECT_EQ(stays.result("lock.lock", {{"key", "plain"}, {"waitMs", 10000}})["ok"], true);
}

TEST_F(RpcClients, APlainLockWhoseAnswerIsStuckBehindOthersIsReleasedWithItsClient) {
  const auto server = listening();
  auto stays = connect();
  auto goes = connect();
  // More than a socket holds, and less than what stops the reading.
  json variables;
  for (int i = 0; i < 14; ++i) variables[std::to_string(i)] = std::string(60'000, 'x');
  const auto task = stays.result("task.create", {{"ownerId", "o"}, {"variables", variables}});
  const json get{{"ownerId", "o"}, {"taskId", task["task"]["taskId"]}};
  EXPECT_EQ(goes.result("lock.acquire", {{"key", "heard"}, {"ttlMs", 600000}})["ok"], true);
  goes.request("task.get", get);
  EXPECT_TRUE(goes.something_came());
  goes.request("lock.acquire", {{"key", "stuck"}, {"ttlMs", 600000}});
  EXPECT_TRUE(eventually([&] { return stays.result("lock.isLocked", {{"key", "stuck"}}) == true; }));
  goes.close();
  EXPECT_EQ(stays.result("lock.lock", {{"key", "stuck"}, {"waitMs", 10000}})["ok"], true);
  EXPECT_EQ(stays.result("lock.isLocked", {{"key", "heard"}}), true);
}

TEST_F(RpcClients, OneMayReleaseAnothersLockByItsIdAndTheOtherLearnsOfIt) {
  const auto server = listening();
  auto holder = connect();
  auto other = connect();
  const auto held = holder.result("lock.lock", {{"key", "k"}, {"ttlMs", 600}});
  EXPECT_EQ(holder.result("lock.subscribe", {{"lockId", held["lockId"]}})["ok"], true);
  EXPECT_EQ(other.result("lock.subscribe", {{"lockId", held["lockId"]}})["ok"], false);  // it is not its own
  EXPECT_EQ(other.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
  const auto loss = holder.notification("lock.lost");
  EXPECT_EQ(loss["lockId"], held["lockId"]);
  EXPECT_EQ(loss["reason"], "gone");
  EXPECT_EQ(loss["remainingMs"], 0);
}

TEST_F(RpcClients, ALockThatAnotherProcessTakesAwayIsTold) {
  const auto server = listening();
  auto client = connect();
  EXPECT_EQ(client.result("lock.subscribe")["ok"], true);
  const auto held = client.result("lock.lock", {{"key", "k"}, {"ttlMs", 600}});
  EXPECT_EQ(holdfast({"lock", "release", held["lockId"]}).code, 0);
  EXPECT_EQ(client.notification("lock.lost")["lockId"], held["lockId"]);
}

TEST_F(RpcClients, OneThatStillReadsGetsItsAnswersThoughItSendsNoMore) {
  const auto server = listening();
  auto holder = connect();
  const auto held = holder.result("lock.lock", {{"key", "k"}});
  auto half = connect();
  const auto waiting = half.request("lock.lock", {{"key", "k"}, {"waitMs", 60000}});
  half.stop_sending();
  EXPECT_FALSE(half.has_answer(waiting, milliseconds(50)));
  EXPECT_EQ(holder.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
  EXPECT_EQ(half.answer(waiting)["result"]["ok"], true);
  EXPECT_TRUE(half.ended());
  // And what it got ends with it.
  EXPECT_EQ(holder.result("lock.lock", {{"key", "k"}, {"waitMs", 10000}})["ok"], true);
}

TEST_P(RpcLocks, SayHowLongTheirLeasesAreProven) {
  auto process = sidecar();
  auto& client = process.client();
  const auto remaining = [&](const json& lock) {
    return client.result("lock.remaining", {{"lockId", lock["lockId"]}});
  };
  const auto held = client.result("lock.lock", {{"key", "k"}, {"ttlMs", 30000}});
  EXPECT_EQ(remaining(held)["ok"], true);
  EXPECT_GT(remaining(held)["remainingMs"], 15000);
  EXPECT_LT(remaining(held)["remainingMs"], 30000);  // less the allowance for drift

  // It is not renewed: the client itself counts its ttl.
  const auto acquired = client.result("lock.acquire", {{"key", "acquired"}, {"ttlMs", 30000}});
  EXPECT_EQ(remaining(acquired), (json{{"ok", false}}));
  client.result("lock.release", {{"lockId", held["lockId"]}});
  EXPECT_EQ(remaining(held), (json{{"ok", false}}));
  EXPECT_EQ(client.error("lock.remaining", {{"lockId", "short"}})["data"]["code"], "InvalidArgument");
}

TEST_F(RpcClients, ALossIsToldWhenRedisDoesNotAnswer) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer redis;
  PipedSidecar sidecar(directory(), redis.url());
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("lock.subscribe")["ok"], true);
  const auto held = client.result("lock.lock", {{"key", "k"}, {"ttlMs", 900}, {"noticeMs", 300}});
  redis.pause();
  const auto risk = client.notification("lock.atRisk");
  EXPECT_EQ(risk["lockId"], held["lockId"]);
  EXPECT_EQ(risk["atRisk"], true);
  EXPECT_GT(risk["remainingMs"], 0);
  const auto loss = client.notification("lock.lost");
  EXPECT_EQ(loss["lockId"], held["lockId"]);
  EXPECT_EQ(loss["keyHash"], risk["keyHash"]);
  EXPECT_EQ(loss["reason"], "unproven");
  EXPECT_LE(loss["remainingMs"], 300);
  redis.resume();
}

TEST_F(RpcClients, TheKeyOfALockThatWasGrantedIsPassedAlongWithItsId) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer redis;
  // In this layout a lock is found by its id alone with another request, a GET.
  PipedSidecar sidecar(directory(), redis.url() + "?layout=native");
  auto& client = sidecar.client();
  const auto lock = client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}});
  auto raw = redis.raw();
  raw.text({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(client.result("lock.extend", {{"lockId", lock["lockId"]}, {"ttlMs", 60000}})["ok"], true);
  EXPECT_EQ(client.result("lock.release", {{"lockId", lock["lockId"]}})["ok"], true);
  EXPECT_EQ(raw.text({"INFO", "commandstats"}).find("cmdstat_get:"), std::string::npos);
  EXPECT_EQ(client.result("lock.release", {{"lockId", lock["lockId"]}})["reason"], "not-found");
}

TEST_F(RpcClients, ARiskThatPassesIsTold) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer redis;
  PipedSidecar sidecar(directory(), redis.url());
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("lock.subscribe")["ok"], true);
  EXPECT_EQ(client.result("job.subscribe")["ok"], true);
  EXPECT_EQ(client.result("lock.lock", {{"key", "k"}, {"ttlMs", 3000}})["ok"], true);
  client.result("queue.add", {{"queue", "q"}});
  const auto jobs = client.result("queue.claimNext", {{"queues", {"q"}}, {"leaseMs", 3000}})["jobs"];
  redis.pause();
  EXPECT_EQ(client.notification("lock.atRisk")["atRisk"], true);
  auto job = client.notification("job.atRisk");
  EXPECT_GT(job.value("remainingMs", 0), 0);
  job.erase("remainingMs");
  EXPECT_EQ(
      job,
      (json{{"jobId", jobs[0]["jobId"]}, {"queue", "q"}, {"taskId", jobs[0]["taskId"]}, {"atRisk", true}}));
  redis.resume();
  EXPECT_EQ(client.notification("lock.atRisk")["atRisk"], false);
  EXPECT_EQ(client.notification("job.atRisk")["atRisk"], false);
}

TEST_P(RpcLocks, ANoticeThatIsTooLongIsRefused) {
  auto process = sidecar();
  auto& client = process.client();
  const auto error = client.error("lock.lock", {{"key", "k"}, {"ttlMs", 30000}, {"noticeMs", 20000}});
  EXPECT_EQ(error["code"], -32602);
  EXPECT_EQ(error["data"]["code"], "InvalidArgument");
  EXPECT_EQ(error["message"],
            "invalid notice: 20000 ms is more than a third of the ttl of 30000 ms. Use a longer ttl or a "
            "shorter notice");
}

}  // namespace
}  // namespace holdfast::test
