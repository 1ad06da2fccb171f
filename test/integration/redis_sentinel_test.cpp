// What a client of sentinels does that a client of one address need not.

#include <gtest/gtest.h>

#include <holdfast/doctor.hpp>
#include <holdfast/holdfast.hpp>
#include <thread>

#include "support/acl_user.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/raw_redis.hpp"
#include "support/redis_sentinels.hpp"

namespace holdfast::test {
namespace {

class RedisSentinel : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::shared_ptr<LockBackend> open(const RedisOptions& options) {
    return make_redis_lock_backend(options).value_or_throw();
  }
  static Error refusal_of(const RedisOptions& options) {
    auto opened = make_redis_lock_backend(options);
    return opened ? Error(ErrorCode::Internal, "it was opened") : opened.error();
  }
};

TEST_F(RedisSentinel, SentinelsAndMasterHaveCredentialsOfTheirOwnAndErrorsSayWhich) {
  const RedisSentinels servers({.replicas = 1, .password = "of-master", .sentinel_password = "of-sentinel"});
  const auto options = servers.client();
  EXPECT_TRUE(acquire(*open(options), LockId::generate(), "k"));

  auto wrong = options;
  wrong.sentinel_password.clear();
  auto error = refusal_of(wrong);
  EXPECT_EQ(error.code(), ErrorCode::AuthFailed) << error.what();
  EXPECT_NE(error.message().find("HOLDFAST_SENTINEL_PASSWORD"), std::string::npos) << error.what();
  wrong = options;
  wrong.sentinel_password = "guessed";
  error = refusal_of(wrong);
  EXPECT_EQ(error.code(), ErrorCode::AuthFailed) << error.what();
  EXPECT_NE(error.message().find("sentinels 127.0.0.1:"), std::string::npos) << error.what();
  wrong = options;
  wrong.password = "guessed";
  error = refusal_of(wrong);
  EXPECT_EQ(error.code(), ErrorCode::AuthFailed) << error.what();
  EXPECT_NE(error.message().find("master 127.0.0.1:"), std::string::npos) << error.what();
  EXPECT_EQ(std::string(error.what()).find("guessed"), std::string::npos) << error.what();

  wrong = options;
  wrong.sentinel_service = "unknown";
  error = refusal_of(wrong);
  EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
  EXPECT_NE(error.message().find("\"unknown\""), std::string::npos) << error.what();
}

TEST_F(RedisSentinel, TlsIsUsedForTheSentinelsToo) {
  const RedisSentinels servers({.replicas = 1, .tls = true});
  const auto options = servers.client();
  EXPECT_TRUE(acquire(*open(options), LockId::generate(), "k"));
  auto untrusting = options;
  untrusting.tls_ca_file.clear();
  EXPECT_EQ(refusal_of(untrusting).code(), ErrorCode::AuthFailed) << refusal_of(untrusting).what();
}

TEST_F(RedisSentinel, UnreachableSentinelsAreSkippedAndOneIsEnough) {
  RedisSentinels servers;
  servers.sentinel(0).kill();
  servers.sentinel(1).kill();
  EXPECT_TRUE(acquire(*open(servers.client()), LockId::generate(), "k"));
  servers.sentinel(2).kill();
  const auto error = refusal_of(servers.client());
  EXPECT_TRUE(error.transient()) << error.what();
}

TEST_F(RedisSentinel, AServerInPlaceOfASentinelIsExplainedAndTheOtherWayRound) {
  RedisSentinels servers;
  auto options = servers.client();
  options.sentinels = {{.host = "127.0.0.1", .port = servers.server(0).port()}};
  EXPECT_EQ(refusal_of(options).code(), ErrorCode::InvalidArgument);
  EXPECT_NE(refusal_of(servers.sentinel(0).tcp()).message().find("redis+sentinel://"), std::string::npos);
}

TEST_F(RedisSentinel, TheDoctorExaminesTheMasterAndNamesSentinelsThatAreGone) {
  RedisSentinels servers({.config = {"min-replicas-to-write 1"}});
  auto client = servers.client();
  const auto examine = [&] {
    std::string found;
    for (const auto& finding : examine_redis(client).value_or_throw()) {
      if (finding.topic == "sentinels" || finding.topic == "connection") found += finding.found + "\n";
    }
    return found;
  };
  const auto master = "127.0.0.1:" + std::to_string(servers.server(0).port()) + " (epoch 0)";
  EXPECT_NE(examine().find("3 sentinels name the master " + master), std::string::npos) << examine();
  EXPECT_NE(examine().find("port " + std::to_string(servers.server(0).port())), std::string::npos);
  // A user at the sentinels without the right to ask for the quorum, nor to one of the channels.
  client.sentinel_user = "watcher";
  client.sentinel_password = "sesame";
  const auto grant = [&](const std::vector<std::string>& more) {
    for (std::size_t i = 0; i < RedisSentinels::sentinel_count; ++i) {
      RawRedis raw(servers.sentinel(i).tcp());
      raw.text(words_of(redis_sentinel_acl(client).value_or_throw().line()));
      std::vector<std::string> command{"ACL", "SETUSER", "watcher", "on", ">sesame"};
      command.insert(command.end(), more.begin(), more.end());
      raw.text(command);
    }
  };
  grant({"-sentinel|ckquorum", "resetchannels", "&+switch-master"});
  const auto refused = examine();
  EXPECT_NE(refused.find("may not use the command sentinel|ckquorum"), std::string::npos) << refused;
  EXPECT_NE(refused.find("no access to the channel +promoted-slave"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("no access to the channel +switch-master"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("can elect another"), std::string::npos) << refused;
  grant({});
  EXPECT_NE(examine().find(", and can elect another"), std::string::npos) << examine();
  EXPECT_EQ(examine().find("user watcher"), std::string::npos) << examine();
  // One sentinel under two names.
  client.sentinels[1] = {.host = "localhost", .port = servers.sentinel(0).port()};
  EXPECT_NE(examine().find("names one sentinel several times: 127.0.0.1:"), std::string::npos) << examine();
  client = servers.client();
  // A replica that has gone.
  servers.server(2).kill();
  EXPECT_TRUE(eventually([&] {
    return examine().find("know 2 replica(s), but 1 of them are connected") != std::string::npos;
  })) << examine();
  const auto gone = "sentinel 127.0.0.1:" + std::to_string(servers.sentinel(1).port()) + " cannot be used";
  servers.sentinel(1).kill();
  EXPECT_NE(examine().find(gone), std::string::npos) << examine();
}

TEST_F(RedisSentinel, ASwitchIsFollowedAwayFromAMasterThatIsSilent) {
  RedisSentinels servers;
  auto options = servers.client();
  // Far longer than the calls below may take: only the sentinels can tell that no reply will come.
  options.command_timeout = 120s;
  const auto backend = open(options);
  const auto id = LockId::generate();
  ASSERT_TRUE(acquire(*backend, id, "k"));
  servers.server(servers.master()).wait_for_replicas(2);
  const auto former = servers.pause_master();
  const auto soon = [](auto request) {
    request.deadline = BootClock::now() + 30s;
    return request;
  };
  const auto extended =
      try_extend(*backend, soon(ExtendRequest{.lock = {.id = id, .key = key("k")}, .ttl = ttl(60s)}));
  ASSERT_TRUE(extended) << extended.error().what();
  EXPECT_TRUE(std::holds_alternative<Extended>(*extended)) << "its lock is at the new master";
  // One sentinel that has switched is enough for the client; the others may name the old master for a moment.
  EXPECT_NE(servers.wait_for_another_master(former), former);
  const auto outcome =
      try_acquire(*backend, soon(AcquireRequest{.id = LockId::generate(), .key = key("l"), .ttl = ttl(60s)}));
  ASSERT_TRUE(outcome) << outcome.error().what();
  EXPECT_GT(std::get<Granted>(*outcome).fence.value(), 1'000'000'000U) << "the new epoch's";
}

TEST_F(RedisSentinel, AnIdleClientLooksBeforeItUsesADeposedMaster) {
  RedisSentinels servers;
  auto options = servers.client();
  options.command_timeout = 120s;
  const auto backend = open(options);
  ASSERT_TRUE(acquire(*backend, LockId::generate(), "k"));
  (void)servers.wait_for_another_master(servers.pause_master());
  servers.settle();  // also the sentinel that it has subscribed to knows the new master
  AcquireRequest request{.id = LockId::generate(), .key = key("l"), .ttl = ttl(60s)};
  request.deadline = BootClock::now() + 30s;
  const auto outcome = try_acquire(*backend, request);
  ASSERT_TRUE(outcome) << outcome.error().what();
  EXPECT_FALSE(std::get<Granted>(*outcome).may_be_repeated) << "it was never sent to the old one";
}

TEST_F(RedisSentinel, WaitersFindTheNewMaster) {
  RedisSentinels servers;
  Locks locks(open(servers.client()));
  auto held = locks.lock("k", {.ttl = 60s});
  servers.server(servers.master()).wait_for_replicas(2);
  std::jthread waiter([&] { EXPECT_TRUE(locks.lock("k", {.ttl = 60s, .wait = 60s}).still_held()); });
  servers.fail_over();
  const auto now = servers.master();
  EXPECT_TRUE(eventually([&] {
    return servers.server(now).raw().text({"PUBSUB", "CHANNELS"}).find("wake") != std::string::npos;
  })) << "the subscription follows";
  EXPECT_TRUE(held.release());
}

TEST_F(RedisSentinel, CountersOfTasksStartAboveTheFloorAndStillExpire) {
  RedisSentinels servers;
  servers.fail_over();
  servers.settle();
  const auto backend = open(servers.client());
  AcquireRequest request{.id = LockId::generate(), .key = key("task"), .ttl = ttl(1s)};
  request.counter_lifetime.emplace(
      CounterLifetime{.until = std::chrono::floor<milliseconds>(WallTime::clock::now() + 1s)});
  const auto outcome = try_acquire(*backend, request);
  ASSERT_TRUE(outcome) << outcome.error().what();
  const auto floor = servers.epoch() * 1'000'000'000;
  const auto fence = std::get<Granted>(*outcome).fence.value();
  EXPECT_GT(fence, floor + 50'000'000) << "the clock, above the floor";
  EXPECT_LT(fence, floor + 1'000'000'000);
  auto raw = servers.server(servers.master()).raw();
  const auto left = raw.integer({"PTTL", "syncguard:fence:syncguard:task"});
  EXPECT_GT(left, 0);
  EXPECT_LT(left, 3 * 86'400'000) << "days, not the years that the floor would be";
}

}  // namespace
}  // namespace holdfast::test
