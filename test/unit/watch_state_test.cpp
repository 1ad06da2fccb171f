#include <gtest/gtest.h>

#include "tasks/watched_tasks.hpp"

namespace holdfast::tasks {
namespace {

Task task(const std::string& id, std::uint64_t version) {
  Task made;
  made.id = id;
  made.version = version;
  made.incarnation = "i";
  return made;
}

/// A state that has listed these tasks and returned them.
WatchState listed(std::initializer_list<std::string> ids) {
  WatchState state;
  state.begin_listing();
  for (const auto& id : ids) state.listed(task(id, 1));
  state.end_listing();
  (void)state.take_changes();
  return state;
}

TEST(WatchState, TheFirstListReturnsAllTasks) {
  WatchState state;
  EXPECT_TRUE(state.must_list());
  state.begin_listing();
  state.listed(task("a", 1));
  state.listed(task("b", 4));
  state.end_listing();
  EXPECT_FALSE(state.must_list());
  const auto changes = state.take_changes();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[1].id, "b");
  EXPECT_EQ(changes[1].task->version, 4U);
  EXPECT_FALSE(state.has_changes());
}

TEST(WatchState, AReportIsOneReadHoweverOftenItComes) {
  auto state = listed({"a"});
  state.report("a");
  state.report("a");
  EXPECT_EQ(state.next_to_read(), "a");
  state.read("a", task("a", 2));
  EXPECT_FALSE(state.next_to_read());
  EXPECT_EQ(state.take_changes().size(), 1U);
}

TEST(WatchState, AStateThatIsKnownIsNoChange) {
  auto state = listed({"a"});
  state.report("a");
  state.read("a", task("a", 1));
  EXPECT_FALSE(state.has_changes());
}

TEST(WatchState, ChangesThatWereNotTakenAreMergedIntoTheLast) {
  auto state = listed({"a"});
  state.read("a", task("a", 2));
  state.read("a", task("a", 3));
  const auto changes = state.take_changes();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].task->version, 3U);
}

TEST(WatchState, AClaimIsAChangeAndARenewalIsNot) {
  auto state = listed({"a"});
  auto claimed = task("a", 1);
  QueueState place;
  place.place = QueuePlace::leased;
  place.attempts = 1;
  claimed.queue = std::make_shared<const QueueState>(place);
  state.read("a", claimed);
  EXPECT_EQ(state.take_changes().size(), 1U);
  place.lease_expires_at += std::chrono::seconds(1);
  claimed.queue = std::make_shared<const QueueState>(place);
  state.read("a", claimed);
  EXPECT_FALSE(state.has_changes());
}

TEST(WatchState, WhatAListDoesNotShowIsGone) {
  auto state = listed({"a", "b"});
  state.report_all();
  state.begin_listing();
  state.listed(task("b", 1));
  state.end_listing();
  const auto changes = state.take_changes();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].id, "a");
  EXPECT_FALSE(changes[0].task);
}

TEST(WatchState, AListThatWasNotFinishedRemovesNothingAndIsMadeAgain) {
  auto state = listed({"a", "b"});
  state.report_all();
  state.begin_listing();
  state.listed(task("b", 2));
  EXPECT_TRUE(state.must_list());
  const auto changes = state.take_changes();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].id, "b");
}

TEST(WatchState, ATaskThatWasNeverReturnedDoesNotGo) {
  auto state = listed({});
  state.report("x");
  state.read("x", std::nullopt);
  EXPECT_FALSE(state.has_changes());
}

TEST(WatchState, ManyReportsBecomeAList) {
  auto state = listed({});
  for (int i = 0; i < 200; ++i) state.report(std::to_string(i));
  EXPECT_TRUE(state.must_list());
  EXPECT_FALSE(state.next_to_read());
}

}  // namespace
}  // namespace holdfast::tasks
