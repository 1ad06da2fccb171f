#include "queue/end_loop.hpp"

#include <gtest/gtest.h>

#include "support/times.hpp"

namespace holdfast::queue {
namespace {

using namespace std::chrono_literals;
using How = operation::EndJob::How;

constexpr auto queue_owner = "%queue%25render";
const WallTime now = test::from_ms(10'000);
const FencingToken token{.authority = "a", .lock_key = "k", .fence = *Fence::of(7)};

/// The record of a task that was claimed for the `attempts`th time.
StoredRecord stored(std::uint64_t version, std::uint32_t attempts = 1,
                    TaskStatus status = TaskStatus::working) {
  auto record = tasks::TaskRecord::begin({.id = "7",
                                          .owner = queue_owner,
                                          .method = "",
                                          .now = test::from_ms(1000),
                                          .ttl = std::nullopt,
                                          .poll_interval = 500ms,
                                          .variables = {}});
  if (status != TaskStatus::working) record.set_status(status, std::nullopt);
  QueueState state{.terms = {.max_attempts = 3, .retention = 60s},
                   .place = QueuePlace::leased,
                   .attempts = attempts,
                   .worker = "w"};
  return {.data = record.text(),
          .version = version,
          .incarnation = "i",
          .bound_to = token,
          .origin = {},
          .queue = std::make_shared<const QueueState>(state)};
}

Task task_of(const StoredRecord& record) {
  return tasks::TaskRecord::parse(record.data, "7").value_or_throw().task(record);
}
EndLoop ending(operation::EndJob what, const StoredRecord& record = stored(3)) {
  return {{.key = RecordKey::of(queue_owner, "7").value_or_throw(), .task = task_of(record), .token = token},
          std::move(what),
          std::nullopt,
          0.0};
}
operation::EndJob completed() {
  return {.how = How::completed, .result = Json::parse("[]").value_or_throw()};
}
EndLoop::Action after(EndLoop& end, EndOutcome outcome) {
  return end.resume(Result<EndOutcome>(std::move(outcome)));
}
EndLoop::Action after_read(EndLoop& end, std::optional<StoredRecord> record) {
  return end.resume(Result<std::optional<StoredRecord>>(std::move(record)), now);
}
Task written(const EndLease& request) {
  const auto record = tasks::TaskRecord::parse(request.write->first.text(), "7").value_or_throw();
  return record.task({});
}
ErrorCode code_of(const EndLoop::Action& action) {
  return std::get<EndLoop::Finished>(action).result.error().code();
}

TEST(EndLoop, AnOutcomeIsOneRequestWithTheVersionOfTheClaim) {
  auto end = ending(completed());
  const auto action = end.start(now);
  const auto& request = std::get<EndLease>(action);
  EXPECT_EQ(request.end, LeaseEnd::finished);
  EXPECT_EQ(request.token, token);
  EXPECT_EQ(request.incarnation, "i");
  EXPECT_EQ(request.write->second.version, 3U);
  const auto task = written(request);
  EXPECT_EQ(task.status, TaskStatus::completed);
  EXPECT_EQ(task.result.str(), "[]");
  const auto finished = after(end, Written{.version = 4, .incarnation = "i"});
  const auto& result = std::get<EndLoop::Finished>(finished).result;
  ASSERT_TRUE(result);
  EXPECT_EQ(result->version, 4U);
  EXPECT_EQ(result->queue->place, QueuePlace::finished);
}

TEST(EndLoop, TheFinalWriteSetsExpiryAndTtlFromTheRetention) {
  auto end = ending(completed());
  const auto action = end.start(now);
  const auto& data = std::get<EndLease>(action).write->first;
  ASSERT_TRUE(data.expires_at());
  EXPECT_EQ(test::to_ms(*data.expires_at()), 70'000);
  EXPECT_EQ(written(std::get<EndLease>(action)).ttl, 69s) << "from the creation";
}

TEST(EndLoop, ARetryIsDelayedAndWritesOnlyAMessage) {
  auto silent = ending({.how = How::retry});
  const auto first = silent.start(now);
  EXPECT_EQ(std::get<EndLease>(first).end, LeaseEnd::retried);
  EXPECT_EQ(std::get<EndLease>(first).delay, 1s) << "half of 1 s times 2";
  EXPECT_FALSE(std::get<EndLease>(first).write);
  EXPECT_EQ(std::get<EndLease>(first).expected->version, 3U);
  auto explained = ending({.how = How::retry, .message = "disk full", .delay = 5s});
  const auto second = explained.start(now);
  EXPECT_EQ(std::get<EndLease>(second).delay, 5s);
  const auto task = written(std::get<EndLease>(second));
  EXPECT_EQ(task.status, TaskStatus::working);
  EXPECT_EQ(task.status_message, "disk full");
  EXPECT_FALSE(task.expires_at);
}

TEST(EndLoop, ARetryMayBeDelayedForAnyTime) {
  auto end = ending({.how = How::retry, .delay = std::chrono::milliseconds::max()});
  (void)end.start(now);
  const auto finished = after(end, LeaseEnded{});
  EXPECT_EQ(std::get<EndLoop::Finished>(finished).result->queue->due_at, WallTime::max());
}

TEST(EndLoop, ARetryAfterTheLastAttemptFailsTheTask) {
  auto end = ending({.how = How::retry, .message = "disk full"}, stored(3, 3));
  const auto action = end.start(now);
  EXPECT_EQ(std::get<EndLease>(action).end, LeaseEnd::finished);
  const auto task = written(std::get<EndLease>(action));
  EXPECT_EQ(task.status, TaskStatus::failed);
  EXPECT_EQ(task.status_message, "disk full; no attempts left (3 of 3)");
  EXPECT_TRUE(task.expires_at);
}

TEST(EndLoop, AFailedTaskIsADeadLetterAndKeptAsLongAsThat) {
  auto failed = ending({.how = How::failed, .message = "broken"});
  const auto action = failed.start(now);
  const auto& request = std::get<EndLease>(action);
  EXPECT_EQ(request.max_dead, QueueOptions{}.max_dead);
  EXPECT_EQ(*request.write->first.expires_at() - now, stored(3).queue->terms.failed_retention);
  const auto finished = after(failed, Written{.version = 4, .incarnation = "i"});
  EXPECT_EQ(std::get<EndLoop::Finished>(finished).result->queue->place, QueuePlace::dead);
  auto last = ending({.how = How::retry}, stored(3, 3));
  EXPECT_TRUE(std::get<EndLease>(last.start(now)).max_dead);
  auto done = ending(completed());
  EXPECT_FALSE(std::get<EndLease>(done.start(now)).max_dead);
  auto retried = ending({.how = How::retry});
  EXPECT_FALSE(std::get<EndLease>(retried.start(now)).max_dead);
}

TEST(EndLoop, ATaskThatIsGivenBackIsNotWritten) {
  auto end = ending({.how = How::give_back});
  const auto action = end.start(now);
  EXPECT_EQ(std::get<EndLease>(action).end, LeaseEnd::given_back);
  EXPECT_FALSE(std::get<EndLease>(action).write);
  const auto finished = after(end, LeaseEnded{});
  EXPECT_EQ(std::get<EndLoop::Finished>(finished).result->queue->attempts, 0U);
}

TEST(EndLoop, ATaskThatWasEndedMeanwhileIsNeitherRetriedNorGivenBack) {
  for (const auto how : {How::retry, How::give_back}) {
    auto end = ending({.how = how});
    const auto action = end.start(now);
    EXPECT_EQ(std::get<EndLease>(action).expected->version, 3U);
    ASSERT_TRUE(
        std::holds_alternative<EndLoop::Read>(after(end, VersionConflict{.expected = 3, .actual = 4})));
    auto cancelled = stored(4, 1, TaskStatus::cancelled);
    auto state = *cancelled.queue;
    state.place = QueuePlace::finished;
    cancelled.queue = std::make_shared<const QueueState>(state);
    EXPECT_EQ(code_of(after_read(end, cancelled)), ErrorCode::InvalidTransition);
  }
}

TEST(EndLoop, AfterAConflictItIsDecidedAgain) {
  auto end = ending(completed());
  (void)end.start(now);
  ASSERT_TRUE(std::holds_alternative<EndLoop::Read>(after(end, VersionConflict{.expected = 3, .actual = 5})));
  const auto again = after_read(end, stored(5));
  EXPECT_EQ(std::get<EndLease>(again).write->second.version, 5U);
}

TEST(EndLoop, ACancelledTaskIsReportedAndNeverOverwritten) {
  auto end = ending(completed());
  (void)end.start(now);
  (void)after(end, VersionConflict{.expected = 3, .actual = 4});
  auto cancelled = stored(4, 1, TaskStatus::cancelled);
  auto state = *cancelled.queue;
  state.place = QueuePlace::finished;
  cancelled.queue = std::make_shared<const QueueState>(state);
  EXPECT_EQ(code_of(after_read(end, cancelled)), ErrorCode::InvalidTransition);
}

TEST(EndLoop, ATaskThatIsKnownToBeCancelledIsNotWrittenEither) {
  auto cancelled = stored(4, 1, TaskStatus::cancelled);
  auto state = *cancelled.queue;
  state.place = QueuePlace::finished;
  cancelled.queue = std::make_shared<const QueueState>(state);
  auto end = ending(completed(), cancelled);
  EXPECT_EQ(code_of(end.start(now)), ErrorCode::InvalidTransition);
}

TEST(EndLoop, ATaskThatOtherSoftwareCancelledLeavesTheQueueAsItIs) {
  auto end = ending(completed());
  (void)end.start(now);
  (void)after(end, VersionConflict{.expected = 3, .actual = 4});
  const auto action = after_read(end, stored(4, 1, TaskStatus::cancelled));
  const auto& request = std::get<EndLease>(action);
  EXPECT_EQ(request.end, LeaseEnd::finished);
  EXPECT_EQ(written(request).status, TaskStatus::cancelled);
  EXPECT_TRUE(request.write->first.expires_at());
  EXPECT_EQ(code_of(after(end, Written{.version = 5, .incarnation = "i"})), ErrorCode::InvalidTransition);
}

TEST(EndLoop, AnOutcomeThatWasAcceptedBeforeIsAcceptedAgain) {
  auto end = ending(completed());
  (void)end.start(now);
  (void)after(end, VersionConflict{.expected = 3, .actual = 4});
  auto ours = stored(4, 1, TaskStatus::completed);
  auto record = tasks::TaskRecord::parse(ours.data, "7").value_or_throw();
  record.set_result(Json::parse("[]").value_or_throw());
  ours.data = record.text();
  const auto action = after_read(end, ours);
  ASSERT_TRUE(std::get<EndLoop::Finished>(action).result);
  EXPECT_EQ(std::get<EndLoop::Finished>(action).result->version, 4U);
}

TEST(EndLoop, ALateOutcomeIsStaleEvenIfTheNextWorkerHasFinished) {
  auto end = ending(completed());
  (void)end.start(now);
  FencingToken next = token;
  next.fence = *Fence::of(8);
  EXPECT_EQ(
      code_of(after(end, FenceRefused{.why = ErrorCode::StaleFence, .given = token.fence, .bound_to = next})),
      ErrorCode::StaleFence);
  auto other = ending(completed());
  (void)other.start(now);
  (void)after(other, VersionConflict{.expected = 3, .actual = 9});
  auto finished = stored(9, 2, TaskStatus::completed);
  finished.bound_to = next;
  EXPECT_EQ(code_of(after_read(other, finished)), ErrorCode::StaleFence);
}

TEST(EndLoop, ALateOutcomeIsStaleAlsoIfItIsKnownThatTheNextWorkerHasFinished) {
  auto finished = stored(9, 2, TaskStatus::completed);
  finished.bound_to->fence = *Fence::of(8);
  auto end = ending(completed(), finished);
  EXPECT_EQ(code_of(end.start(now)), ErrorCode::StaleFence);
}

TEST(EndLoop, ARemovedTaskIsNotFoundAlsoIfAnotherHasItsId) {
  auto end = ending(completed());
  (void)end.start(now);
  EXPECT_EQ(code_of(after(end, NoRecord{})), ErrorCode::NotFound);
  auto other = ending(completed());
  (void)other.start(now);
  (void)after(other, VersionConflict{.expected = 3, .actual = 1, .replaced = true});
  auto successor = stored(1);
  successor.incarnation = "j";
  EXPECT_EQ(code_of(after_read(other, successor)), ErrorCode::NotFound);
}

TEST(EndLoop, AnUnansweredOutcomeIsTheError) {
  auto end = ending(completed());
  (void)end.start(now);
  EXPECT_EQ(code_of(end.resume(Result<EndOutcome>(Error(ErrorCode::NetworkTimeout, "no answer")))),
            ErrorCode::NetworkTimeout);
}

TEST(Backoff, DoublesWithEachAttemptUpToTenMinutesAndIsHalfRandom) {
  EXPECT_EQ(backoff(1, 0.0), 1s);
  EXPECT_EQ(backoff(1, 0.5), 1500ms);
  EXPECT_EQ(backoff(2, 0.0), 2s);
  EXPECT_EQ(backoff(9, 0.0), 256s);
  EXPECT_EQ(backoff(10, 0.0), 300s);
  EXPECT_EQ(backoff(1'000'000, 0.0), 300s);
  EXPECT_LT(backoff(1'000'000, 0.999), 600s);
}

}  // namespace
}  // namespace holdfast::queue
