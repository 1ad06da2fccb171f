// When to connect again, and what is reported about it.

#include "engine/redis/conn/reconnect_fsm.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using Next = ReconnectFsm::Next;
using Report = ReconnectFsm::Report;
using AfterAnswers = ReconnectFsm::AfterAnswers;

constexpr BootTime noon{1h};
const Error refused(ErrorCode::ServiceUnavailable, "refused");
const Error broken(ErrorCode::ServiceUnavailable, "broken");

/// A machine whose first connection has just been made.
ReconnectFsm connected(AfterAnswers after_answers = AfterAnswers::at_once) {
  ReconnectFsm fsm(after_answers);
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
  EXPECT_FALSE(fsm.connected());
  return fsm;
}

TEST(RedisReconnect, ConnectsWhenAConnectionIsWanted) {
  ReconnectFsm fsm(AfterAnswers::at_once);
  EXPECT_EQ(fsm.next(noon, false), Next::wait);
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
  EXPECT_EQ(fsm.next(noon, true), Next::go_on);
  EXPECT_FALSE(fsm.connected()) << "the first connection replaces none";
  EXPECT_FALSE(fsm.last_error());
}

TEST(RedisReconnect, AnAttemptThatIsNotWantedAnyMoreIsAbandoned) {
  ReconnectFsm fsm(AfterAnswers::at_once);
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
  EXPECT_EQ(fsm.next(noon, false), Next::abandon);
  EXPECT_FALSE(fsm.abandoned());
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
}

TEST(RedisReconnect, PausesDoubleUpToALimit) {
  ReconnectFsm fsm(AfterAnswers::at_once);
  auto now = noon;
  for (const auto pause : {5ms, 10ms, 20ms, 40ms, 80ms, 160ms, 250ms, 250ms}) {
    EXPECT_EQ(fsm.next(now, true), Next::begin);
    EXPECT_FALSE(fsm.failed(refused, now, 0)) << "no connection was lost";
    EXPECT_EQ(fsm.last_error()->code(), refused.code());
    EXPECT_EQ(fsm.dial_at(), now + pause);
    EXPECT_EQ(fsm.next(now + pause - 1ns, true), Next::wait);
    now += pause;
  }
}

TEST(RedisReconnect, ThePauseIsRandomWithinItsUpperHalf) {
  ReconnectFsm fsm(AfterAnswers::at_once);
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
  EXPECT_FALSE(fsm.failed(refused, noon, 0.5));
  EXPECT_EQ(fsm.dial_at(), noon + 7500us);
}

TEST(RedisReconnect, AnAnswerResetsThePause) {
  auto fsm = connected();
  fsm.lost(broken, noon, false, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fsm.next(noon + 1h, true), Next::begin);
    EXPECT_TRUE(fsm.failed(refused, noon, 0));
  }
  EXPECT_EQ(fsm.next(noon + 1h, true), Next::begin);
  EXPECT_TRUE(fsm.connected());
  fsm.answered();
  fsm.lost(broken, noon, false, 0);
  EXPECT_EQ(fsm.next(noon + 1h, true), Next::begin);
  EXPECT_TRUE(fsm.failed(refused, noon, 0));
  EXPECT_EQ(fsm.dial_at(), noon + 5ms);
}

TEST(RedisReconnect, OnlyAConnectionThatAnsweredIsReplacedAtOnce) {
  auto fsm = connected();
  fsm.lost(broken, noon, false, 0);
  EXPECT_EQ(fsm.dial_at(), noon + 5ms) << "its server may drop what it rejects";
  EXPECT_EQ(fsm.next(noon + 5ms, true), Next::begin);
  EXPECT_TRUE(fsm.connected());
  fsm.answered();
  fsm.lost(broken, noon, false, 0);
  EXPECT_EQ(fsm.dial_at(), noon);
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
  EXPECT_TRUE(fsm.connected());
  fsm.lost(broken, noon, false, 0);
  EXPECT_EQ(fsm.dial_at(), noon + 5ms) << "an answer of the connection before does not count";

  auto pausing = connected(AfterAnswers::pause);
  pausing.answered();
  pausing.lost(broken, noon, false, 0);
  EXPECT_EQ(pausing.dial_at(), noon + 5ms);
}

TEST(RedisReconnect, AReplicaHasPausesThatItsAnswersDoNotReset) {
  auto fsm = connected();
  auto now = noon;
  for (const auto pause : {5ms, 10ms, 20ms}) {
    fsm.answered();
    fsm.lost(broken, now, true, 0);
    EXPECT_EQ(fsm.dial_at(), now + pause);
    now += pause;
    EXPECT_EQ(fsm.next(now, true), Next::begin);
    EXPECT_TRUE(fsm.connected());
  }
  now += 11s;
  fsm.lost(broken, now, true, 0);
  EXPECT_EQ(fsm.dial_at(), now + 5ms) << "another failover";
}

TEST(RedisReconnect, ALossIsReportedWhenItIsReplacedAndSoIsEachFailedAttempt) {
  auto fsm = connected();
  fsm.answered();
  fsm.lost(broken, noon + 1s, false, 0);
  EXPECT_EQ(fsm.next(noon + 2s, true), Next::begin);
  EXPECT_EQ(fsm.failed(refused, noon + 3s, 0), (Report{noon + 2s, ErrorCode::ServiceUnavailable}));
  EXPECT_EQ(fsm.next(noon + 4s, true), Next::begin);
  EXPECT_EQ(fsm.next(noon + 5s, false), Next::abandon);
  EXPECT_EQ(fsm.abandoned(), (Report{noon + 4s, ErrorCode::NetworkTimeout}));
  EXPECT_EQ(fsm.next(noon + 6s, true), Next::begin);
  EXPECT_EQ(fsm.connected(), (Report{noon + 1s, std::nullopt}));
}

TEST(RedisReconnect, APauseEndsWhenThereIsAnotherServerToBeFound) {
  auto fsm = connected();
  fsm.lost(Error(ErrorCode::ServiceUnavailable, "cut"), noon, true, 0.5);
  EXPECT_EQ(fsm.next(noon, true), Next::wait);
  fsm.end_pause();
  EXPECT_EQ(fsm.next(noon, true), Next::begin);
}

}  // namespace
}  // namespace holdfast::redis
