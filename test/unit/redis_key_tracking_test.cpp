// The tracking of one connection: events and times in, bytes and names out.

#include "engine/redis/conn/key_tracking.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using test::bulk;
using test::reply_of;
using TrackingReply = KeyTracking::ReplyKind;
using Names = std::vector<std::string>;

const std::string tracking_is_on = "*3\r\n" + bulk("subscribe") + bulk(invalidation_channel) + ":1\r\n";

std::string message(const std::string& payload) {
  return "*3\r\n" + bulk("message") + bulk(invalidation_channel) + payload;
}

/// A tracking connection that accepts everything, and a clock that the test sets.
struct Tracked {
  Names names;
  BootTime now{1h};
  KeyTracking tracking{"p:", 500ms, [this](const std::string_view* name) {
                         names.emplace_back(name != nullptr ? *name : "anything");
                       }};

  /// What is sent now: its words.
  std::string sent() {
    tracking.ask(now);
    ReplyReader reader;
    reader.feed(tracking.output());
    tracking.accepted(tracking.output().size());
    std::string text;
    const auto command = reader.next().value_or_throw();
    if (!command) return text;
    for (const auto* word : elements_of(**command))
      text += (text.empty() ? "" : " ") + std::string(text_of(*word));
    EXPECT_FALSE(reader.next().value_or_throw()) << "one command at a time";
    return text;
  }
  TrackingReply hear(const std::string& bytes) {
    tracking.received(now);
    return tracking.take(*reply_of(bytes));
  }
  void begin() {
    tracking.connected(now);
    static_cast<void>(sent());
    EXPECT_EQ(hear(":7\r\n"), TrackingReply::answer);
    static_cast<void>(sent());
    EXPECT_EQ(hear("+OK\r\n"), TrackingReply::answer);
    static_cast<void>(sent());
    EXPECT_EQ(hear(tracking_is_on), TrackingReply::answer);
    EXPECT_TRUE(tracking.confirmed());
  }
};

TEST(RedisKeyTracking, IsTurnedOnForItsOwnConnectionBeforeItSubscribes) {
  Tracked one;
  one.tracking.connected(one.now);
  EXPECT_EQ(one.sent(), "CLIENT ID");
  EXPECT_EQ(one.sent(), "");
  EXPECT_EQ(one.hear(":7\r\n"), TrackingReply::answer);
  EXPECT_EQ(one.sent(), "CLIENT TRACKING ON REDIRECT 7 BCAST PREFIX p:");
  EXPECT_EQ(one.hear("+OK\r\n"), TrackingReply::answer);
  EXPECT_EQ(one.sent(), "SUBSCRIBE __redis__:invalidate");
  EXPECT_FALSE(one.tracking.confirmed());
  EXPECT_EQ(one.hear(tracking_is_on), TrackingReply::answer);
  EXPECT_TRUE(one.tracking.confirmed());
  EXPECT_EQ(one.names, Names{"anything"}) << "what was written before is not known";
}

TEST(RedisKeyTracking, NamesTheKeysThatWereWrittenAndKnowsAFlush) {
  Tracked one;
  one.begin();
  one.names.clear();
  EXPECT_EQ(one.hear(message("*2\r\n" + bulk("p:a") + bulk("p:b"))), TrackingReply::message);
  EXPECT_EQ(one.hear(message("*-1\r\n")), TrackingReply::message);
  EXPECT_EQ(one.names, (Names{"p:a", "p:b", "anything"}));
  EXPECT_EQ(one.tracking.take_counts(), (std::pair<std::size_t, std::size_t>{2, 2}));
  EXPECT_EQ(one.tracking.take_counts(), (std::pair<std::size_t, std::size_t>{0, 0}));
}

TEST(RedisKeyTracking, AnErrorIsARefusalAtEveryStep) {
  for (int steps = 0; steps < 3; ++steps) {
    Tracked one;
    one.tracking.connected(one.now);
    for (int i = 0; i < steps; ++i) EXPECT_EQ(one.hear(i == 0 ? ":7\r\n" : "+OK\r\n"), TrackingReply::answer);
    EXPECT_EQ(one.hear("-NOPERM this user has no permissions\r\n"), TrackingReply::refusal) << steps;
  }
  Tracked other;
  other.tracking.connected(other.now);
  EXPECT_EQ(other.hear("+7\r\n"), TrackingReply::unexpected);
}

TEST(RedisKeyTracking, ASilentConnectionIsProbedAndGivenUpAndTheNextOneReportsAnything) {
  Tracked one;
  one.begin();
  one.names.clear();
  EXPECT_EQ(one.sent(), "");
  one.now += 500ms;
  EXPECT_EQ(one.sent(), "SUBSCRIBE __redis__:invalidate");
  EXPECT_EQ(one.hear(tracking_is_on), TrackingReply::answer);
  EXPECT_EQ(one.names, Names()) << "nothing was missed";
  one.now += 500ms;
  EXPECT_NE(one.sent(), "");
  EXPECT_FALSE(one.tracking.overdue(one.now));
  one.now += 500ms;
  EXPECT_TRUE(one.tracking.overdue(one.now));
  one.tracking.disconnected();
  EXPECT_FALSE(one.tracking.confirmed());
  one.begin();
  EXPECT_EQ(one.names, Names{"anything"});
}

TEST(RedisKeyTracking, OneHundredthOfAServersTimeIsSpentOnReports) {
  const auto lasts = [](std::size_t per_second, std::size_t names) {
    TrackingBudget budget;
    BootTime now{1h};
    for (int seconds = 0; seconds < 100; ++seconds) {
      for (std::size_t i = 0; i < per_second; ++i) {
        if (!budget.charge(1, names, now)) return false;
        now += BootClock::duration(1s) / per_second;
      }
    }
    return true;
  };
  EXPECT_TRUE(lasts(900, 1));
  EXPECT_FALSE(lasts(1500, 1));
  EXPECT_TRUE(lasts(100, 200)) << "many names in one message are cheap";
  EXPECT_FALSE(lasts(100, 1000));
  TrackingBudget budget;
  EXPECT_TRUE(budget.charge(2000, 2000, BootTime{1h})) << "a burst";
}

}  // namespace
}  // namespace holdfast::redis
