// How many wait for a lock: the same on every engine, but for what it counts.

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>

#include "support/calls.hpp"
#include "support/engines.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

class WaitersOfALock : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    first = world->open();
    second = world->open();
  }
  /// Where answers get lost, a subscription may be confirmed late.
  [[nodiscard]] bool become(const WaiterCounts& expected) const {
    return eventually([&] { return count_waiters(*first, {key("a"), key("b")}) == expected; });
  }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> first, second;
};

TEST_P(WaitersOfALock, AreCountedByKeyFromAllClients) {
  EXPECT_EQ(count_waiters(*first, {key("a"), key("b")}), (WaiterCounts{0, 0}));
  const auto one = watch_of(*first, key("a"));
  EXPECT_TRUE(become({1, 0}));
  const auto other = watch_of(*second, key("b"));
  const auto two = watch_of(*second, key("a"));
  EXPECT_TRUE(become({2, 1}));
  EXPECT_TRUE(eventually(
      [&] { return count_waiters(*second, {key("b"), key("a"), key("b")}) == WaiterCounts{1, 2, 1}; }));
}

TEST_P(WaitersOfALock, OfTooManyKeysAreRefusedAndOfNoneAreNone) {
  EXPECT_EQ(count_waiters(*first, {}), WaiterCounts());
  const std::vector<LockKey> many(max_list_limit + 1, key("a"));
  try {
    (void)Locks(first).count_waiters(many);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(Locks(first).count_waiters(std::span(many).first(max_list_limit)).size(), max_list_limit);
}

/// One of each kind: a subscription that is not used any more stays for a second.
class WaitersThatLeave : public WaitersOfALock {};

TEST_P(WaitersThatLeave, AreNotCountedAnyMore) {
  auto one = watch_of(*first, key("a")), two = watch_of(*second, key("a"));
  const auto other = watch_of(*second, key("b"));
  EXPECT_TRUE(become({2, 1}));
  one.reset();
  EXPECT_TRUE(become({1, 1}));
  two.reset();
  EXPECT_TRUE(become({0, 1}));
}

INSTANTIATE_TEST_SUITE_P(Engines, WaitersThatLeave,
                         testing::ValuesIn(lock_engines({"memory", "sqlite", "redis_tcp"})),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Engines, WaitersOfALock, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
