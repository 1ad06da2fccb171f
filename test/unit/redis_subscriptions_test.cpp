// Subscriptions of one connection: events and times in, bytes and wake-ups out.

#include "engine/redis/conn/subscriptions.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "support/replies.hpp"
#include "support/seeded.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using test::bulk;
using test::reply_of;
using test::Seeded;

/// Counts what it is told.
struct CountingWaiters {
  bool silent = true;
  int woken = 0;
  int settled = 0;
  std::vector<std::string> heard = {};
  void wake() { ++woken; }
  void hear(std::string_view channel, std::string_view payload) {
    heard.push_back(std::string(channel) + "=" + std::string(payload));
    wake();
  }
  void set_silent(bool now_silent) { silent = now_silent; }
  void settle() { ++settled; }
};

using Counted = Subscriptions<CountingWaiters>;
using ReplyKind = Counted::ReplyKind;

std::string said(std::string_view kind, std::string_view channel) {
  return "*3\r\n" + bulk(kind) + bulk(channel) + (kind.ends_with("message") ? bulk("x") : ":1\r\n");
}
const std::string denied = "-NOPERM no permissions to access a channel\r\n";

/// Subscriptions, a connection that accepts everything, and a clock that the test sets.
struct Topics {
  Counted topics;
  BootTime now{1h};

  explicit Topics(Channels channels = Channels::global) : topics(500ms, channels) { topics.connected(now); }
  CountingWaiters& watch(const std::string& channel) { return topics.watch(channel).first->second.waiters; }
  /// What is sent now: its words.
  std::vector<std::string> ask() {
    topics.ask(now);
    std::vector<std::string> words;
    ReplyReader reader;
    reader.feed(topics.output());
    topics.accepted(topics.output().size());
    for (;;) {
      const auto command = reader.next().value_or_throw();
      if (!command) return words;
      std::string text;
      for (const auto* word : elements_of(**command))
        text += (text.empty() ? "" : " ") + std::string(text_of(*word));
      words.push_back(text);
    }
  }
  ReplyKind hear(const std::string& bytes) {
    topics.received(now);
    return topics.take(*reply_of(bytes));
  }
};

using Words = std::vector<std::string>;

TEST(RedisSubscriptions, AChannelIsSubscribedOnceAndItsMessagesWake) {
  Topics channels;
  auto& a = channels.watch("a");
  channels.watch("a");
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a"}));
  EXPECT_EQ(channels.ask(), Words{});
  EXPECT_TRUE(a.silent);
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(a.silent);
  EXPECT_EQ(a.settled, 1);
  EXPECT_EQ(a.woken, 0) << "it was confirmed before it was used";
  EXPECT_EQ(channels.hear(said("message", "a")), ReplyKind::message);
  EXPECT_EQ(channels.hear(said("message", "unknown")), ReplyKind::message);
  EXPECT_EQ(a.woken, 1);
}

TEST(RedisSubscriptions, AWatchThatDoesNotWaitForTheConfirmationIsWokenByIt) {
  Topics channels;
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  topic->second.begin_use();
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_EQ(topic->second.waiters.woken, 1);
  topic->second.begin_use();
  EXPECT_EQ(channels.hear(said("message", "a")), ReplyKind::message);
  EXPECT_EQ(topic->second.waiters.woken, 2);
}

TEST(RedisSubscriptions, ARefusalSettlesItAndLeavesItSilent) {
  Topics channels;
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  EXPECT_EQ(channels.hear(denied), ReplyKind::refusal);
  EXPECT_TRUE(topic->second.settled());
  EXPECT_TRUE(topic->second.waiters.silent);
  EXPECT_EQ(topic->second.waiters.settled, 1);
}

TEST(RedisSubscriptions, APatternHearsTheMessagesOfAllItsChannels) {
  Topics channels;
  const auto topic = channels.topics.watch_pattern("p:*").first;
  auto& all = topic->second.waiters;
  auto& one = channels.watch("p:a");
  EXPECT_EQ(channels.ask(), (Words{"PSUBSCRIBE p:*", "SUBSCRIBE p:a"}));
  EXPECT_EQ(channels.hear(said("psubscribe", "p:*")), ReplyKind::answer);
  EXPECT_EQ(channels.hear(said("subscribe", "p:a")), ReplyKind::answer);
  EXPECT_FALSE(all.silent);
  EXPECT_EQ(channels.hear("*4\r\n" + bulk("pmessage") + bulk("p:*") + bulk("p:b") + bulk("broken")),
            ReplyKind::message);
  EXPECT_EQ(all.heard, (Words{"p:b=broken"}));
  EXPECT_EQ(one.woken, 0);
  channels.topics.disconnected();
  channels.topics.connected(channels.now);
  EXPECT_EQ(channels.ask(), (Words{"PSUBSCRIBE p:*", "SUBSCRIBE p:a"}));
  EXPECT_EQ(channels.hear(said("psubscribe", "p:*")), ReplyKind::answer);
  EXPECT_EQ(all.woken, 2) << "it may have missed messages";
  EXPECT_EQ(channels.hear(said("subscribe", "p:a")), ReplyKind::answer);
  channels.now += 2s;
  EXPECT_EQ(channels.ask(), (Words{"PSUBSCRIBE p:*"})) << "a probe";
  EXPECT_EQ(channels.hear(said("psubscribe", "p:*")), ReplyKind::answer);
  channels.topics.unwatch(topic, channels.now);
  channels.now += 1s;
  EXPECT_EQ(channels.ask(), (Words{"PUNSUBSCRIBE p:*"}));
  EXPECT_EQ(channels.hear(said("punsubscribe", "p:*")), ReplyKind::answer);
}

TEST(RedisSubscriptions, ARefusedPatternIsNoReasonForWaitersToPoll) {
  Topics channels;
  const auto topic = channels.topics.watch_pattern("p:*").first;
  channels.ask();
  EXPECT_EQ(channels.hear(denied), ReplyKind::answer);
  EXPECT_TRUE(topic->second.refused());
  EXPECT_EQ(topic->second.waiters.settled, 1);
}

TEST(RedisSubscriptions, WhatWasNotAskedForIsUnexpected) {
  Topics channels;
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::unexpected);
  EXPECT_EQ(channels.hear("+PONG\r\n"), ReplyKind::unexpected);
  channels.watch("a");
  channels.ask();
  EXPECT_EQ(channels.hear("+OK\r\n"), ReplyKind::unexpected);
}

TEST(RedisSubscriptions, AfterALossAllAreSubscribedAnewAndWoken) {
  Topics channels;
  auto& a = channels.watch("a");
  auto& b = channels.watch("b");
  channels.ask();
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  channels.topics.disconnected();
  EXPECT_TRUE(a.silent);
  EXPECT_EQ(channels.ask(), Words{}) << "there is no connection";
  channels.topics.connected(channels.now);
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a", "SUBSCRIBE b"}));
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_EQ(channels.hear(said("subscribe", "b")), ReplyKind::answer);
  EXPECT_EQ(a.woken, 1);
  EXPECT_EQ(b.woken, 1);
}

TEST(RedisSubscriptions, ARefusedChannelIsAskedForAgainOnTheNextConnection) {
  Topics channels;
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  EXPECT_EQ(channels.hear(denied), ReplyKind::refusal);
  channels.topics.disconnected();
  EXPECT_FALSE(topic->second.settled());
  channels.topics.connected(channels.now);
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a"}));
}

TEST(RedisSubscriptions, AChannelWithoutWatchesIsKeptForAWhile) {
  Topics channels;
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  channels.topics.unwatch(topic, channels.now);
  channels.now += 400ms;
  EXPECT_EQ(channels.ask(), Words{});
  EXPECT_FALSE(channels.topics.watch("a").second) << "it is still there";
  channels.topics.unwatch(topic, channels.now);
  channels.now += 900ms;
  EXPECT_EQ(channels.hear(said("message", "other")), ReplyKind::message);  // not silent
  EXPECT_EQ(channels.ask(), Words{}) << "the time runs from the last watch";
  channels.now += 100ms;
  EXPECT_EQ(channels.ask(), (Words{"UNSUBSCRIBE a"}));
  EXPECT_TRUE(channels.topics.empty());
}

TEST(RedisSubscriptions, ATopicThatWasDroppedAndAddedAgainWaitsForItsOwnConfirmation) {
  Topics channels;
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  channels.topics.unwatch(topic, channels.now);
  channels.now += 1s;
  EXPECT_EQ(channels.ask(), (Words{"UNSUBSCRIBE a"}));
  const auto again = channels.topics.watch("a").first;
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a"}));
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(again->second.settled()) << "that was the first one's";
  EXPECT_EQ(channels.hear(said("unsubscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(again->second.settled());
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_TRUE(again->second.settled());
}

TEST(RedisSubscriptions, ASilentConnectionIsProbedAndGivenUpWithoutAnAnswer) {
  Topics channels;
  auto& a = channels.watch("a");
  channels.ask();
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_EQ(channels.topics.due(), channels.now + 500ms) << "the command timeout is less than a second";
  channels.now += 500ms;
  EXPECT_FALSE(channels.topics.overdue(channels.now)) << "no answer is due";
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a"}));
  EXPECT_EQ(channels.ask(), Words{}) << "one probe at a time";
  channels.now += 499ms;
  EXPECT_FALSE(channels.topics.overdue(channels.now));
  EXPECT_EQ(channels.topics.due(), channels.now + 1ms);
  EXPECT_TRUE(channels.topics.overdue(channels.now + 1ms));
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(channels.topics.overdue(channels.now + 1h));
  EXPECT_EQ(a.settled, 1);
  EXPECT_EQ(a.woken, 0) << "a probe is no message";
}

TEST(RedisSubscriptions, AnyInputPostponesTheProbe) {
  Topics channels;
  channels.watch("a");
  channels.ask();
  EXPECT_EQ(channels.hear(said("subscribe", "a")), ReplyKind::answer);
  channels.now += 400ms;
  EXPECT_EQ(channels.hear(said("message", "a")), ReplyKind::message);
  channels.now += 499ms;
  EXPECT_EQ(channels.ask(), Words{});
  channels.now += 1ms;
  EXPECT_EQ(channels.ask(), (Words{"SUBSCRIBE a"}));
}

TEST(RedisSubscriptions, WithoutAConfirmedChannelThereIsNothingToProbe) {
  Topics channels;
  channels.watch("a");
  channels.ask();
  EXPECT_EQ(channels.hear(denied), ReplyKind::refusal);
  channels.now += 1h;
  EXPECT_EQ(channels.ask(), Words{});
  EXPECT_EQ(channels.topics.due(), channels.now + 500ms);
}

TEST(RedisSubscriptions, APartOfAWriteIsContinued) {
  Topics channels;
  channels.watch("a");
  channels.topics.ask(channels.now);
  const std::string all(channels.topics.output());
  channels.topics.accepted(3);
  EXPECT_EQ(channels.topics.output(), all.substr(3));
  channels.topics.disconnected();
  EXPECT_TRUE(channels.topics.output().empty());
}

const std::string moved = "-MOVED 15495 127.0.0.1:7001\r\n";

TEST(RedisSubscriptions, OfShardedChannelsHaveTheirOwnCommands) {
  Topics channels(Channels::sharded);
  const auto topic = channels.topics.watch("a").first;
  EXPECT_EQ(channels.ask(), (Words{"SSUBSCRIBE a"}));
  EXPECT_EQ(channels.hear(said("ssubscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(topic->second.waiters.silent);
  EXPECT_EQ(channels.hear(said("smessage", "a")), ReplyKind::message);
  EXPECT_EQ(topic->second.waiters.woken, 1);
  channels.topics.unwatch(topic, channels.now);
  channels.now += 1s;
  EXPECT_EQ(channels.ask(), (Words{"SUNSUBSCRIBE a"}));
  EXPECT_EQ(channels.hear(said("sunsubscribe", "a")), ReplyKind::answer);
}

TEST(RedisSubscriptions, AChannelWhoseSlotLeftIsWatchedAtItsNewServer) {
  Topics channels(Channels::sharded), others(Channels::sharded);
  const auto topic = channels.topics.watch("a").first;
  const auto stays = channels.topics.watch("b").first;
  channels.ask();
  EXPECT_EQ(channels.hear(said("ssubscribe", "a")), ReplyKind::answer);
  EXPECT_EQ(channels.hear(said("ssubscribe", "b")), ReplyKind::answer);
  EXPECT_TRUE(channels.topics.take_unserved([](const auto&) { return true; }).empty()) << "all are served";

  EXPECT_EQ(channels.hear(said("sunsubscribe", "a")), ReplyKind::message) << "it was not asked for";
  EXPECT_TRUE(topic->second.waiters.silent);
  EXPECT_EQ(topic->second.waiters.woken, 1) << "a release may have been missed";
  auto moving = channels.topics.take_unserved([](const std::string& channel) { return channel == "a"; });
  ASSERT_EQ(moving.size(), 1U);
  EXPECT_EQ(others.topics.add(std::move(moving.front())), topic) << "its watches find it where it was";
  EXPECT_FALSE(channels.topics.contains("a"));
  EXPECT_EQ(channels.ask(), Words{});
  EXPECT_EQ(others.ask(), (Words{"SSUBSCRIBE a"}));
  EXPECT_EQ(others.hear(said("ssubscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(topic->second.waiters.silent);
  EXPECT_EQ(topic->second.waiters.woken, 2) << "nor were those in between heard";
  EXPECT_FALSE(stays->second.waiters.silent);
}

TEST(RedisSubscriptions, ARefusedChannelIsAskedForAgainUntilItsServerIsKnown) {
  Topics channels(Channels::sharded);
  const auto topic = channels.topics.watch("a").first;
  EXPECT_EQ(channels.ask(), (Words{"SSUBSCRIBE a"}));
  EXPECT_TRUE(channels.topics.take_unserved([](const auto&) { return true; }).empty()) << "not answered yet";
  EXPECT_EQ(channels.hear(moved), ReplyKind::refusal);
  EXPECT_TRUE(channels.topics.take_unserved([](const auto&) { return false; }).empty());
  EXPECT_EQ(channels.ask(), (Words{"SSUBSCRIBE a"}));
  EXPECT_TRUE(channels.topics.take_unserved([](const auto&) { return false; }).empty());
  EXPECT_EQ(channels.ask(), Words{}) << "a distant server has not answered yet";
  EXPECT_EQ(channels.hear(said("ssubscribe", "a")), ReplyKind::answer);
  EXPECT_FALSE(topic->second.waiters.silent);
}

TEST(RedisSubscriptions, OfALostConnectionGoToAnotherServer) {
  Topics channels(Channels::sharded), others(Channels::sharded);
  const auto topic = channels.topics.watch("a").first;
  channels.ask();
  EXPECT_EQ(channels.hear(said("ssubscribe", "a")), ReplyKind::answer);
  channels.topics.unwatch(topic, channels.now);
  channels.topics.disconnected();
  auto moving = channels.topics.take_unserved([](const auto&) { return true; });
  ASSERT_EQ(moving.size(), 1U);
  others.topics.add(std::move(moving.front()));
  EXPECT_EQ(others.ask(), (Words{"SSUBSCRIBE a"}));
  EXPECT_EQ(others.hear(said("ssubscribe", "a")), ReplyKind::answer);
  others.now += 1s;
  EXPECT_EQ(others.ask(), (Words{"SUNSUBSCRIBE a"})) << "it is unwatched there too";
}

/// A server under random watches, messages, refusals, losses and times. Waiters that are not silent must be
/// subscribed at the server, and a message that could not reach them must have woken them since.
class SimulatedChannels {
 public:
  explicit SimulatedChannels(Seeded& random) : random_(random) {}

  void step() {
    switch (random_.below(8)) {
      case 0:
        watch();
        break;
      case 1:
        unwatch();
        break;
      case 2:
        topics_.ask(now_);
        break;
      case 3:
        write();
        break;
      case 4:
        answer();
        break;
      case 5:
        publish();
        break;
      case 6:
        now_ += std::chrono::milliseconds(random_.below(100));
        // Its owner reads before it gives up.
        if (connected_ && replies_.empty() && topics_.overdue(now_)) lose();
        break;
      default:
        if (!connected_) {
          connected_ = true;
          topics_.connected(now_);
        } else if (random_.below(50) == 0) {
          lose();
        }
    }
  }
  [[nodiscard]] std::size_t heard() const noexcept { return heard_; }
  [[nodiscard]] std::size_t made_up_for() const noexcept { return made_up_for_; }

 private:
  struct Watched {
    Counted::Place place;
    std::optional<int> missed = {};  ///< a message, when it had been woken this often
  };

  std::string channel() { return std::string(1, static_cast<char>('a' + random_.below(4))); }

  void watch() {
    const auto name = channel();
    const auto place = topics_.watch(name).first;
    if (watched_.emplace(name, Watched{.place = place}).second) place->second.begin_use();
  }
  void unwatch() {
    const auto at = watched_.find(channel());
    if (at == watched_.end()) return;
    topics_.unwatch(at->second.place, now_);
    watched_.erase(at);
  }
  void write() {
    if (!connected_ || topics_.output().empty()) return;
    const auto count = 1 + random_.below(topics_.output().size());
    server_.feed(topics_.output().substr(0, count));
    topics_.accepted(count);
    for (;;) {
      const auto command = server_.next().value_or_throw();
      if (!command) return;
      const auto words = elements_of(**command);
      const std::string name(text_of(*words[1]));
      if (text_of(*words[0]) == "UNSUBSCRIBE") {
        subscribed_.erase(name);
        replies_.push_back(said("unsubscribe", name));
      } else if (random_.below(20) == 0 && !subscribed_.contains(name)) {
        replies_.push_back(denied);
      } else {
        subscribed_.insert(name);
        replies_.push_back(said("subscribe", name));
      }
    }
  }
  void answer() {
    if (!connected_ || replies_.empty()) return;
    topics_.received(now_);
    EXPECT_NE(topics_.take(*reply_of(replies_.front())), ReplyKind::unexpected);
    replies_.pop_front();
    for (auto& [name, one] : watched_) {
      const auto& waiters = one.place->second.waiters;
      if (waiters.silent) continue;
      EXPECT_TRUE(subscribed_.contains(name)) << name;
      if (const auto missed = std::exchange(one.missed, std::nullopt)) {
        EXPECT_GT(waiters.woken, *missed) << "woken when the channel is heard again";
        ++made_up_for_;
      }
    }
  }
  void publish() {
    const auto name = channel();
    const auto at = watched_.find(name);
    const bool is_heard = connected_ && subscribed_.contains(name);
    if (is_heard) replies_.push_back(said("message", name));
    if (at == watched_.end()) return;
    const auto& waiters = at->second.place->second.waiters;
    if (is_heard) {
      ++heard_;
    } else {
      EXPECT_TRUE(waiters.silent) << "they rely on a message that cannot arrive";
      at->second.missed = waiters.woken;
    }
  }
  void lose() {
    connected_ = false;
    topics_.disconnected();
    subscribed_.clear();
    replies_.clear();
    server_ = ReplyReader();
    for (const auto& [name, one] : watched_) EXPECT_TRUE(one.place->second.waiters.silent);
  }

  Seeded& random_;
  Counted topics_{500ms};
  BootTime now_{1h};
  bool connected_ = false;
  std::map<std::string, Watched> watched_;
  ReplyReader server_;
  std::set<std::string> subscribed_;
  std::deque<std::string> replies_;
  std::size_t heard_ = 0;
  std::size_t made_up_for_ = 0;
};

TEST(RedisSubscriptions, WaitersNeverRelyOnAChannelThatTheServerDoesNotHave) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  SimulatedChannels channels(random);
  for (int i = 0; i < 200'000 && !HasFailure(); ++i) channels.step();
  EXPECT_GT(channels.heard(), 1'000U);
  EXPECT_GT(channels.made_up_for(), 100U);
}

}  // namespace
}  // namespace holdfast::redis
