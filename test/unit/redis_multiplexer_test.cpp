// Calls over one connection: events and times in, bytes and finished calls out.

#include "engine/redis/conn/multiplexer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using test::reply_of;

const std::string readonly = "-READONLY You can't write against a read only replica.\r\n";

struct QuietCall final : Call {
  void finish(std::unique_ptr<Call>, Result<Reply>) override {}
};

/// A multiplexer, and a clock that the test sets.
struct Calls {
  Multiplexer mux{"redis at test"};
  BootTime now{1h};

  Calls() { mux.connected(now); }

  Call& queue(const std::string& bytes, BootClock::duration within = 1h) {
    auto call = std::make_unique<QuietCall>();
    call->bytes = bytes;
    call->deadline = now + within;
    auto& queued = *call;
    mux.queue(std::move(call));
    return queued;
  }
  /// What a connection accepts that has room for this much.
  std::string write(std::size_t room = 1'000'000) {
    std::string accepted;
    while (mux.has_output()) {
      const auto bytes = mux.output(now).substr(0, room);
      accepted += bytes;
      room -= bytes.size();
      mux.accepted(bytes.size());
    }
    return accepted;
  }
  std::optional<Error> reply(const std::vector<std::string>& texts) {
    std::vector<Reply> replies;
    for (const auto& text : texts) replies.push_back(reply_of(text));
    return mux.take(replies, now);
  }
  /// "bytes of the call=its answer or error code", of each call that has ended.
  std::vector<std::string> ends() {
    std::vector<std::string> all;
    while (mux.has_finished()) {
      const auto [call, answer] = mux.take_finished();
      all.push_back(
          call->bytes + "=" +
          (answer ? std::string(text_of(**answer)) : std::string(to_string(answer.error().code()))));
    }
    return all;
  }
};

using Texts = std::vector<std::string>;

TEST(RedisMultiplexer, WritesWhatWasQueuedTogetherAndMatchesRepliesInOrder) {
  Calls calls;
  for (const auto* bytes : {"a", "b", "c"}) calls.queue(bytes);
  EXPECT_EQ(calls.write(), "abc");
  EXPECT_FALSE(calls.reply({"+1\r\n", "+2\r\n"}));
  EXPECT_FALSE(calls.reply({"+3\r\n"}));
  EXPECT_EQ(calls.ends(), (Texts{"a=1", "b=2", "c=3"}));
  EXPECT_FALSE(calls.mux.owed_replies());
}

TEST(RedisMultiplexer, ACallThatIsQueuedDuringAWriteIsWrittenAfterIt) {
  Calls calls;
  calls.queue("first");
  const auto bytes = calls.mux.output(calls.now);
  calls.queue("second");
  EXPECT_EQ(bytes, "first");
  calls.mux.accepted(2);
  EXPECT_EQ(calls.mux.output(calls.now), "rst");
  calls.mux.accepted(3);
  EXPECT_EQ(calls.write(), "second");
}

TEST(RedisMultiplexer, WithoutRoomThereIsNoOutput) {
  Calls calls;
  calls.queue("abc");
  EXPECT_EQ(calls.write(2), "ab");
  EXPECT_TRUE(calls.mux.out_of_room());
  EXPECT_FALSE(calls.mux.has_output());
  calls.mux.has_room();
  EXPECT_EQ(calls.write(), "c");
}

TEST(RedisMultiplexer, ALateReplyIsDroppedAndTheNextGoesToItsOwnCall) {
  Calls calls;
  calls.queue("late", 10ms);
  calls.queue("next");
  calls.write();
  calls.now += 10ms;
  EXPECT_EQ(calls.mux.look_at(), calls.now);
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_EQ(calls.ends(), (Texts{"late=NetworkTimeout"}));
  EXPECT_FALSE(calls.reply({"+late\r\n", "+next\r\n"}));
  EXPECT_EQ(calls.ends(), (Texts{"next=next"}));
}

TEST(RedisMultiplexer, AReplyTooManyEndsTheConnection) {
  Calls calls;
  calls.queue("a");
  calls.write();
  EXPECT_TRUE(calls.reply({"+1\r\n", "+2\r\n"}));
  EXPECT_EQ(calls.ends(), (Texts{"a=1"}));
}

TEST(RedisMultiplexer, WhatWasNotAnsweredIsSentAgainFirstAndInOrder) {
  Calls calls;
  for (const auto* bytes : {"a", "b", "c"}) calls.queue(bytes);
  calls.write();
  calls.queue("d");
  EXPECT_FALSE(calls.reply({"+1\r\n"}));
  calls.mux.disconnected();
  calls.mux.connected(calls.now);
  EXPECT_EQ(calls.write(), "bcd");
}

TEST(RedisMultiplexer, EachCopyOfACallCarriesTheFenceFloorOfItsConnection) {
  Calls calls;
  calls.queue("acquire 000000000000000 k").fence_floor_at = 8;
  EXPECT_EQ(calls.write(), "acquire 000000000000000 k");
  calls.mux.disconnected();
  calls.mux.connected(calls.now, 7'000'000'000);
  calls.queue("release k");
  EXPECT_EQ(calls.write(), "acquire 000007000000000 krelease k");
}

TEST(RedisMultiplexer, OnlyACallOfWhichAByteWasAcceptedIsRepeated) {
  Calls calls;
  const auto& whole = calls.queue("aa");
  const auto& part = calls.queue("bb");
  const auto& none = calls.queue("cc");
  const auto& unsent = calls.queue("dd");
  EXPECT_EQ(calls.write(3), "aab");
  calls.mux.disconnected();
  EXPECT_TRUE(whole.was_repeated());
  EXPECT_TRUE(part.was_repeated());
  EXPECT_FALSE(none.was_repeated());
  EXPECT_FALSE(none.was_sent());
  EXPECT_FALSE(unsent.was_sent());
  calls.mux.connected(calls.now);
  EXPECT_EQ(calls.write(0), "") << "all of it again";
  calls.mux.disconnected();
  EXPECT_TRUE(whole.was_repeated()) << "a broken connection without a byte of it changes nothing";
  EXPECT_FALSE(none.was_repeated());
}

TEST(RedisMultiplexer, ACallKnowsItsConnection) {
  Calls calls;
  const auto& call = calls.queue("a");
  calls.write();
  EXPECT_EQ(call.connection(), 1U);
  calls.mux.disconnected();
  calls.mux.connected(calls.now);
  calls.write();
  EXPECT_EQ(call.connection(), 2U);
}

TEST(RedisMultiplexer, WhatHasEndedIsNotSentAgain) {
  Calls calls;
  calls.queue("over", 10ms);
  calls.queue("left");
  calls.write();
  calls.now += 10ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  calls.mux.disconnected();
  calls.mux.connected(calls.now);
  EXPECT_EQ(calls.write(), "left");
}

TEST(RedisMultiplexer, AStopEndsACallAsAbortedOrAsUnknown) {
  Calls calls;
  auto& written = calls.queue("written");
  calls.write();
  auto& unwritten = calls.queue("unwritten");
  calls.mux.stop(written);
  calls.mux.stop(unwritten);
  EXPECT_LE(calls.mux.look_at(), calls.now);
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_EQ(calls.ends(), (Texts{"written=NetworkTimeout", "unwritten=Aborted"}));
}

TEST(RedisMultiplexer, AStoppedCallWhoseAnswerMattersWaitsForItAMoment) {
  Calls calls;
  auto& answered = calls.queue("answered");
  auto& unanswered = calls.queue("unanswered");
  calls.write();
  auto& unwritten = calls.queue("unwritten");
  for (auto* call : {&answered, &unanswered, &unwritten}) {
    call->answer_timeout_after_stop = 1s;
    calls.mux.stop(*call);
  }
  EXPECT_LE(calls.mux.look_at(), calls.now);
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_EQ(calls.ends(), (Texts{"unwritten=Aborted"}));
  EXPECT_EQ(calls.mux.look_at(), calls.now + 1s);
  calls.now += 500ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_FALSE(calls.reply({"+1\r\n"}));
  EXPECT_EQ(calls.ends(), (Texts{"answered=1"}));
  calls.now += 500ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_EQ(calls.ends(), (Texts{"unanswered=NetworkTimeout"}));
}

TEST(RedisMultiplexer, AStopDuringABreakIsNotForgotten) {
  Calls calls;
  auto& call = calls.queue("a");
  calls.write();
  calls.mux.stop(call);
  calls.mux.disconnected();
  EXPECT_LE(calls.mux.look_at(), calls.now);
}

TEST(RedisMultiplexer, AnAnswerThatIsOverdueCondemnsTheConnection) {
  Calls calls;
  calls.queue("on a fast link");
  calls.write();
  ASSERT_FALSE(calls.reply({"+0\r\n"}));
  calls.queue("a").answer_timeout = 100ms;
  calls.queue("b").answer_timeout = 100ms;
  calls.write();
  EXPECT_EQ(calls.mux.look_at(), calls.now + 100ms);
  calls.now += 99ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  EXPECT_FALSE(calls.reply({"+1\r\n"}));
  calls.now += 99ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {})) << "the time runs from the last answer to any call";
  calls.now += 1ms;
  EXPECT_EQ(calls.mux.look_at(), calls.now);
  EXPECT_TRUE(calls.mux.inspect(calls.now, {}));
}

TEST(RedisMultiplexer, AnEndedCallsAnswerIsStillDue) {
  Calls calls;
  calls.queue("a", 10ms).answer_timeout = 100ms;
  calls.write();
  calls.now += 10ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  calls.now += 90ms;
  EXPECT_EQ(calls.mux.look_at(), calls.now);
  EXPECT_TRUE(calls.mux.inspect(calls.now, {}));
}

TEST(RedisMultiplexer, EachResendDoublesThePatience) {
  Calls calls;
  auto& call = calls.queue("aa");
  call.answer_timeout = 100ms;
  calls.write(0);
  calls.mux.disconnected();
  EXPECT_EQ(call.answer_timeout, 100ms) << "it is no resend";
  for (int i = 0; i < 30; ++i) {
    calls.mux.connected(calls.now);
    calls.write();
    calls.mux.disconnected();
    EXPECT_EQ(call.answer_timeout, i == 0 ? 200ms : std::min<BootClock::duration>(call.answer_timeout, 1h));
  }
  EXPECT_EQ(call.answer_timeout, 1h);
}

TEST(RedisMultiplexer, AConnectionIsNotGivenUpBeforeTheLinkCanHaveAnswered) {
  Calls calls;
  calls.queue("a");
  calls.write();
  calls.now += 80ms;
  ASSERT_FALSE(calls.reply({"+1\r\n"}));
  calls.queue("b").answer_timeout = 20ms;
  calls.write();
  calls.now += 159ms;
  EXPECT_GT(calls.mux.look_at(), calls.now);
  EXPECT_FALSE(calls.mux.inspect(calls.now, {}));
  calls.now += 1ms;
  EXPECT_TRUE(calls.mux.inspect(calls.now, {})) << "two round trips";

  calls.mux.disconnected();
  calls.mux.connected(calls.now);
  calls.write();
  calls.now += 50ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, {})) << "the next connection has the same link";
  ASSERT_FALSE(calls.reply({"+2\r\n"}));
  calls.queue("c");
  calls.write();
  calls.now += 1ms;
  ASSERT_FALSE(calls.reply({"+3\r\n"}));
  calls.queue("d").answer_timeout = 20ms;
  calls.write();
  calls.now += 20ms;
  EXPECT_TRUE(calls.mux.inspect(calls.now, {})) << "the fastest answer counts";
}

TEST(RedisMultiplexer, ALateFirstAnswerDoesNotMakeTheLinkSlow) {
  Calls calls;
  calls.queue("a");
  calls.write();
  calls.now += 30s;
  ASSERT_FALSE(calls.reply({"+1\r\n"}));
  calls.queue("b").answer_timeout = 20ms;
  calls.write();
  calls.now += 1s;
  EXPECT_TRUE(calls.mux.inspect(calls.now, {}));
}

TEST(RedisMultiplexer, AReplicaAnswersWhatItWasSentAndGetsNothingNew) {
  Calls calls;
  calls.queue("a");
  calls.queue("b");
  calls.write();
  EXPECT_FALSE(calls.reply({readonly}));
  EXPECT_TRUE(calls.mux.demoted());
  calls.queue("c");
  EXPECT_FALSE(calls.mux.has_output());
  EXPECT_TRUE(calls.reply({"+2\r\n"})) << "now it can be left";
  calls.mux.disconnected();
  EXPECT_FALSE(calls.mux.demoted());
  calls.mux.connected(calls.now);
  EXPECT_EQ(calls.write(), "c");
}

TEST(RedisMultiplexer, AReplicaStillGetsTheRestOfACall) {
  Calls calls;
  calls.queue("a");
  calls.queue("bcd");
  EXPECT_EQ(calls.write(2), "ab");
  EXPECT_FALSE(calls.reply({readonly}));
  calls.mux.has_room();
  EXPECT_EQ(calls.write(), "cd");
}

TEST(RedisMultiplexer, AnAttemptThatFailsEndsOnlyCallsThatAskForIt) {
  Calls calls;
  calls.mux.disconnected();
  calls.queue("patient");
  calls.queue("hasty").fail_fast = true;
  calls.mux.cannot_connect({ErrorCode::ServiceUnavailable, "no"});
  EXPECT_EQ(calls.ends(), (Texts{"hasty=ServiceUnavailable"}));
  calls.mux.cannot_connect({ErrorCode::AuthFailed, "never"});
  EXPECT_EQ(calls.ends(), (Texts{"patient=AuthFailed"}));
}

TEST(RedisMultiplexer, ACallThatWasSentEndsAsUnknownWhateverPreventsTheResend) {
  Calls calls;
  calls.queue("a");
  calls.write();
  calls.mux.disconnected();
  calls.mux.cannot_connect({ErrorCode::AuthFailed, "never"});
  EXPECT_EQ(calls.ends(), (Texts{"a=ServiceUnavailable"}));
}

TEST(RedisMultiplexer, WithoutAConnectionADeadlineEndsACallWithTheReason) {
  Calls calls;
  calls.mux.disconnected();
  calls.queue("a", 10ms);
  calls.now += 10ms;
  EXPECT_FALSE(calls.mux.inspect(calls.now, Error(ErrorCode::ServiceUnavailable, "refused")));
  EXPECT_EQ(calls.ends(), (Texts{"a=ServiceUnavailable"}));
}

TEST(RedisMultiplexer, AConnectionIsIdleOnlyIfNothingIsUnderWay) {
  Calls calls;
  EXPECT_FALSE(calls.mux.was_idle(calls.now + 99ms));
  EXPECT_TRUE(calls.mux.was_idle(calls.now + 100ms));
  calls.queue("ab");
  calls.write(1);
  EXPECT_FALSE(calls.mux.was_idle(calls.now + 1h));
  calls.mux.has_room();
  calls.write();
  EXPECT_FALSE(calls.mux.was_idle(calls.now + 1h)) << "an answer is due";
  EXPECT_FALSE(calls.reply({"+1\r\n"}));
  EXPECT_TRUE(calls.mux.was_idle(calls.now + 1h));
}

TEST(RedisMultiplexer, ALongQueueIsWrittenInParts) {
  Calls calls;
  const std::string large(200 << 10, 'x');
  for (int i = 0; i < 3; ++i) calls.queue(large);
  EXPECT_EQ(calls.mux.output(calls.now).size(), 2 * large.size());
  calls.mux.accepted(2 * large.size());
  EXPECT_EQ(calls.mux.output(calls.now).size(), large.size());
}

}  // namespace
}  // namespace holdfast::redis
