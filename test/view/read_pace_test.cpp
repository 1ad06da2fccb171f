#include "view/read_pace.hpp"

#include <gtest/gtest.h>

#include <map>

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
  /// Reads one round of so many lock pages, no tasks and no queues, of a store whose changes are not heard.
  void round(int pages, BootClock::duration work) {
    for (int left = pages;;) {
      const auto reading = next();
      const bool is_lock_page = reading.what == What::lock_page;
      if (is_lock_page) --left;
      const bool is_probe = reading.what == What::probe;
      const auto completed = answer(reading, is_probe ? 0ns : work, is_lock_page && left > 0 ? "more" : "");
      if (completed == Completed::queues) return;
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

TEST_F(Pace, QueuesAreFoundAfterTheTasksAndCountedOneByOne) {
  auto reading = next();
  while (reading.what != What::queues) {
    static_cast<void>(answer(reading, 0ns));
    reading = next();
  }
  EXPECT_EQ(answer(reading, 0ns, "more", {"render"}), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.cursor, "more");
  EXPECT_EQ(answer(reading, 0ns, "", {"mail", "render"}), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.what, What::queue);
  EXPECT_EQ(reading.key, "mail");
  EXPECT_EQ(answer(reading, 0ns), Completed::nothing);
  reading = next();
  EXPECT_EQ(reading.key, "render");
  EXPECT_EQ(answer(reading, 0ns), Completed::queues);
}

TEST_F(Pace, KnownQueuesAreCountedOnceASecondWithoutFindingThemAgain) {
  pace.set_heard(true, true);
  int found = 0;
  std::map<std::string, int> counted;
  for (const auto end = now + 60s; now < end;) {
    const auto reading = next();
    if (reading.what == What::queues) ++found;
    if (reading.what == What::queue) ++counted[reading.key];
    static_cast<void>(
        answer(reading, 10us, "",
               reading.what == What::queues ? std::vector<std::string>{"mail"} : std::vector<std::string>{}));
    if (found == 1) pace.know_queue("new");  // heard
  }
  EXPECT_LE(found, 2) << "a new one is heard";
  EXPECT_GE(counted["mail"], 30);
  EXPECT_LE(counted["mail"], 62);
  EXPECT_GE(counted["new"], 5) << "until it is not found";
  EXPECT_EQ(counted.size(), 2U);
}

TEST_F(Pace, ManyQueuesUseAQuarterOfTheBudgetAndAreLimited) {
  pace.set_heard(true, true);
  std::vector<std::string> names;
  for (int i = 0; i < 1500; ++i) names.push_back("queue " + std::to_string(i));
  BootClock::duration for_queues = {};
  std::set<std::string> counted;
  const auto begin = now;
  while (now < begin + 1000s) {
    const auto reading = next();
    const bool is_count = reading.what == What::queue;
    static_cast<void>(answer(reading, is_count ? 100us : 10us, "",
                             reading.what == What::queues ? names : std::vector<std::string>{}));
    if (is_count) for_queues += 100us;
    if (is_count) counted.insert(reading.key);
  }
  EXPECT_EQ(counted.size(), ReadPace::Options().max_queues);
  // The first time is paid by the share of first rounds.
  EXPECT_LE(for_queues, (now - begin) / 200 + 100ms);
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

TEST_F(Pace, ARoundThatTakesMinutesIsNotAFirstOne) {
  round(1000, 1ms);
  for (int i = 0; i < 3; ++i) {
    const auto begin = now;
    round(1000, 1ms);
    EXPECT_GE(now - begin, 90s);
  }
}

TEST_F(Pace, AnAnswerThatCameLateIsNotTheStoresTime) {
  round(1, 100us);
  auto reading = next();
  while (reading.what != What::lock_page) {
    static_cast<void>(answer(reading, 0ns));
    reading = next();
  }
  static_cast<void>(answer(reading, 10s));
  static_cast<void>(answer(next(), 10s));  // the owners
  EXPECT_LE(pace.next_at(now) - now, 7s);
}

TEST_F(Pace, ABusyMachineDoesNotMakeTheStoreLookBusy) {
  // Every other answer comes late: this process, or the server, waited for a processor.
  const auto rounds_in_a_minute = [&](BootClock::duration late) {
    int rounds = 0;
    int readings = 0;
    for (const auto end = now + 60s; now < end;) {
      const auto reading = next();
      const bool is_late = ++readings % 2 != 0;
      const bool is_page = reading.what == What::lock_page;
      if (reading.begins_round) ++rounds;
      static_cast<void>(answer(reading, (is_page ? 500us : 10us) + (is_late && is_page ? late : 0ns),
                               is_page && rounds % 10 != 0 && readings % 10 != 0 ? "more" : ""));
    }
    return rounds;
  };
  pace.set_heard(true, true);
  static_cast<void>(rounds_in_a_minute(0ns));
  const auto undisturbed = rounds_in_a_minute(0ns);
  EXPECT_GE(rounds_in_a_minute(15ms) * 3, undisturbed * 2);
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
  EXPECT_EQ(reading.what, What::locks);
  EXPECT_EQ(reading.keys, std::vector<std::string>{"a"});
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
    if (reading.what == What::locks) ++hints;
    static_cast<void>(answer(reading, 1us));
  }
  EXPECT_GE(hints, 1900);
  EXPECT_LE(hints, 2300);
}

TEST_F(Pace, AHeardGrantIsReadAtOnceAlthoughTheRoundsHaveOverdrawnTheBudget) {
  pace.set_heard(true, true);
  round(1, 100us);
  pace.hint_anything();
  auto reading = next();
  while (reading.what != What::owners) {
    static_cast<void>(answer(reading, 10us));
    reading = next();
  }
  static_cast<void>(answer(reading, 20ms, "more"));  // what may be used at once
  static_cast<void>(answer(next(), 20ms, "more"));   // two seconds of the budget
  EXPECT_GE(pace.next_at(now), now + 1s);
  for (int i = 0; i < 300; ++i) pace.hint_grant("key " + std::to_string(i));
  EXPECT_EQ(pace.next_at(now), now);
  reading = next();
  EXPECT_EQ(reading.what, What::locks);
  EXPECT_EQ(reading.keys.size(), ReadPace::hints_at_once);
  EXPECT_EQ(reading.keys.front(), "key 0");
  // However late the answer comes, so many locks cost no more than this.
  static_cast<void>(answer(reading, 1s));
  EXPECT_LE(pace.next_at(now), now + 2s + 100ms);
}

TEST_F(Pace, AFloodOfGrantsUsesNoMoreThanTheBudgetAndLeavesMostOfItToTheRounds) {
  pace.set_heard(true, true);
  way = 100us;
  round(10, 500us);
  worked = {};
  BootClock::duration for_hints = {};
  int name = 0, rounds = 0;
  std::size_t read = 0;
  const auto begin = now;
  while (now < begin + 100s) {
    for (int i = 0; i < 50; ++i) pace.hint_grant("key " + std::to_string(++name));
    const auto reading = next();
    const bool is_hint = reading.what == What::locks;
    BootClock::duration work = reading.what == What::probe ? 0us : 500us;
    if (is_hint) work = 20us + 5us * reading.keys.size();
    if (is_hint) for_hints += work;
    if (is_hint) read += reading.keys.size();
    if (reading.begins_round) ++rounds;
    static_cast<void>(
        answer(reading, work, reading.what == What::lock_page && rounds % 2 != 0 ? "more" : ""));
    now += 1ms;
  }
  EXPECT_LE(worked, (now - begin) / 100 + 30ms);
  EXPECT_LE(for_hints, (now - begin) / 400 + 10ms);
  EXPECT_GE(read, 20'000U) << "200 in a second";
  EXPECT_GE(worked - for_hints, (now - begin) / 200);
}

TEST_F(Pace, TooManyGrantsBecomeARoundThatFindsThemWithoutReadingAll) {
  pace.set_heard(true, true);
  round(1, 10us);
  now += 200ms;
  for (std::size_t i = 0; i <= ReadPace::max_hints; ++i) pace.hint_grant("key " + std::to_string(i));
  auto reading = next();
  while (reading.what == What::locks || reading.what == What::probe) {
    static_cast<void>(answer(reading, 10us));
    reading = next();
  }
  EXPECT_TRUE(reading.begins_round);
  EXPECT_FALSE(reading.all_locks);
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
  std::map<std::string, int> read;
  for (int i = 0; i < 1000; ++i) read["lock " + std::to_string(i)] = 0;
  for (const auto end = now + 60s; now < end;) {
    const auto reading = next();
    const auto completed = answer(reading, 10us);
    if (reading.begins_round) ++all;
    if (reading.begins_round && reading.all_locks) ++with_all_locks;
    for (auto& [key, times] : read) {
      if (reading.begins_round && !reading.all_locks && reading.due.contains(key)) ++times;
    }
    if (completed == Completed::tasks) ++with_tasks;
  }
  EXPECT_GE(all, 110);
  EXPECT_GE(with_tasks, 5);
  EXPECT_LE(with_tasks, 7);
  EXPECT_EQ(with_all_locks, 1) << "no round reads many locks that are known";
  for (const auto& [key, times] : read) {
    EXPECT_GE(times, 5) << key;
    EXPECT_LE(times, 7) << key;
  }
  // Changes may have been missed.
  pace.hint_anything();
  auto completed = Completed::nothing;
  for (int i = 0; i < 6 && completed != Completed::tasks; ++i) completed = answer(next(), 10us);
  EXPECT_EQ(completed, Completed::tasks);
}

TEST_F(Pace, HeardTasksThatAreDearToFindUseAQuarterOfTheBudget) {
  pace.set_heard(true, true);
  BootClock::duration for_tasks = {};
  const auto begin = now;
  while (now < begin + 1000s) {
    const auto reading = next();
    const bool finds_tasks = reading.what == What::owners;
    static_cast<void>(answer(reading, finds_tasks ? 20ms : 100us));
    if (finds_tasks) for_tasks += 20ms;
  }
  EXPECT_LE(for_tasks, (now - begin) / 400 + 2 * 20ms);
}

TEST_F(Pace, ReadingKnownLocksAgainLeavesHalfOfTheBudgetForFindingNewOnes) {
  // Ten thousand of them: to find all costs 6 ms, to read all of them 60 ms more.
  pace.set_heard(true, true);
  BootTime round_began = now;
  BootClock::duration longest = {};
  bool warm = false;
  for (const auto end = now + 300s; now < end;) {
    const auto reading = next();
    BootClock::duration work = 10us;
    if (reading.what == What::lock_page) {
      const auto part = reading.all_locks ? 1.0 : static_cast<double>(reading.due.size) / 0x1p32;
      work = 6ms + std::chrono::duration_cast<BootClock::duration>(60ms * part);
      if (warm) longest = std::max(longest, now - round_began);
      warm = now > end - 270s;
      round_began = now;
    }
    static_cast<void>(
        answer(reading, reading.what == What::probe ? 0ns : std::min<BootClock::duration>(work, 20ms)));
  }
  EXPECT_LE(longest, 2s);
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
