#include "view/read_pace.hpp"

#include <gtest/gtest.h>

namespace holdfast::view {
namespace {

using namespace std::chrono_literals;
using What = Reading::What;

/// A store that answers after the way there and back and the time that it works.
class Pace : public testing::Test {
 protected:
  Pace() { pace.set_viewers(1, now); }

  /// Goes on to the next reading; what it is.
  Reading next() {
    const auto at = pace.next_at(now);
    EXPECT_NE(at, never);
    now = std::max(now, at);
    return pace.next(now);
  }
  Completed answer(const Reading& reading, BootClock::duration work, std::string cursor = {},
                   std::vector<std::string> owners = {}) {
    now += way + work;
    worked += work;
    return pace.finished(reading,
                         {.took = way + work, .cursor = std::move(cursor), .owners = std::move(owners)}, now);
  }
  Completed fail(const Reading& reading) {
    return pace.finished(reading, {.answered = false, .took = 1s}, now);
  }
  /// Reads one round of so many lock pages and no tasks.
  void round(int pages, BootClock::duration work) {
    for (int left = pages;;) {
      const auto reading = next();
      const bool is_lock_page = reading.what == What::lock_page;
      if (is_lock_page) --left;
      const bool is_probe = reading.what == What::probe;
      const auto completed = answer(reading, is_probe ? 0ns : work, is_lock_page && left > 0 ? "more" : "");
      if (completed == Completed::tasks) return;
    }
  }

  BootTime now{1000s};
  BootClock::duration way = 1ms;
  BootClock::duration worked = {};
  ReadPace pace{{}, now};
};

TEST_F(Pace, ARoundReadsAllLocksThenTheTasksOfAllOwners) {
  EXPECT_EQ(next().what, What::probe);
  auto reading = next();
  EXPECT_EQ(reading.what, What::lock_page);
  EXPECT_TRUE(reading.begins_round);
  EXPECT_EQ(answer(reading, 0ns, "next"), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.cursor, "next");
  EXPECT_FALSE(reading.begins_round);
  EXPECT_EQ(answer(reading, 0ns), Completed::locks);
  reading = next();
  EXPECT_EQ(reading.what, What::owners);
  EXPECT_EQ(answer(reading, 0ns, "more owners", {"alice", "bob"}), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.owner, "alice");
  EXPECT_EQ(answer(reading, 0ns, "more tasks"), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.owner, "alice");
  EXPECT_EQ(reading.cursor, "more tasks");
  EXPECT_EQ(answer(reading, 0ns), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.owner, "bob");
  EXPECT_EQ(answer(reading, 0ns), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.what, What::owners);
  EXPECT_EQ(reading.cursor, "more owners");
  EXPECT_EQ(answer(reading, 0ns), Completed::tasks);
}

TEST_F(Pace, ASmallStoreIsReadTwiceASecond) {
  const auto begin = now;
  for (int i = 0; i < 20; ++i) round(1, 100us);
  EXPECT_GE(now - begin, 9s);
  EXPECT_LE(now - begin, 11s);
}

TEST_F(Pace, TenThousandKeysAreReadWithinASecond) {
  round(10, 500us);
  const auto begin = now;
  for (int i = 0; i < 10; ++i) round(10, 500us);
  EXPECT_LE(now - begin, 10s);
}

TEST_F(Pace, OneHundredthOfTheServersTimeIsUsedHoweverMuchThereIs) {
  round(100, 2ms);
  const auto begin = now;
  worked = {};
  for (int i = 0; i < 10; ++i) round(100, 2ms);
  EXPECT_LE(worked, (now - begin) / 100 + 20ms);
  EXPECT_GE(worked, (now - begin) / 120);
}

TEST_F(Pace, TheWayToTheStoreIsNotItsTime) {
  way = 50ms;
  round(10, 100us);
  const auto begin = now;
  round(10, 100us);
  EXPECT_LE(now - begin, 13 * 51ms + 500ms);
}

TEST_F(Pace, ALargeStoreIsReadFasterTheFirstTime) {
  const auto begin = now;
  round(1000, 1ms);
  const auto first = now - begin;
  round(1000, 1ms);
  EXPECT_LT(first * 5, now - begin - first);
}

TEST_F(Pace, NothingIsReadWithoutViewers) {
  round(1, 1ms);
  pace.set_viewers(0, now);
  pace.hint_lock("a");
  pace.hint_anything();
  EXPECT_EQ(pace.next_at(now), never);
  now += 10s;
  pace.set_viewers(2, now);
  EXPECT_EQ(pace.next_at(now), now);
}

TEST_F(Pace, HintsComeFirstAndOnlyOnce) {
  static_cast<void>(answer(next(), 0ns));  // the probe
  auto page = next();
  static_cast<void>(answer(page, 0ns, "more"));
  pace.hint_lock("a");
  pace.hint_lock("a");
  pace.hint_task("alice", "t");
  auto reading = next();
  EXPECT_EQ(reading.what, What::lock);
  EXPECT_EQ(reading.key, "a");
  static_cast<void>(answer(reading, 0ns));
  reading = next();
  EXPECT_EQ(reading.what, What::task);
  EXPECT_EQ(reading.owner, "alice");
  EXPECT_EQ(reading.key, "t");
  static_cast<void>(answer(reading, 0ns));
  reading = next();
  EXPECT_EQ(reading.what, What::lock_page);
  EXPECT_EQ(reading.cursor, "more");
}

TEST_F(Pace, HintsPerSecondAreBounded) {
  way = 1us;
  const auto end = now + 10s;
  int hints = 0;
  for (int i = 0; now < end; ++i) {
    pace.hint_lock("key " + std::to_string(i));
    const auto reading = next();
    if (reading.what == What::lock) ++hints;
    static_cast<void>(answer(reading, 1us));
  }
  EXPECT_GE(hints, 1900);
  EXPECT_LE(hints, 2300);
}

TEST_F(Pace, TooManyHintsBecomeARound) {
  round(1, 1ms);
  now += 200ms;
  for (std::size_t i = 0; i <= ReadPace::max_hints; ++i) pace.hint_lock("key " + std::to_string(i));
  EXPECT_EQ(pace.next_at(now), now);
}

TEST_F(Pace, WhatIsKnownAndWouldBeHeardIsReadLessOften) {
  pace.set_heard(true, true);
  int with_tasks = 0, all = 0;
  int with_all_locks = 0;
  for (const auto end = now + 60s; now < end;) {
    const auto reading = next();
    const auto completed = answer(reading, 10us);
    if (reading.begins_round) ++all;
    if (reading.begins_round && reading.all_locks) ++with_all_locks;
    if (completed == Completed::tasks) ++with_tasks;
  }
  EXPECT_GE(all, 110);
  EXPECT_GE(with_tasks, 5);
  EXPECT_LE(with_tasks, 7);
  EXPECT_GE(with_all_locks, 5);
  EXPECT_LE(with_all_locks, 7);
  // Changes may have been missed.
  pace.hint_anything();
  auto completed = Completed::nothing;
  for (int i = 0; i < 4 && completed != Completed::tasks; ++i) completed = answer(next(), 10us);
  EXPECT_EQ(completed, Completed::tasks);
}

TEST_F(Pace, HeardTasksThatAreDearToFindUseAQuarterOfTheBudget) {
  pace.set_heard(true, true);
  BootClock::duration for_tasks = {};
  const auto begin = now;
  while (now < begin + 1000s) {
    const auto reading = next();
    const bool finds_tasks = reading.what == What::owners;
    static_cast<void>(answer(reading, finds_tasks ? 400ms : 100us));
    if (finds_tasks) for_tasks += 400ms;
  }
  EXPECT_LE(for_tasks, (now - begin) / 400 + 2 * 400ms);
}

TEST_F(Pace, AnUrgentRoundDoesNotWaitForItsTurn) {
  round(1, 1us);
  EXPECT_GT(pace.next_at(now), now + 300ms);
  pace.hint_anything();
  EXPECT_LT(pace.next_at(now), now + 150ms);
}

TEST_F(Pace, AStoreThatDoesNotAnswerIsAskedLessAndLess) {
  round(1, 1ms);
  auto before = now;
  for (const auto pause : {250ms, 500ms, 1000ms, 2000ms, 4000ms, 5000ms, 5000ms}) {
    static_cast<void>(fail(next()));
    EXPECT_EQ(pace.next_at(now) - now, pause);
    before = now;
  }
  EXPECT_GT(now, before - 1s);
  // The round begins again, and the next failure is a first one.
  auto reading = next();
  while (reading.what == What::probe) {
    static_cast<void>(answer(reading, 0ns));
    reading = next();
  }
  EXPECT_TRUE(reading.begins_round);
  static_cast<void>(answer(reading, 0ns, "more"));
  static_cast<void>(fail(next()));
  EXPECT_EQ(pace.next_at(now) - now, 250ms);
}

}  // namespace
}  // namespace holdfast::view
