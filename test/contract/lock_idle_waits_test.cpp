// Watches without a thread: begin_watch and begin_wait keep the contract of watch and wait.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "support/begun_wait.hpp"
#include "support/calls.hpp"
#include "support/engines.hpp"
#include "support/eventually.hpp"
#include "support/in_child.hpp"

namespace holdfast::test {
namespace {

class LockIdleWaits : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    mine = world->open();
    theirs = world->open();
  }

  /// Waits again where an engine may wake for nothing, until it ends in this way.
  template <class Begin>
  static bool ends(bool woken, Begin&& begin) {
    for (;;) {
      const auto end = begin().end();
      if (end == woken) return true;
      if (!end || !GetParam().asks_again) return false;
    }
  }

  /// Somebody has the lock and frees it.
  static void hold_and_release(LockBackend& client, std::string_view name) {
    const auto own = LockId::generate();
    const bool held = acquire(client, own, name).has_value();
    const auto absence = release(client, own, std::string(name));
    ASSERT_EQ(held, !absence);
  }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> mine;
  std::shared_ptr<LockBackend> theirs;
  const LockId id = LockId::generate();
};

TEST_P(LockIdleWaits, AReleaseBeforeTheWaitIsNotMissed) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  const auto watch = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(watch);
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_EQ(BegunWait(*watch).end(), true);
}

TEST_P(LockIdleWaits, AReleaseWakesOneThatWaits) {
  for (const auto& [holder, waiter] : {std::pair(mine, theirs), std::pair(theirs, mine)}) {
    const auto own = LockId::generate();
    ASSERT_TRUE(acquire(*holder, own, "k"));
    const auto watch = begun_watch(*waiter, key("k"));
    ASSERT_TRUE(watch);
    const BegunWait wait(*watch);
    std::this_thread::sleep_for(20ms);
    if (!GetParam().asks_again) {
      EXPECT_EQ(wait.ended(), std::nullopt);
    }
    ASSERT_EQ(release(*holder, own, "k"), std::nullopt);
    EXPECT_EQ(wait.end(), true);
  }
}

TEST_P(LockIdleWaits, AReleaseWakesExactlyTheFirstAndEachPassesItOnToTheNext) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<BegunWait> waits;
  for (int i = 0; i < 3; ++i) {
    watches.push_back(begun_watch(*theirs, key("k")));
    ASSERT_TRUE(watches.back());
    waits.emplace_back(*watches.back());
  }
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(waits[i].end(), true) << i;
    if (!GetParam().asks_again) {
      std::this_thread::sleep_for(20ms);
      for (std::size_t later = i + 1; later < 3; ++later) EXPECT_EQ(waits[later].ended(), std::nullopt);
    }
    watches[i]->pass_on();
    watches[i].reset();
  }
}

TEST_P(LockIdleWaits, AWakeUpThatCameForNobodyWhoWaitsGoesToTheNext) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  auto first = begun_watch(*theirs, key("k"));
  const auto second = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(first && second);
  const BegunWait wait(*second);
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  first.reset();
  EXPECT_EQ(wait.end(), true);
}

TEST_P(LockIdleWaits, TheFirstLooksAgainAtItsTimeAndEveryoneEndsAtItsDeadline) {
  const auto first = begun_watch(*theirs, key("k"));
  const auto second = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(first && second);
  std::stop_source enough;
  const BegunWait waiting(*first, never, never, enough.get_token());
  const BootTime before = BootClock::now();
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*second, before + 20ms, before + 40ms); }));
  EXPECT_GE(BootClock::now() - before, 20ms);
  if (!GetParam().asks_again) {
    EXPECT_EQ(waiting.ended(), std::nullopt);
  }

  const auto alone = begun_watch(*theirs, key("other"));
  ASSERT_TRUE(alone);
  const BootTime later = BootClock::now();
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*alone, later + 30ms, later + 60s); }));
  EXPECT_GE(BootClock::now() - later, 30ms);
  EXPECT_LT(BootClock::now() - later, 50s);

  // What is past ends at once.
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*alone, later, never); }));
  enough.request_stop();
  EXPECT_TRUE(waiting.end());
}

TEST_P(LockIdleWaits, OneThatWantsToLookSoonerThanTheFirstDoesSo) {
  const auto first = begun_watch(*theirs, key("k"));
  const auto second = begun_watch(*theirs, key("k"));
  const auto third = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(first && second && third);
  std::stop_source enough;
  const BootTime before = BootClock::now();
  const BegunWait unhurried(*first, before + 60s, never, enough.get_token());
  const BegunWait patient(*second, never, never, enough.get_token());
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*third, before + 20ms, never); }));
  EXPECT_GE(BootClock::now() - before, 20ms);
  // The next that is in a hurry need not have come last.
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*third, before + 60s, before + 40ms); }));
  enough.request_stop();
  EXPECT_TRUE(unhurried.end() && patient.end());
}

TEST_P(LockIdleWaits, AStopRequestEndsAWaitBeforeAndWhileItLasts) {
  const auto watch = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(watch);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  EXPECT_TRUE(ends(false, [&] { return BegunWait(*watch, never, never, stop.get_token()); }));
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(BegunWait(*watch, never, never, stop.get_token()).end(), false);
  const auto stopped = begun_watch(*theirs, key("another"), never, stop.get_token());
  EXPECT_TRUE(stopped) << "it still serves to sleep";
}

TEST_P(LockIdleWaits, TheWatchCanGoInItsCompletion) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  auto watch = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(watch);
  Watch& waited_for = *watch;
  const BegunWait wait(waited_for, never, never, {}, [&](bool) { watch.reset(); });
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_EQ(wait.end(), true);
  EXPECT_EQ(watch, nullptr);
}

TEST_P(LockIdleWaits, ThreadsAndIdleWaitersOfAKeyAreAllServed) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  std::atomic<bool> watching = false, woken = false;
  std::jthread sleeper([&] {
    const auto watch = watch_of(*theirs, key("k"));
    watching = true;
    woken = wait_until(*watch, BootClock::now() + 20s, {});
    watch->pass_on();
  });
  ASSERT_TRUE(eventually([&] { return watching.load(); }));
  auto watch = begun_watch(*theirs, key("k"));
  ASSERT_TRUE(watch);
  // Ends, and with it hands on, as a waiter does that gets the lock and frees it.
  const BegunWait wait(*watch, never, never, {}, [&](bool) { watch->pass_on(); });
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_EQ(wait.end(), true);
  sleeper.join();
  EXPECT_TRUE(woken);
}

INSTANTIATE_TEST_SUITE_P(Engines, LockIdleWaits, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

/// On one of each kind of engine that wakes only for a reason: there it can be counted.
class ManyIdleWaits : public LockIdleWaits {
 public:
  static std::vector<LockEngine> undisturbed() {
    auto all = lock_engines();
    std::erase_if(all, [](const LockEngine& engine) {
      return engine.asks_again || engine.name == "redis_unix" || engine.name == "redis_tls";
    });
    return all;
  }

 protected:
  static constexpr int many = 2000;
};

TEST_P(ManyIdleWaits, WaitersOfAKeyAreWokenInTurnInTheOrderTheyCame) {
  const int count = GetParam().name == "memory" ? many : 500;  // each turn is a round trip or two
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<BegunWait> waits;
  std::vector<int> order;
  std::atomic<int> woken = 0;
  for (int i = 0; i < count; ++i) {
    watches.push_back(begun_watch(*mine, key("k")));
    ASSERT_TRUE(watches.back());
    Watch& watch = *watches.back();
    waits.emplace_back(watch, BootClock::now() + 60s, never, std::stop_token(), [&, i](bool by_release) {
      watches[static_cast<std::size_t>(i)].reset();
      if (by_release) order.push_back(i);
      ++woken;
    });
  }
  for (int i = 0; i < count; ++i) {
    hold_and_release(*theirs, "k");
    ASSERT_EQ(waits[static_cast<std::size_t>(i)].end(), true) << i;
    ASSERT_EQ(woken, i + 1);
  }
  std::vector<int> expected(static_cast<std::size_t>(count));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_P(ManyIdleWaits, TwoThousandWaitersOfDifferentKeysAreEachWokenByTheirOwn) {
  std::vector<std::unique_ptr<Watch>> watches(many);
  std::atomic<int> watching = 0;
  const auto name = [](std::size_t i) { return "key " + std::to_string(i); };
  for (std::size_t i = 0; i < many; ++i) {
    begin_watch(*mine, key(name(i)), never, {}, [&, i](Result<std::unique_ptr<Watch>> watch) {
      watches[i] = std::move(watch).value_or_throw();
      ++watching;
    });
  }
  ASSERT_TRUE(eventually([&] { return watching == many; }));
  std::vector<BegunWait> waits;
  for (const auto& watch : watches) waits.emplace_back(*watch);
  for (std::size_t i = 0; i < many; ++i) hold_and_release(*theirs, name(i));
  for (std::size_t i = 0; i < many; ++i) ASSERT_EQ(waits[i].end(), true) << i;
}

TEST_P(ManyIdleWaits, AWakeUpIsNeverLostToOneThatIsStoppedOrTimedOutAtTheSameMoment) {
  for (int round = 0; round < 200; ++round) {
    auto first = begun_watch(*mine, key("k"));
    const auto second = begun_watch(*mine, key("k"));
    ASSERT_TRUE(first && second);
    std::stop_source stop;
    const auto times_out = round % 2 == 0;
    const BootTime until = times_out ? BootClock::now() + 300us : never;
    const BegunWait leaves(*first, until, until, stop.get_token(), [&](bool woken) {
      if (woken) first->pass_on();
    });
    const BegunWait stays(*second);
    std::jthread stopper([&] {
      if (!times_out) stop.request_stop();
    });
    hold_and_release(*theirs, "k");
    ASSERT_TRUE(leaves.end()) << round;
    first.reset();
    ASSERT_EQ(stays.end(), true) << round;
  }
}

TEST_P(ManyIdleWaits, AForkedChildWaitsForNothingAndDisturbsNobody) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  auto watch = begun_watch(*mine, key("k"));
  auto unused = begun_watch(*mine, key("k"));
  ASSERT_TRUE(watch && unused);
  const BegunWait wait(*watch);
  EXPECT_TRUE(in_child([&] {
    const bool nothing = BegunWait(*unused).ended() == false;
    unused.reset();
    theirs.reset();
    mine.reset();
    return nothing;
  }));
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_EQ(wait.end(), true);
}

INSTANTIATE_TEST_SUITE_P(Engines, ManyIdleWaits, testing::ValuesIn(ManyIdleWaits::undisturbed()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
