#include <gtest/gtest.h>

#include "core/wall_time.hpp"
#include "tasks/list_loop.hpp"

namespace holdfast::tasks {
namespace {

const WallTime bound = core::from_ms(1000);

const ListRecords& request_of(const ListLoop::Action& action) {
  return std::get<ListRecords>(action);
}

/// A record that cannot be parsed as a task still has a place.
ListedRecord record_at(std::int64_t ms) {
  StoredRecord stored;
  stored.data = "{}";
  return {.key = RecordKey::of("alice", "t" + std::to_string(ms)).value_or_throw(),
          .record = stored,
          .created_at = core::from_ms(ms)};
}

TEST(TaskListLoop, NewestFirstItBeginsBehindAllThatAreTooYoung) {
  ListLoop loop("alice", "alice", {.limit = 10}, bound);
  const auto action = loop.start();
  const auto& request = request_of(action);
  EXPECT_EQ(request.order, ListOrder::newest_first);
  ASSERT_TRUE(request.after);
  EXPECT_EQ(request.after->created_at, bound);
  EXPECT_EQ(request.after->task, "");
  EXPECT_EQ(request.limit, 10U) << "nothing is read that is not shown";
}

TEST(TaskListLoop, OldestFirstItEndsAtTheFirstThatIsTooYoung) {
  ListLoop loop("alice", "alice", {.limit = 10, .oldest_first = true}, bound);
  const auto action = loop.start();
  EXPECT_EQ(request_of(action).order, ListOrder::oldest_first);
  EXPECT_FALSE(request_of(action).after);
  RecordPage page;
  page.records = {record_at(999), record_at(1000), record_at(1001)};
  page.next = ListPosition{.created_at = core::from_ms(1001), .task = "t1001"};
  const auto finished = std::get<ListLoop::Finished>(loop.resume(page));
  ASSERT_TRUE(finished.result);
  EXPECT_EQ(finished.result->unreadable.size(), 1U) << "only that of 999 was looked at";
  EXPECT_TRUE(finished.result->cursor.empty()) << "all that follow are younger";
}

TEST(TaskListLoop, ACursorGoesOnWhereItsPageEndedWhateverTheAge) {
  const auto cursor = cursor_at({.created_at = core::from_ms(500), .task = "x"}, "alice").value_or_throw();
  ListLoop loop("alice", "alice", {.cursor = cursor}, bound);
  const auto action = loop.start();
  EXPECT_EQ(request_of(action).after->created_at, core::from_ms(500));
}

}  // namespace
}  // namespace holdfast::tasks
