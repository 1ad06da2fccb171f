// Locks whose grants and renewals replicas must acknowledge: a change that too few have is not counted.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/holdfast.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/sqlite.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

class RedisReplicas : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    master.emplace(RedisServer::Options{.config = {"repl-diskless-sync no"}});
    const auto follows = "replicaof 127.0.0.1 " + std::to_string(master->port());
    for (auto& replica : replicas) replica.emplace(RedisServer::Options{.config = {follows}});
    for (auto& replica : replicas) {
      ASSERT_TRUE(eventually([&] {
        return replica->raw().text({"INFO", "replication"}).find("link_status:up") != std::string::npos;
      }));
    }
    master->wait_for_replicas(2);
    direct = make_redis_lock_backend(master->tcp()).value_or_throw();
  }

  [[nodiscard]] std::shared_ptr<LockBackend> open(std::uint32_t min_replicas,
                                                  milliseconds replica_timeout = 200ms) const {
    auto options = master->tcp();
    options.min_replicas = min_replicas;
    options.replica_timeout = replica_timeout;
    return make_redis_lock_backend(options).value_or_throw();
  }
  void pause_replicas() {
    for (auto& replica : replicas) replica->pause();
  }
  void resume_replicas() {
    for (auto& replica : replicas) replica->resume();
  }
  /// The connections whose last command was WAIT.
  [[nodiscard]] std::vector<std::string> waiting_clients() const {
    std::vector<std::string> ids;
    const auto list = master->raw().text({"CLIENT", "LIST"});
    for (std::size_t at = 0; at < list.size();) {
      const auto end = std::min(list.find('\n', at), list.size());
      const auto line = list.substr(at, end - at);
      at = end + 1;
      if (line.find(" cmd=wait ") == std::string::npos || line.find(" flags=b ") == std::string::npos)
        continue;
      ids.push_back(line.substr(3, line.find(' ') - 3));  // id=7 addr=...
    }
    return ids;
  }

  std::optional<RedisServer> master;
  std::array<std::optional<RedisServer>, 2> replicas;
  std::shared_ptr<LockBackend> direct;  ///< asks no replica
  const LockId id = LockId::generate();
};

TEST_F(RedisReplicas, AGrantSaysHowManyAcknowledgedIt) {
  const auto backend = open(2, 10s);
  EXPECT_EQ(acquire(*backend, id, "k")->replicas, 2U);
  EXPECT_EQ(lookup(*direct, "k")->id, id);
  EXPECT_TRUE(std::holds_alternative<Extended>(extend(*backend, id, "k", 60s)));

  const auto unasked = try_acquire(
      *backend, {.id = LockId::generate(), .key = key("other"), .ttl = ttl(60s), .min_replicas = 0});
  EXPECT_EQ(std::get<Granted>(*unasked).replicas, std::nullopt);
  EXPECT_EQ(acquire(*direct, LockId::generate(), "third")->replicas, std::nullopt);
  const auto asked = try_acquire(
      *direct, {.id = LockId::generate(), .key = key("fourth"), .ttl = ttl(60s), .min_replicas = 1});
  EXPECT_GE(std::get<Granted>(*asked).replicas, 1U) << "per call";
}

TEST_F(RedisReplicas, AGrantThatTooFewAcknowledgeIsTakenBack) {
  const auto backend = open(1);
  pause_replicas();
  const auto result = try_acquire(*backend, id, "k");
  ASSERT_FALSE(result);
  const auto& error = result.error();
  EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(error.effect(), Effect::id_is_spent);
  EXPECT_EQ(error.key(), "k");
  EXPECT_NE(error.message().find("0 of 1 replica acknowledged it within "), std::string::npos)
      << error.what();
  EXPECT_FALSE(is_locked(*direct, "k"));
  const auto again = try_acquire(*direct, id, "k");
  ASSERT_FALSE(again) << "a late release of this id must not meet a lock";
  EXPECT_EQ(again.error().effect(), Effect::id_is_spent);
  EXPECT_TRUE(acquire(*direct, LockId::generate(), "k")) << "the key itself is free";
  resume_replicas();
}

TEST_F(RedisReplicas, OneOfTwoIsNotEnoughForTwo) {
  const auto backend = open(2, 1s);
  replicas[0]->pause();
  const auto result = try_acquire(*backend, id, "k");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("1 of 2 replicas"), std::string::npos) << result.error().what();
  EXPECT_FALSE(is_locked(*direct, "k"));
  replicas[0]->resume();
}

TEST_F(RedisReplicas, AWaiterGetsTheLockWhenTheReplicasAreBack) {
  Locks locks(open(1, 50ms));
  pause_replicas();
  std::jthread back([&] {
    // A second grant: the first was taken back.
    EXPECT_TRUE(eventually([&] {
      const auto counter = master->raw().text({"GET", "syncguard:fence:syncguard:k"});
      return counter != "(nil)" && std::stoi(counter) >= 2;
    }));
    resume_replicas();
  });
  const auto guard = locks.lock("k", {.wait = 30s, .base_delay = 10ms, .max_delay = 10ms});
  EXPECT_TRUE(guard.still_held());
  EXPECT_GE(guard.replicas(), 1U);
  EXPECT_EQ(lookup(*direct, "k")->id, guard.id());
}

TEST_F(RedisReplicas, AnExtendThatTooFewAcknowledgeDoesNotCount) {
  const auto backend = open(1);
  ASSERT_TRUE(acquire(*backend, id, "k"));
  pause_replicas();
  const auto result = try_extend(*backend, {.lock = {.id = id, .key = key("k")}, .ttl = ttl(60s)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(result.error().effect(), Effect::unknown);
  EXPECT_NE(result.error().message().find("0 of 1 replica"), std::string::npos) << result.error().what();
  EXPECT_TRUE(is_locked(*direct, "k")) << "nothing is undone";
  resume_replicas();
}

TEST_F(RedisReplicas, AGuardThatNoReplicaConfirmsIsLostBeforeTheProofOfItsLastConfirmationEnds) {
  Locks locks(open(1, 100ms));
  const BootTime before = BootClock::now();
  auto guard = locks.lock("k", {.ttl = 1500ms});
  const BootTime after = BootClock::now();
  pause_replicas();
  // No renewal may move the proof behind that of the grant, or of a renewal before the pause.
  const auto proven = BootClock::now() + guard.remaining();
  ASSERT_LE(proven, after + 1500ms);
  ASSERT_GE(proven, before);
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
  ASSERT_TRUE(guard.renewal_error());
  EXPECT_NE(std::string_view(guard.renewal_error()->what()).find("replica"), std::string_view::npos)
      << guard.renewal_error()->what();
  EXPECT_TRUE(is_locked(*direct, "k")) << "the master has the later expiry";
  resume_replicas();
}

TEST_F(RedisReplicas, AWaitThatAnotherConnectionCarriedProvesNothing) {
  const auto backend = open(1, 3s);
  ASSERT_EQ(acquire(*backend, LockId::generate(), "warm")->replicas.has_value(), true);
  pause_replicas();
  std::jthread trouble([&] {
    EXPECT_TRUE(eventually([&] { return !waiting_clients().empty(); }));
    for (const auto& client : waiting_clients()) master->raw().text({"CLIENT", "KILL", "ID", client});
  });
  // On a new connection WAIT counts every replica at once, also one that has received nothing.
  EXPECT_EQ(master->raw().integer({"WAIT", "1", "10"}), 2);
  const auto result = try_acquire(*backend, id, "k");
  trouble.join();
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("the connection was lost before 1 replica"), std::string::npos)
      << result.error().what();
  EXPECT_TRUE(eventually([&] { return !is_locked(*direct, "k"); }));
  resume_replicas();
}

TEST_F(RedisReplicas, ADeposedMasterThatItsReplicasHaveLeftGrantsNothing) {
  const auto backend = open(1);
  ASSERT_TRUE(acquire(*backend, LockId::generate(), "before"));
  replicas[0]->raw().text({"REPLICAOF", "NO", "ONE"});
  replicas[1]->raw().text({"REPLICAOF", "127.0.0.1", std::to_string(replicas[0]->port())});
  ASSERT_TRUE(eventually([&] {
    return master->raw().text({"INFO", "replication"}).find("connected_slaves:0") != std::string::npos;
  }));
  EXPECT_FALSE(try_acquire(*backend, id, "k"));
  EXPECT_FALSE(is_locked(*direct, "k"));
  EXPECT_TRUE(acquire(*direct, LockId::generate(), "k")) << "a client that asks no replica is granted it";
}

TEST_F(RedisReplicas, AStoppedCallLeavesNoLock) {
  const auto backend = open(1, 10s);
  ASSERT_TRUE(acquire(*backend, LockId::generate(), "warm"));
  pause_replicas();
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return !waiting_clients().empty(); }));
    stop.request_stop();
  });
  const auto result = try_acquire(*backend, {.id = id, .key = key("k"), .ttl = ttl(60s)}, stop.get_token());
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transient()) << result.error().what();
  EXPECT_TRUE(eventually([&] { return !is_locked(*direct, "k"); }));
  EXPECT_TRUE(eventually([&] { return !try_acquire(*direct, id, "k"); })) << "the id is spent";
  resume_replicas();
}

TEST_F(RedisReplicas, OperationsThatAskNoReplicaDoNotWaitForThoseThatDo) {
  const auto backend = open(1, 10s);
  pause_replicas();
  std::jthread asks([&] { EXPECT_TRUE(try_acquire(*backend, id, "k")); });
  EXPECT_TRUE(eventually([&] { return !waiting_clients().empty(); }));
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_EQ(waiting_clients().size(), 1U) << "it still waits";
  resume_replicas();
}

TEST_F(RedisReplicas, AUserWithoutTheRightToWaitGetsNoLock) {
  master->raw().text({"ACL", "SETUSER", "limited", "on", "nopass", "+@all", "-wait", "~*", "&*"});
  auto options = master->tcp();
  options.user = "limited";
  options.password = "any";
  options.min_replicas = 1;
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  const auto result = try_acquire(*backend, id, "k");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::AuthFailed) << result.error().what();
  EXPECT_EQ(result.error().key(), "k");
  EXPECT_FALSE(is_locked(*direct, "k"));
}

TEST_F(RedisReplicas, AUrlMayAskForThem) {
  auto hf = holdfast::open(master->url() + "?min_replicas=1&replica_timeout=5s");
  EXPECT_GE(hf.locks().lock("k").replicas(), 1U);
  EXPECT_GE(hf.locks().acquire("l").replicas, 1U);
  EXPECT_EQ(hf.locks().lock("m", {.min_replicas = 0}).replicas(), std::nullopt);
}

TEST(Replicas, AreRefusedByEnginesThatHaveNone) {
  const TempDir directory;
  const std::array<std::shared_ptr<LockBackend>, 2> engines{
      make_memory_lock_backend(), make_sqlite_lock_backend(directory / "locks.db").value_or_throw()};
  for (const auto& engine : engines) {
    Locks locks(engine);
    try {
      (void)locks.lock("k", {.min_replicas = 1});
      ADD_FAILURE() << "granted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    }
    EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_TRUE(locks.lock("k", {.min_replicas = 0}).still_held());
    const auto result = try_extend(
        *engine, {.lock = {.id = LockId::generate(), .key = {}}, .ttl = ttl(60s), .min_replicas = 1});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast::test
