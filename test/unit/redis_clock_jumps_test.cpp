#include "engine/redis/clock_jumps.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// A server whose clock a test moves, and the answers of it that ClockJumps sees.
class ServerTime {
 public:
  /// An answer after `pause`. The request takes `there`, the answer `back`.
  std::optional<milliseconds> answer(BootClock::duration pause, BootClock::duration there = 1ms,
                                     BootClock::duration back = 1ms) {
    now += pause;
    const auto sent = now;
    now += there;
    const auto read = std::chrono::floor<milliseconds>(now.time_since_epoch() + ahead);
    now += back;
    return jumps.learn(read.count(), sent, now, connection);
  }

  ClockJumps jumps;
  BootTime now = BootTime(1000s);
  BootClock::duration ahead = 1'800'000'000s;
  std::uint64_t connection = 1;
};

TEST(ClockJumps, AClockThatKeepsTimeDoesNotJump) {
  ServerTime server;
  for (const auto pause : {0ms, 1ms, 10'000ms, 86'400'000ms}) {
    EXPECT_EQ(server.answer(pause), std::nullopt);
    EXPECT_EQ(server.answer(pause, 3s, 0ms), std::nullopt) << "a slow request";
    EXPECT_EQ(server.answer(pause, 0ms, 3s), std::nullopt) << "a slow answer";
  }
}

TEST(ClockJumps, AJumpEitherWayIsReportedOnce) {
  for (const auto jump : {-3600s, -2s, 2s, 3600s}) {
    ServerTime server;
    EXPECT_EQ(server.answer(1s), std::nullopt);
    server.ahead += jump;
    const auto seen = server.answer(10ms);
    ASSERT_TRUE(seen) << jump.count();
    EXPECT_NEAR(static_cast<double>(seen->count()), static_cast<double>(milliseconds(jump).count()), 10.0);
    EXPECT_EQ(server.answer(10ms), std::nullopt) << "the same jump";
    server.ahead -= jump;
    EXPECT_TRUE(server.answer(10ms)) << "the clock was set right again";
  }
}

TEST(ClockJumps, AStepBelowASecondIsNone) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s), std::nullopt);
  for (int i = 0; i < 5; ++i) {
    server.ahead += 900ms;
    EXPECT_EQ(server.answer(10ms), std::nullopt) << i;
  }
}

TEST(ClockJumps, WhatRoundTripsExplainIsNone) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s, 5s, 0ms), std::nullopt);
  server.ahead += 4s;
  EXPECT_EQ(server.answer(1s, 0ms, 5s), std::nullopt) << "the bounds of both answers meet";
}

TEST(ClockJumps, OneSlowAnswerDoesNotHideAJump) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s), std::nullopt);
  EXPECT_EQ(server.answer(1ms, 10s, 10s), std::nullopt);
  server.ahead += 3s;
  EXPECT_TRUE(server.answer(1ms));
}

TEST(ClockJumps, AClockThatIsSlewedDoesNotJump) {
  ServerTime server;
  for (int hour = 0; hour < 1000; ++hour) {
    EXPECT_EQ(server.answer(1h), std::nullopt) << hour;
    server.ahead += 3500ms;  // 972 ppm
  }
}

TEST(ClockJumps, AnotherConnectionSetsTheBaseline) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s), std::nullopt);
  server.ahead += 1h;
  server.connection = 2;
  EXPECT_EQ(server.answer(10ms), std::nullopt) << "another server, perhaps";
  EXPECT_EQ(server.answer(10ms), std::nullopt);
  server.ahead -= 5s;
  EXPECT_TRUE(server.answer(10ms));
}

TEST(ClockJumps, TheServersOfAClusterAreToldApart) {
  ServerTime first, second;
  second.ahead += 1h;
  second.connection = (std::uint64_t{2} << 48U) + 1;
  first.connection = (std::uint64_t{1} << 48U) + 1;
  ClockJumps jumps;
  const auto answer = [&](ServerTime& server) {
    std::swap(server.jumps, jumps);
    const auto seen = server.answer(10ms);
    std::swap(server.jumps, jumps);
    return seen;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(answer(first), std::nullopt);
    EXPECT_EQ(answer(second), std::nullopt);
  }
  second.ahead -= 5s;
  EXPECT_EQ(answer(first), std::nullopt);
  EXPECT_TRUE(answer(second)) << "though the other one answered in between";
  EXPECT_EQ(answer(first), std::nullopt);
}

TEST(ClockJumps, AnswersOutOfOrderAreCompared) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s), std::nullopt);
  server.now -= 500ms;
  EXPECT_EQ(server.answer(0ms), std::nullopt);
}

TEST(ClockJumps, ATimeThatIsNoneIsIgnored) {
  ServerTime server;
  EXPECT_EQ(server.answer(1s), std::nullopt);
  for (const std::int64_t time : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(server.jumps.learn(time, server.now, server.now, 1), std::nullopt);
  }
  EXPECT_EQ(server.answer(1s), std::nullopt) << "the baseline is the old one";
}

}  // namespace
}  // namespace holdfast::redis
