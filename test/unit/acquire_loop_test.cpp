#include "locks/acquire_loop.hpp"

#include <gtest/gtest.h>

namespace holdfast::locks {
namespace {

using namespace std::chrono_literals;
using Loop = AcquireLoop;

constexpr BootTime start = BootTime(1000s);

double nothing() {
  return 0.0;
}
double almost_one() {
  return 0.999'999;
}

/// A loop that is driven by hand, with the time of the last event.
class Driven {
 public:
  explicit Driven(const LockOptions& options, double (*random)() = nothing)
      : Driven(*AcquirePolicy::from(options), random) {}
  explicit Driven(const AcquirePolicy& policy, double (*random)() = nothing)
      : loop_(policy, random), action_(loop_.start(start)) {}

  Driven& then(const Loop::Event& event, BootTime::duration after = 0ms) {
    now_ += after;
    action_ = loop_.resume(event, now_);
    return *this;
  }
  Driven& fails(const Error& error, BootTime::duration after = 0ms) {
    return then(Loop::Failed{&error}, after);
  }
  /// Waits as told, then reports that the time is up.
  Driven& wait() { return then(Loop::TimeUp{}, std::get<Loop::Wait>(action_).until - now_); }
  /// Refused, watched, refused again: the way into the first sleep.
  Driven& into_sleep() { return then(Loop::Refused{}).then(Loop::Watching{}).then(Loop::Refused{}); }

  [[nodiscard]] BootTime::duration delay() const { return std::get<Loop::Wait>(action_).until - now_; }
  template <class A>
  [[nodiscard]] const A* is() const {
    return std::get_if<A>(&action_);
  }
  [[nodiscard]] const Error& reason() const {
    (void)std::get<Loop::Lost>(action_);  // throws if it is not lost
    return loop_.error();
  }
  [[nodiscard]] ErrorCode error() const { return reason().code(); }

 private:
  Loop loop_;
  BootTime now_ = start;
  Loop::Action action_;
};

TEST(AcquireLoop, AttemptsFirstAndWins) {
  Driven d({});
  ASSERT_TRUE(d.is<Loop::Attempt>());
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_TRUE(d.then(Loop::Granted{}, 1ms).is<Loop::Won>());
}

TEST(AcquireLoop, AttemptsOnceMoreAfterTheWatchBeganAndBeforeItSleeps) {
  Driven d({});
  EXPECT_TRUE(d.then(Loop::Refused{}).is<Loop::StartWatching>());
  EXPECT_TRUE(d.then(Loop::Watching{}).is<Loop::Attempt>());
  EXPECT_TRUE(d.then(Loop::Refused{}).is<Loop::Wait>());
}

TEST(AcquireLoop, AnIdThatIsSpentIsReplacedAtOnceAndCountsAsNoRetry) {
  Driven d({.retries = 0});
  d.then(Loop::IdSpent{}, 1ms);
  ASSERT_TRUE(d.is<Loop::Attempt>());
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_FALSE(d.is<Loop::Attempt>()->abandon) << "every attempt with it was answered";
  EXPECT_TRUE(d.then(Loop::Granted{}, 1ms).is<Loop::Won>());
}

TEST(AcquireLoop, AnAttemptThatCameTooLateToBeMadeDoesNotHideThatTheLockIsHeld) {
  const auto too_late =
      Error(ErrorCode::NetworkTimeout, "the deadline passed before the operation started").with(Effect::none);
  Driven held({.wait = 50ms});
  EXPECT_EQ(held.into_sleep().wait().fails(too_late, 60ms).error(), ErrorCode::AcquisitionTimeout);
  Driven unknown({.wait = 50ms});
  EXPECT_EQ(unknown.fails(too_late, 60ms).error(), ErrorCode::NetworkTimeout) << "no attempt was made at all";
  Driven unanswered({.wait = 50ms});
  const Error lost(ErrorCode::NetworkTimeout, "no answer");
  EXPECT_EQ(unanswered.into_sleep().wait().fails(lost, 60ms).error(), ErrorCode::NetworkTimeout)
      << "this attempt was made, and nothing is known of it";
}

TEST(AcquireLoop, AnIdThatIsSpentIsReplacedForASingleAttemptToo) {
  Driven d({.wait = 0ms});
  EXPECT_TRUE(d.then(Loop::IdSpent{}, 1ms).is<Loop::Attempt>());
  EXPECT_EQ(d.then(Loop::IdSpent{}).error(), ErrorCode::ServiceUnavailable);
}

TEST(AcquireLoop, AGrantThatTheEngineTookBackIsRetriedWithAFreshIdAfterAPause) {
  const auto taken_back = Error(ErrorCode::ServiceUnavailable, "0 of 1 replica").with(Effect::id_is_spent);
  Driven d({.retries = 1, .jitter = Jitter::none});
  EXPECT_EQ(d.fails(taken_back).delay(), 100ms);
  ASSERT_TRUE(d.wait().is<Loop::Attempt>());
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_FALSE(d.is<Loop::Attempt>()->abandon) << "the engine releases it";
  EXPECT_EQ(d.fails(taken_back).error(), ErrorCode::ServiceUnavailable);
}

TEST(AcquireLoop, AnEngineThatFindsEveryIdSpentIsNotAskedInABusyLoop) {
  Driven d({.retries = 1, .jitter = Jitter::none});
  EXPECT_TRUE(d.then(Loop::IdSpent{}).is<Loop::Attempt>());
  EXPECT_EQ(d.then(Loop::IdSpent{}).delay(), 100ms);
  EXPECT_EQ(d.wait().then(Loop::IdSpent{}).error(), ErrorCode::ServiceUnavailable);
}

TEST(AcquireLoop, AnIdThatIsSpentAfterTheWaitIsOverEndsIt) {
  EXPECT_EQ(Driven({.wait = 1s}).then(Loop::IdSpent{}, 1s).error(), ErrorCode::ServiceUnavailable);
}

TEST(AcquireLoop, BacksOffExponentiallyUpToTheCap) {
  Driven d({.wait = no_time_limit, .retries = no_retry_limit, .jitter = Jitter::none});
  d.into_sleep();
  for (const auto expected : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    EXPECT_EQ(d.delay(), expected);
    d.wait().then(Loop::Refused{});
  }
}

TEST(AcquireLoop, FixedBackoffStaysTheSame) {
  Driven d({.retries = 5, .base_delay = 70ms, .backoff = Backoff::fixed, .jitter = Jitter::none});
  d.into_sleep();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(d.delay(), 70ms);
    d.wait().then(Loop::Refused{});
  }
}

TEST(AcquireLoop, EqualJitterKeepsHalfAndFullJitterMayTakeAll) {
  EXPECT_EQ(Driven({.jitter = Jitter::equal}, nothing).into_sleep().delay(), 50ms);
  EXPECT_NEAR(static_cast<double>(Driven({.jitter = Jitter::equal}, almost_one).into_sleep().delay().count()),
              100e6, 1e3);
  EXPECT_EQ(Driven({.jitter = Jitter::full}, nothing).into_sleep().delay(), 1ms) << "never a busy loop";
  EXPECT_NEAR(static_cast<double>(Driven({.jitter = Jitter::full}, almost_one).into_sleep().delay().count()),
              100e6, 1e3);
}

TEST(AcquireLoop, GivesUpAfterTenRetriesByDefault) {
  Driven d({.base_delay = 1ms, .max_delay = 1ms});
  d.into_sleep();
  int retries = 0;
  while (d.is<Loop::Wait>() != nullptr) {
    d.wait();
    ASSERT_TRUE(d.is<Loop::Attempt>());
    ++retries;
    d.then(Loop::Refused{});
  }
  EXPECT_EQ(retries, 10);
  EXPECT_EQ(d.error(), ErrorCode::AcquisitionTimeout);
}

TEST(AcquireLoop, GivesUpAfterFiveSecondsByDefaultAndNeverWaitsPastThat) {
  Driven d({.base_delay = 2s, .max_delay = 2s, .jitter = Jitter::none});
  d.into_sleep();
  d.wait().then(Loop::Refused{});
  d.wait().then(Loop::Refused{});
  EXPECT_EQ(d.delay(), 1s);
  EXPECT_EQ(d.wait().error(), ErrorCode::AcquisitionTimeout);
}

TEST(AcquireLoop, AnExplicitWaitLiftsTheDefaultRetryLimit) {
  Driven d({.wait = 60s, .base_delay = 1ms, .max_delay = 1ms});
  d.into_sleep();
  for (int i = 0; i < 50; ++i) d.wait().then(Loop::Refused{});
  EXPECT_TRUE(d.is<Loop::Wait>());
}

TEST(AcquireLoop, NoRetriesAndNoWaitMakeOneAttempt) {
  EXPECT_EQ(Driven({.wait = 0ms}).then(Loop::Refused{}).error(), ErrorCode::AcquisitionTimeout);
  EXPECT_EQ(Driven({.retries = 0}).into_sleep().error(), ErrorCode::AcquisitionTimeout);
}

TEST(AcquireLoop, AWakeUpIsNotARetryAndDoesNotPutThePollOff) {
  Driven d({.retries = 1, .jitter = Jitter::none});
  d.into_sleep();
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(d.then(Loop::Woken{}, 10ms).is<Loop::Attempt>());
    d.then(Loop::Refused{});
  }
  EXPECT_EQ(d.delay(), 10ms);
  EXPECT_TRUE(d.wait().is<Loop::Attempt>());
  EXPECT_EQ(d.then(Loop::Refused{}).error(), ErrorCode::AcquisitionTimeout);
}

TEST(AcquireLoop, AnAttemptAfterAWakeUpThatGotNoAnswerIsRepeatedSoonHoweverSlowlyItPolls) {
  Driven d({.wait = 1h, .retries = 1, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  const Error failed(ErrorCode::NetworkTimeout, "no answer in time");
  d.into_sleep();
  EXPECT_EQ(d.delay(), 40s);
  d.then(Loop::Woken{}, 1s).fails(failed, 1s);
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    EXPECT_EQ(d.delay(), pause) << "the lock was said to be free";
    EXPECT_TRUE(d.wait().is<Loop::Attempt>()) << "and is not counted as a retry";
    d.fails(failed);
  }
  EXPECT_GT(d.wait().then(Loop::Refused{}).delay(), 20s) << "answered: at its own pace again";
  Driven polls({.wait = 1h, .retries = 3, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_EQ(polls.into_sleep().wait().fails(failed).delay(), 40s) << "without a wake-up";
}

TEST(AcquireLoop, TriesAgainWhenTheHoldersLeaseRunsOut) {
  Driven d({.retries = 1, .base_delay = 1s, .jitter = Jitter::none});
  d.into_sleep();
  d.then(Loop::Woken{}).then(Loop::Refused{40ms});
  EXPECT_EQ(d.delay(), 40ms);
  EXPECT_TRUE(d.wait().is<Loop::Attempt>()) << "not counted as a retry";
  EXPECT_EQ(d.then(Loop::Refused{30ms}).delay(), 30ms) << "another holder, another expiry";
}

TEST(AcquireLoop, AnEngineThatAlwaysSaysSoonIsAskedLessAndLessOften) {
  Driven d({.retries = 1, .base_delay = 1s, .jitter = Jitter::none});
  d.then(Loop::Refused{1ms}).then(Loop::Watching{}).then(Loop::Refused{1ms});
  for (const auto expected : {1ms, 10ms, 20ms, 40ms, 80ms}) {
    EXPECT_EQ(d.delay(), expected);
    d.wait().then(Loop::Refused{1ms});
  }
}

TEST(AcquireLoop, EveryAnsweredAttemptIsFollowedByAFreshId) {
  Driven d({});
  d.into_sleep();
  EXPECT_TRUE(d.wait().is<Loop::Attempt>()->fresh_id);
  EXPECT_FALSE(d.is<Loop::Attempt>()->abandon);
}

TEST(AcquireLoop, AnUnansweredAttemptIsRepeatedWithItsId) {
  Driven d({});
  d.fails(Error(ErrorCode::NetworkTimeout, "lost"));
  EXPECT_TRUE(d.wait().is<Loop::Attempt>());
  EXPECT_FALSE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_TRUE(d.then(Loop::Granted{}).is<Loop::Won>());
}

TEST(AcquireLoop, AnUnansweredIdIsAbandonedWhenAnotherHolderShowsUp) {
  Driven d({});
  d.fails(Error(ErrorCode::NetworkTimeout, "lost")).wait();
  d.then(Loop::Refused{}).then(Loop::Watching{});
  ASSERT_TRUE(d.is<Loop::Attempt>());
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_TRUE(d.is<Loop::Attempt>()->abandon);
}

TEST(AcquireLoop, AnUnansweredIdIsAbandonedWhenItsLeaseWouldBeHalfOver) {
  Driven d({.ttl = 200ms, .base_delay = 120ms, .jitter = Jitter::none});
  d.fails(Error(ErrorCode::NetworkTimeout, "lost")).wait();
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_TRUE(d.is<Loop::Attempt>()->abandon);
}

TEST(AcquireLoop, TransientErrorsUseTheSameBudgetAndTheLastOneIsReported) {
  Driven d({.retries = 2});
  d.fails(Error(ErrorCode::ServiceUnavailable, "1")).wait();
  d.fails(Error(ErrorCode::RateLimited, "2")).wait();
  d.fails(Error(ErrorCode::NetworkTimeout, "3"));
  EXPECT_EQ(d.error(), ErrorCode::NetworkTimeout);
  EXPECT_TRUE(d.is<Loop::Lost>()->abandon);
}

TEST(AcquireLoop, ARefusalAfterAnErrorEndsAsATimeout) {
  Driven d({.retries = 1});
  d.fails(Error(ErrorCode::ServiceUnavailable, "1")).wait();
  d.into_sleep();
  EXPECT_EQ(d.error(), ErrorCode::AcquisitionTimeout);
  EXPECT_TRUE(d.is<Loop::Lost>()->abandon == false) << "the second attempt had a fresh, answered id";
}

TEST(AcquireLoop, OtherErrorsEndItAtOnce) {
  EXPECT_EQ(Driven({}).fails(Error(ErrorCode::AuthFailed, "no")).error(), ErrorCode::AuthFailed);
  EXPECT_EQ(Driven({}).fails(Error(ErrorCode::Internal, "no")).error(), ErrorCode::Internal);
}

TEST(AcquireLoop, StoppingEndsItAnywhere) {
  EXPECT_EQ(Driven({}).into_sleep().then(Loop::Stopped{}).error(), ErrorCode::Aborted);
  Driven unanswered({});
  unanswered.fails(Error(ErrorCode::NetworkTimeout, "lost")).then(Loop::Stopped{});
  EXPECT_EQ(unanswered.error(), ErrorCode::Aborted);
  EXPECT_TRUE(unanswered.is<Loop::Lost>()->abandon);
}

TEST(AcquireLoop, AGrantThatComesTooLateToBeProvenIsGivenBack) {
  Driven d({.ttl = 100ms});
  d.then(Loop::Granted{}, 99ms);
  ASSERT_TRUE(d.is<Loop::Wait>());
  d.wait();
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_TRUE(d.is<Loop::Attempt>()->abandon);
}

TEST(AcquireLoop, AWaitersAttemptsAreBoundedByItsPatienceASingleOneIsNot) {
  EXPECT_EQ(Driven({.wait = 3s}).is<Loop::Attempt>()->deadline, start + 3s);
  EXPECT_EQ(Driven({.wait = 0ms}).is<Loop::Attempt>()->deadline, never);
  EXPECT_EQ(Driven({.wait = no_time_limit}).is<Loop::Attempt>()->deadline, never);
}

TEST(AcquireLoop, AnAnswerThatCannotBeReadMayBeAGrantAndIsReleased) {
  Driven d({});
  d.fails(Error(ErrorCode::Internal, "odd"));
  ASSERT_TRUE(d.is<Loop::Lost>());
  EXPECT_TRUE(d.is<Loop::Lost>()->abandon);
  Driven refused({});
  refused.fails(Error(ErrorCode::AuthFailed, "no"));
  EXPECT_FALSE(refused.is<Loop::Lost>()->abandon);
}

TEST(AcquireLoop, WhereAFailureChangesNothingNoReleaseFollows) {
  const Error busy = Error(ErrorCode::ServiceUnavailable, "busy").with(Effect::none);
  Driven d({.wait = 1s});
  d.fails(busy).wait();
  ASSERT_TRUE(d.is<Loop::Attempt>());
  EXPECT_TRUE(d.is<Loop::Attempt>()->fresh_id);
  EXPECT_FALSE(d.is<Loop::Attempt>()->abandon);
  d.fails(busy, 1s);
  ASSERT_TRUE(d.is<Loop::Lost>());
  EXPECT_FALSE(d.is<Loop::Lost>()->abandon);
}

TEST(AcquireLoop, AFailureThatChangedNothingSettlesNoUnansweredAttemptBeforeIt) {
  Driven d({.wait = 1s});
  d.fails(Error(ErrorCode::NetworkTimeout, "no answer")).wait();
  EXPECT_FALSE(d.is<Loop::Attempt>()->fresh_id);
  d.fails(Error(ErrorCode::ServiceUnavailable, "not sent").with(Effect::none), 1s);
  ASSERT_TRUE(d.is<Loop::Lost>());
  EXPECT_TRUE(d.is<Loop::Lost>()->abandon);
}

TEST(AcquirePolicy, RefusesNonsense) {
  for (const LockOptions& bad : {LockOptions{.ttl = 0ms}, LockOptions{.ttl = -1ms}, LockOptions{.wait = -1ms},
                                 LockOptions{.base_delay = -1ms}, LockOptions{.max_delay = -1ms},
                                 LockOptions{.max_hold = -1ms}, LockOptions{.dispose_timeout = -1ms}}) {
    EXPECT_EQ(AcquirePolicy::from(bad).error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(AcquireLoop, NamesTheHolderOfTheLastRefusalInPrintableForm) {
  const auto label = [](std::string_view text) { return LockHolder::from_setting(text).value_or_throw(); };
  Driven d({.wait = 1s});
  const auto alice = label("alice");
  const auto bob = label("bob\x1B[2J");
  d.then(Loop::Refused{.holder = &alice}).then(Loop::Watching{});
  d.then(Loop::Refused{.holder = &bob}).then(Loop::TimeUp{}, 1s);
  ASSERT_TRUE(d.is<Loop::Lost>());
  const auto& error = d.reason();
  EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout);
  EXPECT_EQ(error.holder(), "bob\x1B[2J");
  EXPECT_TRUE(error.message().starts_with("the lock is already held by bob\\x1b[2J; gave up after 1.0 s"))
      << error.message();
}

}  // namespace
}  // namespace holdfast::locks
