// Feeds of changes: a change by any client reaches them, as a hint that may say less than it could.

#include <gtest/gtest.h>

#include <future>
#include <holdfast/locks.hpp>
#include <set>

#include "contract/storage_contract.hpp"
#include "runtime/await.hpp"
#include "support/calls.hpp"
#include "support/engines.hpp"

namespace holdfast::test {
namespace {

using Kind = Change::Kind;

/// Whether the feed reports, in time, this change or that anything may have changed.
bool reports(ChangeFeed& feed, const Change& expected, bool exactly) {
  const BootTime deadline = BootClock::now() + 10s;
  while (BootClock::now() < deadline) {
    for (const auto& change : feed.next(deadline)) {
      if (change == expected || (!exactly && change.kind == Kind::anything)) return true;
    }
  }
  return false;
}

/// A server tells which key changed; the others do not.
template <class Engine>
bool knows_keys(const Engine& engine) {
  return engine.name.starts_with("redis") && !engine.asks_again;
}

/// Sharded channels have no pattern that would hear all of them: a viewer of such a cluster polls.
template <class Engine>
std::vector<Engine> without_sharded_channels(std::vector<Engine> engines) {
  std::erase_if(engines, [](const Engine& engine) { return engine.name == "redis_cluster_native"; });
  return engines;
}
template <class Engine>
std::vector<Engine> with_sharded_channels(std::vector<Engine> engines) {
  std::erase_if(engines, [](const Engine& engine) { return engine.name != "redis_cluster_native"; });
  return engines;
}

class LockFeeds : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    mine = world->open();
    theirs = world->open();
    feed = Locks(mine).follow();
    ASSERT_TRUE(feed);
  }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> mine, theirs;
  std::unique_ptr<ChangeFeed> feed;
};

TEST_P(LockFeeds, ReportTheReleasesOfOthers) {
  const auto id = LockId::generate();
  ASSERT_TRUE(acquire(*theirs, id, "orders:42"));
  release(*theirs, id, "orders:42");
  EXPECT_TRUE(reports(*feed, {.kind = Kind::changed, .key = "orders:42"}, knows_keys(GetParam())));
}

TEST_P(LockFeeds, ReportABrokenLockAndWaitWithoutAThread) {
  ASSERT_TRUE(acquire(*theirs, LockId::generate(), "k"));
  std::promise<std::vector<Change>> heard;
  feed->wait(BootClock::now() + 10s, {},
             [&heard](Result<std::vector<Change>> changes) { heard.set_value(*std::move(changes)); });
  EXPECT_TRUE(Locks(theirs).break_lock("k", "a test"));
  const auto changes = heard.get_future().get();
  ASSERT_FALSE(changes.empty());
  if (knows_keys(GetParam())) {
    EXPECT_EQ(changes, (std::vector<Change>{{.kind = Kind::broken, .key = "k"}}));
  }
}

TEST_P(LockFeeds, EndAWaitAtItsDeadlineAndByAStopRequest) {
  // What a disturbed connection may have missed comes first.
  while (!feed->next(BootClock::now() + 20ms).empty() && GetParam().asks_again) {
  }
  EXPECT_TRUE(GetParam().asks_again || feed->next(BootClock::now() + 5ms).empty());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(GetParam().asks_again || feed->next(never, stop.get_token()).empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, LockFeeds, testing::ValuesIn(without_sharded_channels(lock_engines())),
                         [](const auto& instance) { return instance.param.name; });

class RecordFeeds : public StorageContract {
 protected:
  [[nodiscard]] std::unique_ptr<ChangeFeed> follow() const {
    return runtime::await(*mine, FollowRecords{}).value_or_throw();
  }
};

TEST_P(RecordFeeds, ReportTheChangesOfOthersAndTheWritesThatCameTooLate) {
  const auto feed = follow();
  ASSERT_TRUE(feed);
  create(*theirs, "o:t");
  const bool exactly = knows_keys(GetParam());
  EXPECT_TRUE(reports(*feed, {.kind = Kind::changed, .key = "o:t"}, exactly));
  const auto put_with = [&](std::uint64_t fence) {
    return outcome(*theirs,
                   PutRecord{.key = record_key("o:t"), .data = record_data("{}"), .fence = token(fence)});
  };
  ASSERT_TRUE(std::holds_alternative<Written>(put_with(5)));
  EXPECT_TRUE(reports(*feed, {.kind = Kind::changed, .key = "o:t"}, exactly));
  ASSERT_NE(refused_with(ErrorCode::StaleFence, put_with(3)), nullptr);
  if (!exactly) return;
  EXPECT_TRUE(reports(*feed,
                      {.kind = Kind::stale_write,
                       .key = "o:t",
                       .refused = Fence::of(3).value_or_throw(),
                       .highest = Fence::of(5).value_or_throw()},
                      true));
}

TEST_P(RecordFeeds, ForgetNothingBetweenTwoWaits) {
  const auto feed = follow();
  ASSERT_TRUE(feed);
  for (int i = 0; i < 3; ++i) {
    create(*theirs, "o:t" + std::to_string(i));
    EXPECT_TRUE(
        reports(*feed, {.kind = Kind::changed, .key = "o:t" + std::to_string(i)}, knows_keys(GetParam())));
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, RecordFeeds, testing::ValuesIn(without_sharded_channels(storage_engines())),
                         engine_name);

class NoFeeds : public StorageContract {};

TEST_P(NoFeeds, WhereChannelsAreSharded) {
  EXPECT_FALSE(runtime::await(*mine, FollowRecords{}).value_or_throw());
}

INSTANTIATE_TEST_SUITE_P(Engines, NoFeeds, testing::ValuesIn(with_sharded_channels(storage_engines())),
                         engine_name);

/// A listing for views: every held lock at least once, whatever the order.
class ListingAsFound : public testing::TestWithParam<LockEngine> {};

TEST_P(ListingAsFound, ListsEveryHeldLock) {
  if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
  const auto world = GetParam().make_world();
  const auto backend = world->open();
  std::set<std::string> expected, found;
  for (int i = 0; i < 30; ++i) {
    expected.insert("k" + std::to_string(i));
    ASSERT_TRUE(acquire(*backend, LockId::generate(), "k" + std::to_string(i)));
  }
  std::string cursor;
  int pages = 0;
  do {
    const auto page = Locks(backend).list_raw({.cursor = cursor, .limit = 10, .order = LockOrder::as_found});
    for (const auto& lock : page.locks) found.insert(lock.key.str());
    cursor = page.cursor;
  } while (!cursor.empty() && ++pages < 1000);
  EXPECT_EQ(found, expected);
  EXPECT_GT(pages, 1);
  const auto refused = list(*backend, {.cursor = "\xFF", .limit = 1, .order = LockOrder::as_found});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
}

/// A connection that breaks begins the scan anew; one that breaks again and again never ends it.
std::vector<LockEngine> with_lasting_connections(std::vector<LockEngine> engines) {
  std::erase_if(engines, [](const LockEngine& engine) { return engine.asks_again; });
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, ListingAsFound, testing::ValuesIn(with_lasting_connections(lock_engines())),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
