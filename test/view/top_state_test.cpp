#include <gtest/gtest.h>

#include "view/top_fixture.hpp"

namespace holdfast::cli::top {
namespace {

using namespace std::chrono_literals;
using Name = Key::Name;

class TopState : public testing::Test {
 protected:
  TopState() {
    shown.add_lock("backup", "carol@db-1:3 cron", 9, 50s, 60s, 4);
    shown.add_lock("deploy", "alice@web-3:812 make", 7, 24s, 30s);
    shown.add_lock("nightly", "", 1, 5s, 600s);
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& row : shown.rows().locks) all.push_back(row->key);
    return all;
  }
  using Keys = std::vector<std::string>;
  Shown shown;
};

TEST_F(TopState, RowsAreSortedByTheColumnsInTurn) {
  EXPECT_EQ(keys(), (Keys{"backup", "deploy", "nightly"}));
  shown.type("s");
  EXPECT_EQ(keys(), (Keys{"nightly", "deploy", "backup"}));  // none, alice, carol
  shown.type("s");
  EXPECT_EQ(keys(), (Keys{"nightly", "deploy", "backup"}));  // the lease that ends first
  shown.type("ss");
  EXPECT_EQ(shown.state.lock_sort, LockSort::waiters);
  EXPECT_EQ(keys().front(), "backup");
  shown.type("r");
  EXPECT_EQ(keys().back(), "backup");
  shown.type("ss");
  EXPECT_EQ(shown.state.lock_sort, LockSort::key);
  EXPECT_EQ(keys(), (Keys{"nightly", "deploy", "backup"}));
}

TEST_F(TopState, AFilterKeepsRowsThatContainIt) {
  shown.type("/WEB");
  EXPECT_EQ(keys(), Keys{"deploy"});
  shown.press({.name = Name::backspace});
  shown.press({.name = Name::kill_line});
  EXPECT_EQ(keys().size(), 3U);
  shown.type("night");
  shown.press({.name = Name::enter});
  EXPECT_EQ(shown.state.mode, Mode::table);
  EXPECT_EQ(keys(), Keys{"nightly"});
  shown.press({.name = Name::escape});
  EXPECT_EQ(keys().size(), 3U);
}

TEST_F(TopState, TheSelectedRowStaysSelectedWhenOthersComeAndGo) {
  shown.press({.name = Name::down});
  EXPECT_EQ(shown.state.position().id, "deploy");
  shown.snapshot.locks.erase(shown.snapshot.locks.begin());
  shown.text();
  EXPECT_EQ(shown.state.position().selected, 0U);
  EXPECT_EQ(shown.state.position().id, "deploy");
  shown.snapshot.locks.erase(shown.snapshot.locks.begin());
  shown.text();
  EXPECT_EQ(shown.state.position().id, "nightly");
  shown.snapshot.locks.clear();
  shown.text();
  EXPECT_EQ(shown.state.position().id, "");
}

TEST_F(TopState, MovingStopsAtTheEndsAndScrolls) {
  for (int i = 0; i < 100; ++i) shown.add_lock("row " + std::to_string(100 + i), "", 1, 5s, 10s);
  shown.press({.name = Name::up});
  EXPECT_EQ(shown.state.position().selected, 0U);
  shown.press({.name = Name::end});
  EXPECT_EQ(shown.state.position().selected, 102U);
  EXPECT_EQ(shown.state.position().first, 83U);
  shown.press({.name = Name::page_up});
  EXPECT_EQ(shown.state.position().selected, 82U);
  shown.press({.name = Name::home});
  EXPECT_EQ(shown.state.position().first, 0U);
  shown.press({.name = Name::page_down});
  EXPECT_EQ(shown.state.position().selected, 20U);
}

TEST_F(TopState, BreakingNeedsAReasonAndIsAboutTheGrantThatWasShown) {
  shown.press({.name = Name::down});
  shown.type("b");
  EXPECT_EQ(shown.state.mode, Mode::reason);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(shown.press({.name = Name::enter})));
  EXPECT_EQ(shown.state.mode, Mode::reason);
  // A grant since then is not the one that the user looked at.
  auto later = *shown.snapshot.locks[1];
  later.fence = Fence::of(8).value_or_throw();
  shown.snapshot.locks[1] = std::make_shared<view::LockRow>(later);
  shown.type("q is down");
  const auto action = shown.press({.name = Name::enter});
  const auto* wanted = std::get_if<BreakLock>(&action);
  ASSERT_NE(wanted, nullptr);
  EXPECT_EQ(wanted->lock.key, "deploy");
  EXPECT_EQ(wanted->lock.fence, Fence::of(7).value_or_throw());
  EXPECT_EQ(wanted->reason, "q is down");
  EXPECT_EQ(shown.state.mode, Mode::table);
}

TEST_F(TopState, EscapeBreaksNothing) {
  shown.type("breason");
  const auto action = shown.press({.name = Name::escape});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(action));
  EXPECT_EQ(shown.state.message, "nothing was changed");
}

TEST_F(TopState, OnlyYCancelsATask) {
  shown.add_task("alice", "t-1", "report", TaskStatus::working).incarnation = "i-1";
  shown.add_task("alice", "t-2", "report", TaskStatus::failed);
  shown.type("2c");
  EXPECT_EQ(shown.state.mode, Mode::confirm);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(shown.press({.name = Name::enter})));
  EXPECT_EQ(shown.state.message, "nothing was changed");
  const auto action = shown.type("cy");
  const auto* wanted = std::get_if<CancelTask>(&action);
  ASSERT_NE(wanted, nullptr);
  EXPECT_EQ(wanted->task, (TaskTarget{.owner = "alice", .id = "t-1", .incarnation = "i-1"}));
  shown.press({.name = Name::end});
  shown.type("c");
  EXPECT_EQ(shown.state.mode, Mode::table);
  EXPECT_EQ(shown.state.message, "the task is already failed");
}

TEST_F(TopState, DetailsEndWithTheirRow) {
  shown.press({.name = Name::enter});
  EXPECT_EQ(shown.state.mode, Mode::details);
  shown.snapshot.locks.erase(shown.snapshot.locks.begin());
  shown.text();
  EXPECT_EQ(shown.state.mode, Mode::table);
  EXPECT_EQ(shown.state.message, "the lock is free");
}

TEST_F(TopState, QuitsButNotWhileTextIsTyped) {
  EXPECT_TRUE(std::holds_alternative<std::monostate>(shown.type("/q")));
  EXPECT_EQ(shown.state.filter, "q");
  shown.press({.name = Name::escape});
  EXPECT_TRUE(std::holds_alternative<Quit>(shown.type("q")));
}

TEST_F(TopState, NewEventsComeToTheTopUnlessOneIsSelected) {
  shown.add_event(view::EventKind::lock_granted);
  shown.type("3");
  shown.add_event(view::EventKind::lock_released);
  shown.text();
  EXPECT_EQ(shown.state.position().id, "2");
  shown.press({.name = Name::down});
  shown.add_event(view::EventKind::lock_released);
  shown.text();
  EXPECT_EQ(shown.state.position().id, "1");
  EXPECT_EQ(shown.state.position().selected, 2U);
}

}  // namespace
}  // namespace holdfast::cli::top
