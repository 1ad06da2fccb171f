// Releases on Redis whose answers got lost: one that finds nothing the second time is only reported as done
// if nothing else can have ended the lock.

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <mutex>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using Way = TcpProxy::Way;

class RedisRelease : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    use(RedisLayout::documented, "syncguard");
  }
  void use(RedisLayout layout, const std::string& prefix) {
    auto options = server->tcp();
    options.layout = layout;
    options.lock_prefix = prefix;
    direct = make_redis_lock_backend(options).value_or_throw();
    options.port = proxy->port();
    options.command_timeout = 2s;
    proxied.emplace(make_redis_lock_backend(options).value_or_throw());
    proxied->lock("warm").release();  // the server knows the scripts
  }

  /// A release of this grant that asks for the second time.
  [[nodiscard]] ReleaseRequest asked_before(const Granted& granted) const {
    return {.lock = {.id = id, .key = key("k")},
            .proof = HolderProof{.fence = granted.fence, .authority = granted.authority, .until = never},
            .asked_before = true};
  }
  [[nodiscard]] Result<ReleaseOutcome> release_again(const Granted& granted) const {
    return try_release(*direct, asked_before(granted));
  }
  static bool is_released(const Result<ReleaseOutcome>& outcome) {
    return outcome && std::holds_alternative<Released>(*outcome);
  }
  static bool is_absent(const Result<ReleaseOutcome>& outcome) {
    return outcome && std::holds_alternative<Absence>(*outcome);
  }
  static bool is_unknown(const Result<ReleaseOutcome>& outcome) {
    return !outcome && outcome.error().code() == ErrorCode::NetworkTimeout;
  }
  void break_lock() {
    Locks operators(make_redis_lock_backend(server->tcp()).value_or_throw());
    ASSERT_TRUE(operators.break_lock("k", "a test"));
  }
  std::string index() const { return "syncguard:id:" + std::string(id.str()); }

  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<LockBackend> direct;
  std::optional<Locks> proxied;
  const LockId id = LockId::generate();
};

TEST_F(RedisRelease, OfABrokenLockIsNotReportedAsDoneThoughItsAnswerWasLost) {
  auto guard = proxied->lock("k", {.auto_renew = false});
  break_lock();
  const auto next = acquire(*direct, id, "k");
  ASSERT_TRUE(next);
  proxy->cut_after(Way::to_client, 1);
  EXPECT_FALSE(guard.release());
  EXPECT_EQ(lookup(*direct, "k")->id, id) << "the next holder's lock is untouched";
}

TEST_F(RedisRelease, OfABrokenLockOfAYearIsRememberedForADayOnly) {
  ASSERT_TRUE(acquire(*direct, id, "k", std::chrono::days(365)));
  break_lock();
  const auto left = std::chrono::milliseconds(server->raw().integer({"PTTL", index()}));
  EXPECT_GT(left, 23h);
  EXPECT_LE(left, 24h + 60s);
}

TEST_F(RedisRelease, WhoseAnswerIsLostIsAskedAgainAndIsDone) {
  auto guard = proxied->lock("k", {.auto_renew = false});
  proxy->cut_after(Way::to_client, 1);
  EXPECT_TRUE(guard.release());
  EXPECT_FALSE(is_locked(*direct, "k"));
}

TEST_F(RedisRelease, ByTheIdAloneIsUnknownIfItsAnswerWasLostAndNothingIsThere) {
  const auto lock = proxied->acquire("k");
  proxy->cut_after(Way::to_client, 1);
  try {
    (void)proxied->release(lock.id.str());
    ADD_FAILURE() << "nothing says whether the first copy did it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NetworkTimeout);
    EXPECT_NE(error.message().find("unknown"), std::string::npos);
  }
}

TEST_F(RedisRelease, ByTheIdAloneIsDoneIfOnlyTheHintOfItsLockWasLost) {
  use(RedisLayout::native, "native");
  const auto lock = proxied->acquire("k");
  proxy->cut_after(Way::to_client, 1);
  EXPECT_TRUE(proxied->release(lock.id.str()));
  EXPECT_FALSE(is_locked(*direct, "k"));
}

TEST_F(RedisRelease, IsNotDoneAfterTheServerLostItsData) {
  auto guard = proxied->lock("k", {.auto_renew = false});
  server->raw().text({"FLUSHALL"});
  proxy->cut_after(Way::to_client, 1);
  EXPECT_FALSE(guard.release());
}

TEST_F(RedisRelease, IsNotDoneAfterTheServerLostItsDataAndOthersUseItAgain) {
  auto guard = proxied->lock("k", {.auto_renew = false});
  server->raw().text({"FLUSHALL"});
  for (int i = 0; i < 3; ++i) {
    const auto another = LockId::generate();
    ASSERT_TRUE(acquire(*direct, another, "k"));
    ASSERT_FALSE(release(*direct, another, "k"));
  }
  proxy->cut_after(Way::to_client, 1);
  EXPECT_FALSE(guard.release());
}

TEST_F(RedisRelease, IsNotDoneIfTheCounterIsBelowItsFence) {
  const auto granted = acquire(*direct, id, "k");
  server->raw().text({"SET", "syncguard:fence:syncguard:k", "0"});
  server->raw().text({"DEL", "syncguard:k", index()});
  EXPECT_TRUE(is_absent(release_again(*granted)));
  server->raw().text({"DEL", "syncguard:fence:syncguard:k"});
  EXPECT_TRUE(is_absent(release_again(*granted)));
}

TEST_F(RedisRelease, IsDoneThoughTheNextHolderHasTheLockAlready) {
  const auto granted = acquire(*direct, id, "k");
  ASSERT_FALSE(release(*direct, id, "k"));
  ASSERT_TRUE(acquire(*direct, LockId::generate(), "k"));
  EXPECT_TRUE(is_released(release_again(*granted)));
}

TEST_F(RedisRelease, IsUnknownOnceTheProofHasEnded) {
  const auto granted = acquire(*direct, id, "k");
  ASSERT_FALSE(release(*direct, id, "k"));
  auto request = asked_before(*granted);
  request.proof->until = BootClock::now();
  EXPECT_TRUE(is_unknown(try_release(*direct, request)));
}

TEST_F(RedisRelease, ThatWasNotAskedBeforeAnswersWhatItFinds) {
  const auto granted = acquire(*direct, id, "k");
  ASSERT_FALSE(release(*direct, id, "k"));
  auto request = asked_before(*granted);
  request.asked_before = false;
  EXPECT_TRUE(is_absent(try_release(*direct, request)));
}

TEST_F(RedisRelease, TheMarkOfABreakOutlivesTheLeaseAndSurvivesEveryReleaseAndLateAcquire) {
  const auto granted = acquire(*direct, id, "k", 90s);
  break_lock();
  const auto left = server->raw().integer({"PTTL", index()});
  EXPECT_GT(left, 90'000 + 50'000);
  EXPECT_LE(left, 90'000 + 60'000);
  EXPECT_EQ(release(*direct, id, "k"), Absence::not_found);
  EXPECT_EQ(release(*direct, id), Absence::not_found);
  auto sealing = asked_before(*granted);
  sealing.acquire_may_be_repeated = true;
  EXPECT_TRUE(is_absent(try_release(*direct, sealing)));
  EXPECT_FALSE(try_acquire(*direct, id, "k")) << "its acquire comes late";
  EXPECT_FALSE(lookup(*direct, id));
  EXPECT_TRUE(is_absent(release_again(*granted)));
  EXPECT_TRUE(acquire(*direct, LockId::generate(), "k")) << "the key is free";
}

TEST_F(RedisRelease, ABreakWhoseAnswerIsLostIsAskedAgainAndIsDone) {
  ASSERT_TRUE(acquire(*direct, id, "k"));
  const Locks& operators = *proxied;
  // Its lookup is answered, the answer to its release is cut off.
  const auto record = operators.get_by_key("k");
  ASSERT_TRUE(record);
  ReleaseRequest broken{.lock = {.id = id, .key = key("k")}, .broken_because = "a test"};
  ASSERT_TRUE(is_released(try_release(*direct, broken)));
  broken.asked_before = true;
  EXPECT_TRUE(is_released(try_release(*direct, broken)));
  const auto never_held = LockId::generate();
  broken.lock.id = never_held;
  EXPECT_TRUE(is_absent(try_release(*direct, broken)));
}

TEST_F(RedisRelease, OfAnAdoptedLockKeepsALateCopyOfItsAcquireOut) {
  proxy->cut_after(Way::to_client, 1);
  const auto detached = proxied->acquire("k");
  EXPECT_TRUE(detached.acquire_may_be_repeated);
  Locks elsewhere(direct);
  auto guard = elsewhere.adopt(detached);
  ASSERT_TRUE(guard);
  EXPECT_EQ(guard->authority(), detached.authority);
  EXPECT_TRUE(guard->release());
  EXPECT_FALSE(try_acquire(*direct, detached.id, "k")) << "the lost copy comes late";
  EXPECT_FALSE(is_locked(*direct, "k"));
}

// A waiter whose first copy of an acquire is lost and whose second is answered with a transient error goes on
// with the same id: it must not have been given back.
TEST_F(RedisRelease, OfAnIdInDoubtIsSentAgainUntilTheServerIsBack) {
  auto raw = server->raw();
  const auto is_there = [&] { return raw.integer({"EXISTS", "syncguard:k"}) == 1; };
  proxy->swallow(Way::to_client);
  EXPECT_THROW((void)proxied->lock("k", {.ttl = 10min, .wait = 300ms}), Error);
  ASSERT_TRUE(is_there()) << "the attempt was carried out, and its caller does not know";
  proxy->refuse();
  proxy->forward();
  proxy->cut();
  std::this_thread::sleep_for(2500ms);  // longer than one request is tried
  ASSERT_TRUE(is_there());
  proxy->listen_again();
  EXPECT_TRUE(eventually([&] { return !is_there(); })) << "it would have been held for ten minutes";
}

TEST(RedisAcquire, ATransientErrorAfterALostCopyDoesNotEndTheId) {
  std::mutex mutex;
  int acquires = 0;
  std::vector<std::string> ids;
  FakeRedis server([&](const FakeRedis::Words& command) -> FakeRedis::Answer {
    if (command.at(0) != "EVALSHA" || command.size() < 8 || command.at(2) != "4") {
      return command.at(0) == "GET" ? FakeRedis::Answer{FakeRedis::bulk("store")}
                                    : FakeRedis::politely(command);
    }
    const std::lock_guard lock(mutex);
    ids.push_back(command.at(7));
    switch (++acquires) {
      case 1:
        return {.bytes = {}, .then = FakeRedis::Then::close};
      case 2:
        return {.bytes = "-LOADING Redis is loading the dataset in memory\r\n"};
      default:
        return {.bytes = "*4\r\n:1\r\n$15\r\n000000000000001\r\n:1700000000000\r\n$5\r\nstore\r\n"};
    }
  });
  RedisOptions options;
  options.port = server.port();
  {
    Locks locks(make_redis_lock_backend(options).value_or_throw());
    const auto guard = locks.lock("k", {.wait = 60s, .base_delay = 1ms, .auto_renew = false});
    EXPECT_EQ(guard.authority(), "store");
    const std::lock_guard lock(mutex);
    ASSERT_EQ(ids.size(), 3U);
    EXPECT_EQ(ids[1], ids[0]);
    EXPECT_EQ(ids[2], ids[0]);
    for (const auto& words : server.heard()) {
      EXPECT_FALSE(words.at(0) == "EVALSHA" && words.at(2) == "2")
          << "a release, while the waiter uses the id";
    }
  }
}

}  // namespace
}  // namespace holdfast::test
