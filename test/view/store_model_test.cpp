#include "view/store_model.hpp"

#include <gtest/gtest.h>

namespace holdfast::view {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr WallTime midnight{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}};

/// A time of a test: milliseconds since its begin, by both clocks.
Moment at(milliseconds since_begin) {
  return {.boot = BootTime(1000s + since_begin), .wall = midnight + since_begin};
}

Exchange answered_at(milliseconds when) {
  return {.sent = at(when).boot, .answered = at(when)};
}

LockRow lock(std::string key, std::uint64_t fence, milliseconds acquired, milliseconds expires) {
  return {.key = std::move(key),
          .holder = "alice@web-3:812 make",
          .fence = Fence::of(fence).value_or_throw(),
          .acquired_at = midnight + acquired,
          .expires_at = midnight + expires};
}

TaskRow task(std::string id, TaskStatus status) {
  return {.owner = "alice", .id = id, .method = "report", .status = status, .lock_key = "lock of " + id};
}

class ViewModel : public testing::Test {
 protected:
  void round(milliseconds when, const std::vector<LockRow>& locks, const std::vector<TaskRow>& tasks = {}) {
    model.begin_round(at(when).boot);
    model.add_locks(locks, answered_at(when));
    model.end_locks(at(when));
    model.add_tasks(tasks, answered_at(when));
    model.end_tasks(at(when));
  }
  std::vector<std::string> events(milliseconds when) {
    std::vector<std::string> texts;
    const auto snapshot = model.snapshot(at(when));
    for (const auto& event : *snapshot.events) {
      texts.push_back(std::string(to_string(event.kind)) + " " + event.key + event.task_id);
    }
    return texts;
  }
  using Texts = std::vector<std::string>;

  StoreModel model{"memory"};
};

TEST_F(ViewModel, NothingIsWholeBeforeARoundHasEnded) {
  model.begin_round(at(0ms).boot);
  model.add_locks(std::vector{lock("a", 1, 0ms, 30s)}, answered_at(1ms));
  EXPECT_FALSE(model.snapshot(at(2ms)).whole);
  EXPECT_EQ(model.snapshot(at(2ms)).locks.size(), 1U);
  model.end_locks(at(3ms));
  model.end_tasks(at(4ms));
  const auto snapshot = model.snapshot(at(100ms));
  EXPECT_TRUE(snapshot.whole);
  EXPECT_EQ(snapshot.age(at(100ms).boot), 100ms);
  EXPECT_EQ(snapshot.round, 4ms);
}

TEST_F(ViewModel, TheFirstRoundIsNoNews) {
  round(0ms, {lock("a", 1, 0ms, 30s)}, {task("t", TaskStatus::working)});
  EXPECT_EQ(events(1ms), Texts{});
}

TEST_F(ViewModel, DifferencesBetweenRoundsAreEvents) {
  round(0ms, {lock("a", 1, 0ms, 30s), lock("b", 1, 0ms, 30s)});
  round(500ms, {lock("b", 2, 400ms, 30s), lock("c", 1, 450ms, 30s)});
  EXPECT_EQ(events(501ms), (Texts{"lock_granted b", "lock_granted c", "lock_released a"}));
  const auto regranted = model.snapshot(at(501ms)).events->front();
  EXPECT_EQ(regranted.old_fence, Fence::of(1).value_or_throw());
  EXPECT_EQ(regranted.fence, Fence::of(2).value_or_throw());
}

TEST_F(ViewModel, ALockThatIsGoneAfterItsLeaseHasExpiredUnlessAReleaseWasHeard) {
  round(0ms, {lock("a", 1, 0ms, 400ms), lock("b", 1, 0ms, 400ms), lock("c", 1, 0ms, 30s)});
  model.hear_release("b", at(300ms).boot);
  model.hear_break("c", at(300ms).boot);
  round(500ms, {});
  EXPECT_EQ(events(501ms), (Texts{"lock_expired a", "lock_released b", "lock_broken c"}));
}

TEST_F(ViewModel, ALockThatEndsWhileThereIsNoViewerIsNotCalledExpired) {
  round(0ms, {lock("a", 1, 0ms, 30s), lock("b", 1, 0ms, 30s), lock("kept", 1, 0ms, 30s),
              lock("long", 1, 0ms, 3600s)});
  model.set_unwatched(at(1s).boot);
  model.hear_break("b", at(600s).boot);
  round(600s, {lock("kept", 1, 0ms, 600'400ms)});
  EXPECT_EQ(events(601s), (Texts{"lock_ended a", "lock_broken b", "lock_released long"}))
      << "a was released or expired: nothing saw which";
  // One that is read again is watched again.
  round(601s, {});
  EXPECT_EQ(events(602s).back(), "lock_expired kept");
}

TEST_F(ViewModel, QueuesReportPausesFailedTasksAndDeadWorkers) {
  const auto count = [&](milliseconds when, const QueueRow& row) {
    return model.set_queue("render", row, answered_at(when));
  };
  EXPECT_EQ(count(0ms, {.name = "render", .dead = 7, .paused = true}), 0U) << "no news";
  EXPECT_EQ(count(1s, {.name = "render", .dead = 7, .paused = false}), 0U);
  EXPECT_EQ(count(2s, {.name = "render", .expired = 2, .dead = 4}), 0U) << "retention ended";
  EXPECT_EQ(count(3s, {.name = "render", .expired = 2, .dead = 7, .paused = true}), 3U);
  auto newest = task("second", TaskStatus::failed);
  newest.status_message = "exit 3";
  model.add_failed_tasks("render", std::vector{newest, task("first", TaskStatus::failed)}, 1, at(3s));
  EXPECT_EQ(events(4s), (Texts{"queue_resumed ", "queue_workers_died ", "queue_paused ", "queue_task_failed ",
                               "queue_task_failed first", "queue_task_failed second"}));
  const auto all = *model.snapshot(at(4s)).events;
  EXPECT_EQ(all[1].owner, "queue render");
  EXPECT_EQ(all[1].text, "2 tasks");
  EXPECT_EQ(all[3].text, "1 other task");
  EXPECT_EQ(all[5].text, "exit 3");
  EXPECT_EQ(all[5].status, TaskStatus::failed);
  EXPECT_EQ(model.set_queue("render", std::nullopt, answered_at(5s)), 0U);
}

TEST_F(ViewModel, AQueueThatComesWithFailedTasksIsNewsOnceAllAreKnown) {
  const QueueRow row{.name = "new", .dead = 2, .paused = true};
  model.begin_round(at(0ms).boot);
  model.end_queues(0);
  EXPECT_EQ(model.set_queue("new", row, answered_at(1s)), 2U);
  EXPECT_EQ(events(1s), Texts{"queue_paused "});
  model.add_failed_tasks("new", {}, 2, at(1s));
  EXPECT_EQ(model.snapshot(at(1s)).events->back().text, "2 tasks") << "they may not be read";
}

TEST_F(ViewModel, AHintDoesNotRemoveALock) {
  round(0ms, {lock("a", 1, 0ms, 30s)});
  model.hear_release("a", at(10ms).boot);
  EXPECT_EQ(model.snapshot(at(20ms)).locks.size(), 1U);
  // Read again with the same fence: the hint was about an earlier grant.
  model.set_lock("a", lock("a", 1, 0ms, 40s), answered_at(30ms));
  round(31s, {});
  EXPECT_EQ(events(31s), Texts{"lock_released a"});
}

TEST_F(ViewModel, ALockThatWasReadByItselfDuringARoundOutlivesIt) {
  round(0ms, {});
  model.begin_round(at(500ms).boot);
  model.set_lock("new", lock("new", 1, 505ms, 30s), answered_at(510ms));
  model.end_locks(at(520ms));
  model.end_tasks(at(530ms));
  EXPECT_EQ(model.snapshot(at(531ms)).locks.size(), 1U);
}

TEST_F(ViewModel, ARowThatDidNotChangeIsTheSameObject) {
  round(0ms, {lock("a", 1, 0ms, 30s)}, {task("t", TaskStatus::working)});
  const auto first = model.snapshot(at(1ms));
  round(500ms, {lock("a", 1, 0ms, 30s)}, {task("t", TaskStatus::working)});
  const auto second = model.snapshot(at(501ms));
  EXPECT_EQ(first.locks[0], second.locks[0]);
  EXPECT_EQ(first.tasks[0], second.tasks[0]);
  round(900ms, {lock("a", 1, 0ms, 40s)}, {task("t", TaskStatus::completed)});
  const auto third = model.snapshot(at(901ms));
  EXPECT_NE(first.locks[0], third.locks[0]);
  EXPECT_NE(first.tasks[0], third.tasks[0]);
}

TEST_F(ViewModel, WaitersStayWithTheirGrant) {
  round(0ms, {lock("a", 1, 0ms, 30s)});
  model.set_waiters("a", 3);
  model.set_waiters("unknown", 3);
  round(500ms, {lock("a", 1, 0ms, 31s)});
  EXPECT_EQ(model.snapshot(at(501ms)).locks[0]->waiters, 3U);
  round(900ms, {lock("a", 2, 800ms, 31s)});
  EXPECT_EQ(model.snapshot(at(901ms)).locks[0]->waiters, std::nullopt);
}

TEST_F(ViewModel, ALockWhoseEndWouldBeHeardNeedNotBeReadUntilHalfOfItsLease) {
  round(0ms, {lock("a", 1, 0ms, 30s)});
  EXPECT_TRUE(model.is_fresh("a", at(14s)));
  EXPECT_FALSE(model.is_fresh("a", at(15s)));
  EXPECT_FALSE(model.is_fresh("b", at(1s)));
  model.begin_round(at(500ms).boot);
  model.see_locks(std::vector<std::string>{"a", "unknown"}, at(510ms).boot);
  model.end_locks(at(520ms));
  EXPECT_EQ(model.snapshot(at(521ms)).locks.size(), 1U);
  model.hear_release("a", at(600ms).boot);
  EXPECT_FALSE(model.is_fresh("a", at(600ms)));
}

TEST_F(ViewModel, TheLengthOfALeaseIsEstimated) {
  round(0ms, {lock("not renewed", 1, -5s, 20s), lock("renewed", 1, -7200s, 24s)});
  auto snapshot = model.snapshot(at(1ms));
  EXPECT_EQ(snapshot.locks[0]->lease, 25s);
  EXPECT_EQ(snapshot.locks[1]->lease, 30s);
  // Nearly all of a new lease is left; it does not become shorter as time goes by.
  round(5s, {lock("renewed", 1, -7200s, 64s)});
  EXPECT_EQ(model.snapshot(at(5s)).locks[0]->lease, 60s);
  round(50s, {lock("renewed", 1, -7200s, 64s)});
  EXPECT_EQ(model.snapshot(at(50s)).locks[0]->lease, 60s);
}

TEST_F(ViewModel, ALeaseThatExpiredSinceItWasReadIsReadAgainOnce) {
  round(0ms, {lock("a", 1, 0ms, 400ms), lock("b", 1, 0ms, 30s)});
  EXPECT_EQ(model.take_overdue(at(399ms), 10), Texts{});
  EXPECT_EQ(model.take_overdue(at(400ms), 10), Texts{"a"});
  EXPECT_EQ(model.take_overdue(at(401ms), 10), Texts{});
  model.set_lock("a", lock("a", 1, 0ms, 800ms), answered_at(402ms));
  EXPECT_EQ(model.take_overdue(at(801ms), 10), Texts{"a"});
}

TEST_F(ViewModel, OnlyTheStoreEndsALock) {
  round(0ms, {lock("a", 1, 0ms, 100ms)});
  EXPECT_EQ(model.snapshot(at(60s)).locks.size(), 1U) << "it may have been renewed since";
  round(60s, {lock("a", 1, 0ms, 60'100ms)});
  EXPECT_EQ(events(61s), Texts{});
  model.set_lock("a", std::nullopt, answered_at(61s));
  EXPECT_EQ(events(62s), Texts{"lock_expired a"});
}

TEST_F(ViewModel, TheClockOfTheEngineIsLearnedFromWhatContradictsOurs) {
  // Granted in an hour, by our clock: the engine's is at least that far ahead.
  round(0ms, {lock("a", 1, 3600s, 3630s)});
  EXPECT_EQ(model.snapshot(at(10s)).engine_time, midnight + 3610s);
  // Held, though it expired an hour ago by our clock.
  StoreModel behind("redis");
  behind.begin_round(at(0ms).boot);
  behind.add_locks(std::vector{lock("a", 1, -3630s, -3600s)}, answered_at(0ms));
  EXPECT_EQ(behind.snapshot(at(10s)).engine_time, midnight - 3590s);
}

/// Other software writes records too, and so did a master whose clock was ahead.
TEST_F(ViewModel, ARecordWithAStrangeTimeHidesNoOtherLock) {
  constexpr milliseconds beyond_doubles{9'007'199'254'740'991};
  const auto strange = [](WallTime acquired, WallTime expires) {
    auto row = lock("strange", 1, 0ms, 0ms);
    row.acquired_at = acquired;
    row.expires_at = expires;
    return row;
  };
  for (const auto& row :
       {strange(midnight + 30s, midnight + 60s), strange(midnight + 24h, midnight + 48h),
        strange(midnight, WallTime::max()), strange(WallTime(beyond_doubles), WallTime::max()),
        strange(WallTime::max(), WallTime::max()), strange(WallTime::min(), midnight + 30s),
        strange(midnight + 24h, midnight + 10s), strange(WallTime::max(), WallTime::min())}) {
    model = StoreModel("redis");
    const std::vector all{lock("a", 1, -10s, 5s), lock("b", 1, -10s, 20s), row};
    for (const auto when : {0ms, 500ms, 1000ms}) {
      round(when, all);
      const auto snapshot = model.snapshot(at(when + 100ms));
      EXPECT_EQ(snapshot.locks.size(), 3U) << row.acquired_at.time_since_epoch().count();
      EXPECT_EQ(snapshot.engine_time, midnight + when + 100ms) << row.acquired_at.time_since_epoch().count();
    }
    EXPECT_EQ(model.take_overdue(at(1100ms), 10).size(), row.expires_at < midnight ? 1U : 0U);
    EXPECT_EQ(events(1100ms), Texts{});
  }
}

TEST_F(ViewModel, TasksHaveTheHolderOfTheirLockAsWorker) {
  auto held = lock("lock of t", 4, 0ms, 30s);
  round(0ms, {held}, {task("t", TaskStatus::working), task("u", TaskStatus::working)});
  const auto snapshot = model.snapshot(at(1ms));
  EXPECT_EQ(snapshot.tasks[0]->worker, "alice@web-3:812 make");
  EXPECT_TRUE(snapshot.tasks[0]->has_worker);
  EXPECT_FALSE(snapshot.tasks[1]->has_worker);
  round(500ms, {}, {task("t", TaskStatus::working), task("u", TaskStatus::working)});
  EXPECT_FALSE(model.snapshot(at(501ms)).tasks[0]->has_worker);
}

TEST_F(ViewModel, ChangesOfTasksAreEvents) {
  round(0ms, {}, {task("t", TaskStatus::working), task("u", TaskStatus::working)});
  auto further = task("t", TaskStatus::working);
  further.progress = 0.5;
  round(500ms, {}, {further, task("u", TaskStatus::input_required)});
  model.set_task("alice", "t", task("t", TaskStatus::completed), answered_at(600ms));
  model.set_task("alice", "u", std::nullopt, answered_at(600ms));
  model.set_task("alice", "v", task("v", TaskStatus::working), answered_at(700ms));
  EXPECT_EQ(events(700ms), (Texts{"task_changed u", "task_ended t", "task_removed u", "task_created v"}));
}

TEST_F(ViewModel, TasksOfAnOwnerWhoCannotBeReadStay) {
  round(0ms, {}, {task("t", TaskStatus::working)});
  model.begin_round(at(500ms).boot);
  model.end_locks(at(500ms));
  model.keep_tasks_of("alice", at(500ms).boot);
  model.add_unreadable_tasks(1);
  model.end_tasks(at(500ms));
  const auto snapshot = model.snapshot(at(501ms));
  EXPECT_EQ(snapshot.tasks.size(), 1U);
  EXPECT_EQ(snapshot.tasks_unreadable, 1U);
}

TEST_F(ViewModel, QueuesThatARoundDidNotFindAreGone) {
  round(0ms, {});
  EXPECT_FALSE(model.snapshot(at(1ms)).queues_known());
  model.set_queue("render", QueueRow{.name = "render", .ready = 2}, answered_at(2ms));
  model.set_queue("mail", QueueRow{.name = "mail", .ready = 1}, answered_at(2ms));
  model.end_queues(3);
  const auto first = model.snapshot(at(10ms));
  ASSERT_TRUE(first.queues_known());
  EXPECT_EQ(first.queues_age(at(10ms).boot), 10ms);
  ASSERT_EQ(first.queues.size(), 2U);
  EXPECT_EQ(first.queues[0]->name, "mail");
  EXPECT_EQ(first.queue_count(), 5U);

  round(1s, {});
  model.set_queue("render", QueueRow{.name = "render", .ready = 2}, answered_at(1001ms));
  model.end_queues(0);
  const auto second = model.snapshot(at(1002ms));
  ASSERT_EQ(second.queues.size(), 1U);
  EXPECT_EQ(second.queues[0], first.queues[1]) << "the same object: it did not change";
  model.set_queue("render", std::nullopt, answered_at(1003ms));
  EXPECT_TRUE(model.snapshot(at(1004ms)).queues.empty());
}

TEST_F(ViewModel, WhatIsBeyondTheLimitsIsCounted) {
  model = StoreModel("memory", {.locks = 2, .tasks = 1, .events = 3});
  round(0ms, {lock("a", 1, 0ms, 30s), lock("b", 1, 0ms, 30s), lock("c", 1, 0ms, 30s)},
        {task("t", TaskStatus::working), task("u", TaskStatus::failed)});
  const auto snapshot = model.snapshot(at(1ms));
  EXPECT_EQ(snapshot.locks.size(), 2U);
  EXPECT_EQ(snapshot.lock_count(), 3U);
  EXPECT_EQ(snapshot.task_count(), 2U);
  EXPECT_EQ(snapshot.tasks_by_status, (std::array<std::size_t, 5>{1, 0, 0, 1, 0}));
  round(500ms, {lock("d", 1, 0ms, 30s), lock("e", 1, 0ms, 30s)});
  EXPECT_EQ(model.snapshot(at(501ms)).events->size(), 3U);
  round(900ms, {lock("d", 1, 0ms, 30s)});
  EXPECT_EQ(model.snapshot(at(901ms)).lock_count(), 1U);
}

TEST_F(ViewModel, WhatIsBeyondTheLimitsIsNeitherCountedTwiceNorNew) {
  model = StoreModel("memory", {.locks = 2, .tasks = 1, .events = 9});
  auto old_task = task("u", TaskStatus::failed);
  old_task.created_at = midnight - 60s;
  const std::vector locks{lock("a", 1, 0ms, 30s), lock("b", 1, 0ms, 30s), lock("c", 1, 0ms, 30s)};
  round(0ms, locks, {task("t", TaskStatus::working), old_task});
  model.begin_round(at(500ms).boot);
  model.set_lock("c", lock("c", 1, 0ms, 40s), answered_at(510ms));
  model.set_task("alice", "u", old_task, answered_at(510ms));
  model.add_locks(locks, answered_at(520ms));
  model.end_locks(at(520ms));
  model.add_tasks(std::vector{task("t", TaskStatus::working), old_task}, answered_at(530ms));
  model.end_tasks(at(530ms));
  EXPECT_EQ(model.snapshot(at(540ms)).lock_count(), 3U);
  EXPECT_EQ(model.snapshot(at(540ms)).task_count(), 2U);
  EXPECT_EQ(events(540ms), Texts{});

  // There is room for them now.
  model.set_lock("a", std::nullopt, answered_at(600ms));
  model.set_lock("c", lock("c", 1, 0ms, 40s), answered_at(610ms));
  model.set_task("alice", "t", std::nullopt, answered_at(600ms));
  model.set_task("alice", "u", old_task, answered_at(610ms));
  EXPECT_EQ(events(620ms), (Texts{"lock_released a", "task_removed t"}));
  model.set_lock("b", std::nullopt, answered_at(700ms));
  model.set_lock("d", lock("d", 1, 690ms, 40s), answered_at(710ms));
  EXPECT_EQ(events(720ms).back(), "lock_granted d");
}

TEST_F(ViewModel, TasksThatMayNotBeReadAreUnknown) {
  round(0ms, {}, {task("t", TaskStatus::working)});
  model.begin_round(at(500ms).boot);
  model.end_locks(at(500ms));
  model.refuse_tasks();
  model.end_tasks(at(510ms));
  EXPECT_TRUE(model.snapshot(at(511ms)).tasks_refused);
  EXPECT_TRUE(model.snapshot(at(511ms)).whole);
  EXPECT_EQ(model.snapshot(at(511ms)).task_count(), 0U);
  round(900ms, {}, {task("t", TaskStatus::working)});
  EXPECT_FALSE(model.snapshot(at(901ms)).tasks_refused);
  EXPECT_EQ(model.snapshot(at(901ms)).task_count(), 1U);
  EXPECT_EQ(events(902ms), Texts{}) << "nothing has happened to the task";
}

TEST_F(ViewModel, AStoreThatIsUnreachableAndComesBackSaysSoOnce) {
  round(0ms, {lock("a", 1, 0ms, 30s)});
  model.set_reachable(at(1ms));
  model.set_unreachable(ErrorCode::ServiceUnavailable, "connection refused", at(100ms));
  model.set_unreachable(ErrorCode::NetworkTimeout, "timed out", at(200ms));
  const auto down = model.snapshot(at(300ms));
  EXPECT_EQ(down.reachability, Reachability::down);
  EXPECT_EQ(down.error, "timed out");
  EXPECT_EQ(down.error_code, ErrorCode::NetworkTimeout);
  EXPECT_EQ(down.down_since, at(100ms).boot);
  EXPECT_EQ(down.locks.size(), 1U);
  model.set_reachable(at(400ms));
  EXPECT_EQ(model.snapshot(at(401ms)).error, "");
  EXPECT_EQ(events(401ms), (Texts{"store_unreachable ", "store_reachable "}));
}

}  // namespace
}  // namespace holdfast::view
