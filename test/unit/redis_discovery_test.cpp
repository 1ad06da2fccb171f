#include <gtest/gtest.h>

#include <map>

#include "engine/redis/conn/discovery_fsm.hpp"
#include "support/replies.hpp"
#include "support/seeded.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using test::bulk;
using test::reply_of;
using Fields = std::vector<std::pair<std::string, std::string>>;

Result<SentinelAnswer> answer_with(const Fields& fields) {
  auto bytes = "*" + std::to_string(2 * fields.size()) + "\r\n";
  for (const auto& [name, value] : fields) bytes += bulk(name) + bulk(value);
  return read_sentinel_answer(*reply_of(bytes), "service");
}

Fields sentinel_fields(const std::string& flags) {
  return {{"name", "service"}, {"ip", "10.0.0.1"}, {"port", "6380"}, {"flags", flags}, {"config-epoch", "7"}};
}

NamedMaster master(const std::string& host, std::uint64_t epoch) {
  return {.address = {.host = host, .port = 6379}, .epoch = epoch};
}

TEST(RedisDiscovery, ReadsAddressAndEpochFromOneAnswer) {
  const auto answer = answer_with(sentinel_fields("master"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->master, (NamedMaster{.address = {.host = "10.0.0.1", .port = 6380}, .epoch = 7}));
  EXPECT_FALSE(answer->is_down);
  EXPECT_EQ(answer->replicas, 0U);
  auto known_replicas = sentinel_fields("master");
  known_replicas.emplace_back("num-slaves", "2");
  EXPECT_EQ(answer_with(known_replicas)->replicas, 2U);
  EXPECT_FALSE(answer_with(sentinel_fields("s_down,master,disconnected"))->is_down)
      << "one sentinel's opinion";
  EXPECT_TRUE(answer_with(sentinel_fields("s_down,o_down,master"))->is_down);
}

TEST(RedisDiscovery, DoesNotBelieveASentinelThatHasPromotedAReplicaAndStillShowsTheOldAddress) {
  for (const auto* state : {"reconf_slaves", "update_config", "a_state_of_a_later_version"}) {
    auto fields = sentinel_fields("master,failover_in_progress");
    fields.emplace_back("failover-state", state);
    const auto answer = answer_with(fields);
    ASSERT_FALSE(answer) << state;
    EXPECT_TRUE(answer.error().transient());
  }
  EXPECT_FALSE(answer_with(sentinel_fields("master,failover_in_progress"))) << "without a state";
  auto fields = sentinel_fields("master,failover_in_progress");
  fields.emplace_back("failover-state", "wait_promotion");
  EXPECT_TRUE(answer_with(fields)) << "until the promotion, epoch and address are the old ones";
}

TEST(RedisDiscovery, ExplainsWhatASentinelDoesNotKnow) {
  const auto unknown = read_sentinel_answer(*reply_of("-ERR No such master with that name\r\n"), "service");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::InvalidArgument);
  EXPECT_NE(unknown.error().message().find("\"service\""), std::string::npos);
  const auto refused = read_sentinel_answer(
      *reply_of("-NOPERM this user has no permissions to run the 'sentinel|master' command\r\n"), "service");
  EXPECT_EQ(refused.error().code(), ErrorCode::AuthFailed);
  for (const auto& bytes : {"+OK\r\n", "*0\r\n", "*2\r\n$2\r\nip\r\n$1\r\nh\r\n", ":1\r\n"}) {
    EXPECT_FALSE(read_sentinel_answer(*reply_of(bytes), "service")) << bytes;
  }
  for (const auto* port : {"", "x", "65536", "-1", "6379 "}) {
    auto fields = sentinel_fields("master");
    fields[2].second = port;
    EXPECT_FALSE(answer_with(fields)) << port;
  }
}

/// One attempt after another, by hand.
class RedisDiscoveryAttempt : public ::testing::Test {
 protected:
  RedisDiscoveryAttempt() {
    for (std::uint16_t i = 0; i < 3; ++i) options.sentinels.push_back({.host = "s" + std::to_string(i)});
    options.sentinel_service = "service";
  }
  void begin() {
    attempt.emplace(options, memory, now + 4s);
    action = attempt->start(now);
  }
  void answer(const NamedMaster& named, bool is_down = false) {
    action = attempt->on_answer(memory, SentinelAnswer{.master = named, .is_down = is_down}, now);
  }
  void no_answer(ErrorCode code = ErrorCode::ServiceUnavailable) {
    action = attempt->on_answer(memory, Error(code, "because"), now);
  }
  [[nodiscard]] std::size_t asked() const { return std::get<Discovery::Ask>(action).sentinel; }
  [[nodiscard]] const NamedMaster& dialled() const { return std::get<Discovery::Dial>(action).master; }
  [[nodiscard]] const Error& error() const { return std::get<Error>(action); }

  RedisOptions options;
  SentinelMemory memory{3};
  BootTime now = BootTime(1000s);
  std::optional<Discovery> attempt;
  Discovery::Action action = Error(ErrorCode::Internal, "not begun");
};

TEST_F(RedisDiscoveryAttempt, AMajorityIsAskedAndTheHighestEpochWins) {
  begin();
  EXPECT_EQ(asked(), 0U);
  answer(master("old", 3));
  EXPECT_EQ(asked(), 1U);
  answer(master("new", 4));
  EXPECT_EQ(dialled(), master("new", 4));
}

TEST_F(RedisDiscoveryAttempt, UnreachableSentinelsAreSkippedAndAskedLastNextTime) {
  begin();
  no_answer();
  EXPECT_EQ(asked(), 1U);
  no_answer();
  EXPECT_EQ(asked(), 2U);
  answer(master("m", 1));
  EXPECT_EQ(dialled(), master("m", 1)) << "one is enough if there is no other";
  begin();
  EXPECT_EQ(asked(), 2U);
}

TEST_F(RedisDiscoveryAttempt, ASilentSentinelIsLeftSoonAndAskedAgainOnlyIfTheOthersAreNoMajority) {
  begin();
  EXPECT_EQ(std::get<Discovery::Ask>(action).until, now + 400ms);
  now += 400ms;
  no_answer(ErrorCode::NetworkTimeout);
  EXPECT_EQ(asked(), 1U);
  answer(master("m", 1));
  EXPECT_EQ(asked(), 2U);
  now += 400ms;
  no_answer(ErrorCode::NetworkTimeout);
  EXPECT_EQ(asked(), 0U) << "one of three is not enough: the others get their share of the time";
  EXPECT_EQ(std::get<Discovery::Ask>(action).until, now + BootClock::duration(3200ms) / 3);
  answer(master("newer", 2));
  EXPECT_EQ(dialled(), master("newer", 2));
}

TEST_F(RedisDiscoveryAttempt, AnAttemptThatWasGivenUpIsNotFollowedByOneThatBeginsWithTheSameSentinel) {
  begin();
  memory.asked(asked());
  begin();
  EXPECT_EQ(asked(), 1U);
  memory.asked(1);
  answer(master("m", 1));
  begin();
  EXPECT_EQ(asked(), 1U) << "it answered";
}

TEST_F(RedisDiscoveryAttempt, EveryStepHasAShareOfTheTime) {
  begin();
  now += 3s;
  no_answer();
  EXPECT_EQ(std::get<Discovery::Ask>(action).until, now + BootClock::duration(1s) / 3);
  now -= 2s;
  answer(master("m", 1));
  answer(master("m", 1));
  EXPECT_EQ(std::get<Discovery::Dial>(action).until, now + 3s) << "no other step is left";
}

TEST_F(RedisDiscoveryAttempt, SentinelsThatFailForTheSameReasonAreNamedTogether) {
  begin();
  no_answer();
  action = attempt->on_answer(memory, Error(ErrorCode::ServiceUnavailable, "another reason", "cause"), now);
  no_answer();
  EXPECT_EQ(error().message(), "the sentinels lead to no usable master. sentinels " +
                                   to_text(options.sentinels[0]) + " and " + to_text(options.sentinels[2]) +
                                   ": because; sentinel " + to_text(options.sentinels[1]) +
                                   ": another reason (cause)");
}

TEST_F(RedisDiscoveryAttempt, AMasterOlderThanOneThatWasUsedIsRefused) {
  memory.used(master("new", 4));
  begin();
  answer(master("old", 3));
  answer(master("old", 3));
  answer(master("old", 3));
  EXPECT_TRUE(error().transient());
  EXPECT_NE(error().message().find("former master"), std::string::npos) << error().message();
  memory.used(master("old", 3));
  EXPECT_EQ(memory.newest(), master("new", 4)) << "a slow connection does not take it back";
}

TEST_F(RedisDiscoveryAttempt, AfterAMasterThatCannotBeUsedOnlyANewerOneIsTried) {
  begin();
  answer(master("old", 3));
  answer(master("old", 3));
  ASSERT_EQ(dialled(), master("old", 3));
  action = attempt->on_master_failed({ErrorCode::ServiceUnavailable, "is a replica"}, now);
  EXPECT_EQ(asked(), 2U);
  answer(master("new", 4));
  EXPECT_EQ(dialled(), master("new", 4));
  action = attempt->on_master_failed({ErrorCode::ServiceUnavailable, "refused"}, now);
  EXPECT_TRUE(error().transient());

  begin();
  answer(master("old", 3));
  answer(master("old", 3));
  action = attempt->on_master_failed({ErrorCode::ServiceUnavailable, "is a replica"}, now);
  answer(master("old", 3));
  EXPECT_TRUE(error().transient()) << "not tried twice";
}

TEST_F(RedisDiscoveryAttempt, AMasterThatIsDownIsNotDialled) {
  begin();
  answer(master("m", 3));
  answer(master("m", 3), true);
  EXPECT_EQ(asked(), 2U) << "it may know the next one";
  answer(master("m", 3));
  EXPECT_TRUE(error().transient());
  EXPECT_NE(error().message().find("down"), std::string::npos);
}

TEST_F(RedisDiscoveryAttempt, OnlyWhatNoAttemptCanChangeIsPermanent) {
  begin();
  no_answer(ErrorCode::InvalidArgument);
  no_answer(ErrorCode::InvalidArgument);
  no_answer(ErrorCode::InvalidArgument);
  EXPECT_EQ(error().code(), ErrorCode::InvalidArgument);
  begin();
  no_answer(ErrorCode::InvalidArgument);
  no_answer(ErrorCode::InvalidArgument);
  no_answer();
  EXPECT_EQ(error().code(), ErrorCode::ServiceUnavailable) << "the third may know the service";
  begin();
  no_answer();
  answer(master("m", 1));
  answer(master("m", 1));
  action = attempt->on_master_failed({ErrorCode::AuthFailed, "wrong password"}, now);
  EXPECT_EQ(error().code(), ErrorCode::AuthFailed);
}

/// Sentinels that learn of failovers late, are cut off, or show the new epoch with the old address for a
/// while; servers that believe to be the master until they hear of the next one. Clients discover the master
/// and use it. Each grant is checked: no (key, fence) twice, and the later epoch has the higher fence.
class SentinelSimulation {
 public:
  explicit SentinelSimulation(test::Seeded& random) : random_(random) {
    for (std::uint16_t i = 0; i < sentinels; ++i) options_.sentinels.push_back({.host = std::to_string(i)});
    options_.sentinel_service = "service";
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (random_.below(8)) {
        case 0:
          fail_over();
          break;
        case 1:
          views_[random_.below(sentinels)] = history_.size() - 1;
          break;
        case 2:
          reachable_[random_.below(sentinels)] = random_.below(3) > 0;
          break;
        case 3:
          // The deposed master hears of it, and drops its connections.
          is_master_[random_.below(history_.size())] = false;
          break;
        default:
          act(clients_[random_.below(clients)]);
      }
      ++steps_;
    }
  }
  [[nodiscard]] std::uint64_t grants() const { return grants_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  static constexpr std::size_t sentinels = 3, clients = 4;
  struct Client {
    SentinelMemory memory{sentinels};
    std::optional<NamedMaster> connected;
  };

  /// Server n is the master of epoch n. It has all grants, or lacks the last ones.
  void fail_over() {
    const auto counter = counters_.back();
    is_master_.push_back(true);
    counters_.push_back(counter - std::min<std::uint64_t>(counter, random_.below(5)));
    history_.push_back(master(std::to_string(history_.size()), history_.size()));
  }

  [[nodiscard]] Result<SentinelAnswer> ask(std::size_t sentinel) {
    if (!reachable_[sentinel]) return Error(ErrorCode::ServiceUnavailable, "unreachable");
    // The leader of the failover, between promotion and the change of the address.
    if (random_.below(4) == 0) return Error(ErrorCode::ServiceUnavailable, "has not finished a failover");
    return SentinelAnswer{.master = history_[views_[sentinel]]};
  }

  void act(Client& client) {
    if (client.connected && !is_master_[client.connected->epoch]) client.connected.reset();
    if (!client.connected) return discover(client);
    grant(*client.connected);
    if (random_.below(20) == 0) client.connected.reset();
  }

  void discover(Client& client) {
    Discovery attempt(options_, client.memory, BootTime(2s));
    auto action = attempt.start(BootTime(1s));
    for (int step = 0; step <= 3 * static_cast<int>(sentinels); ++step) {
      if (const auto* asked = std::get_if<Discovery::Ask>(&action)) {
        action = attempt.on_answer(client.memory, ask(asked->sentinel), BootTime(1s));
      } else if (const auto* dial = std::get_if<Discovery::Dial>(&action)) {
        if (is_master_[dial->master.epoch]) {
          const auto before = client.memory.newest();
          EXPECT_TRUE(!before || dial->master.epoch >= before->epoch) << "went back";
          client.memory.used(dial->master);
          client.connected = dial->master;
          return;
        }
        action = attempt.on_master_failed({ErrorCode::ServiceUnavailable, "is a replica"}, BootTime(1s));
      } else {
        EXPECT_TRUE(std::get<Error>(action).transient());
        ++refused_;
        return;
      }
    }
    FAIL() << "an attempt does not end";
  }

  void grant(const NamedMaster& at) {
    auto& counter = counters_[at.epoch];
    counter = std::max(counter, at.epoch * per_epoch) + 1;
    EXPECT_TRUE(granted_.emplace(counter, at.epoch).second) << "fence " << counter << " twice";
    EXPECT_EQ(counter / per_epoch, at.epoch) << "it ranks below all fences of later epochs";
    ++grants_;
  }

  static constexpr std::uint64_t per_epoch = 1'000'000'000;
  test::Seeded& random_;
  RedisOptions options_;
  std::vector<NamedMaster> history_{master("0", 0)};
  std::vector<std::uint64_t> counters_{0};
  std::vector<bool> is_master_{true};
  std::array<std::size_t, sentinels> views_{};
  std::array<bool, sentinels> reachable_{true, true, true};
  std::array<Client, clients> clients_;
  std::map<std::uint64_t, std::uint64_t> granted_;
  std::uint64_t steps_ = 0, grants_ = 0, refused_ = 0;
};

TEST(RedisDiscovery, OverManyFailoversNoFenceIsGrantedTwice) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  SentinelSimulation world(random);
  world.run(300'000);
  EXPECT_GT(world.grants(), 10'000U);
  EXPECT_GT(world.refused(), 1'000U);
}

}  // namespace
}  // namespace holdfast::redis
