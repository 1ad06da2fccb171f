// The fence counters of tasks' own locks: they end some time after the task, and none repeats a fence.

#include <gtest/gtest.h>

#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

class RedisCounterEnd : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    locks.emplace(server->unix_socket(), "p");
  }

  /// The fence of a grant that is released at once.
  std::int64_t grant(std::optional<CounterLifetime> counter = {}, std::chrono::milliseconds lease = 60s) {
    const auto id = LockId::generate();
    const auto granted = locks->acquire(id, "k", lease, counter);
    if (!granted || locks->release(id, "k")) throw std::runtime_error("not granted");
    return static_cast<std::int64_t>(granted->fence.value());
  }
  std::int64_t ends_at() { return locks->raw.integer({"PEXPIRETIME", "p:fence:p:k"}); }
  std::int64_t counter() { return locks->raw.integer({"GET", "p:fence:p:k"}); }
  void set_counter(std::int64_t value) { locks->raw.text({"SET", "p:fence:p:k", std::to_string(value)}); }

  static constexpr std::int64_t day_ms = 24LL * 60 * 60 * 1000;
  static constexpr std::int64_t epoch_s = 1'735'689'600;  // 2025-01-01T00:00:00Z

  std::optional<RedisServer> server;
  std::optional<RedisLocks> locks;
};

TEST_F(RedisCounterEnd, APlainGrantNeitherSetsNorRemovesIt) {
  EXPECT_EQ(grant(), 1);
  EXPECT_EQ(ends_at(), -1) << "forever";
  const auto until = locks->raw.now_ms() + 10 * day_ms;
  const auto fence = grant(CounterLifetime{.until = from_ms(until)});
  const auto end = ends_at();
  EXPECT_GT(end, until);
  EXPECT_EQ(grant(), fence + 1);
  EXPECT_EQ(ends_at(), end);
}

TEST_F(RedisCounterEnd, ComesADayAfterWhatTheLockBelongsToAndAfterTheLease) {
  const auto now = locks->raw.now_ms() + 1000;
  locks->freeze(now);
  grant(CounterLifetime{.until = from_ms(now + 3'600'000)});
  EXPECT_EQ(ends_at(), now + 3'600'000 + day_ms);
  grant(CounterLifetime{.until = from_ms(now + 7'200'000)});
  EXPECT_EQ(ends_at(), now + 7'200'000 + day_ms) << "each grant sets it anew";
  grant(CounterLifetime{.until = from_ms(now + 3'600'000)}, std::chrono::hours(48));
  EXPECT_EQ(ends_at(), now + 3 * day_ms) << "a lease may be longer than the task";
  grant(CounterLifetime{.until = from_ms(now - 5 * day_ms)}, 60s);
  EXPECT_EQ(ends_at(), now + 60'000 + day_ms);
  grant(CounterLifetime{});
  EXPECT_EQ(ends_at(), -1) << "a task that does not end";
  grant(CounterLifetime{.until = from_ms(now + 3'600'000)});
  EXPECT_EQ(ends_at(), now + 3'600'000 + day_ms);
}

TEST_F(RedisCounterEnd, AfterItTheCounterGoesOnAboveAllItEverGranted) {
  auto now = locks->raw.now_ms() + 1000;
  std::int64_t highest = 0;
  // A counter from before there were ends; one that plain grants have taken far ahead of the clock; and so on
  // from one end to the next.
  const std::int64_t far_ahead = (now / 1000 - epoch_s) + 40'000'000;
  for (const auto start : std::vector<std::int64_t>{0, 57, far_ahead, 0, 0}) {
    locks->freeze(now);
    if (start > 0) set_counter(start);
    for (int i = 0; i < 5; ++i) {
      const auto fence = grant(CounterLifetime{.until = from_ms(now + 1000)});
      EXPECT_GT(fence, highest) << start;
      highest = fence;
    }
    EXPECT_LT(highest, 1'000'000'000);
    const auto end = ends_at();
    EXPECT_GE(end, (highest + epoch_s) * 1000 + day_ms) << "the clock is a day ahead by then";
    EXPECT_LE(end, std::max(now + 62'000, (highest + epoch_s) * 1000) + day_ms) << "not forever either";
    locks->raw.integer({"DEL", "p:fence:p:k"});  // what the server does then
    now = end;
  }
}

TEST_F(RedisCounterEnd, ACounterThatOtherSoftwareBeganAgainIsBroughtForward) {
  const auto before = locks->raw.now_ms();
  const auto first = grant(CounterLifetime{.until = from_ms(before)});
  EXPECT_GE(first, before / 1000 - epoch_s) << "from the clock";
  locks->raw.integer({"DEL", "p:fence:p:k"});
  EXPECT_EQ(grant(), 1) << "as SyncGuard and earlier builds count";
  locks->freeze(locks->raw.now_ms() + 2000);
  EXPECT_GT(grant(CounterLifetime{.until = from_ms(locks->raw.now_ms())}), first);
}

TEST_F(RedisCounterEnd, ACounterThatGrantsNothingIsNotMended) {
  const CounterLifetime some{.until = from_ms(locks->raw.now_ms() + day_ms)};
  for (const std::int64_t bad : {std::int64_t{-5}, static_cast<std::int64_t>(Fence::max_issued)}) {
    set_counter(bad);
    EXPECT_EQ(locks->try_acquire(LockId::generate(), "k", 60s, some).error().code(), ErrorCode::Internal);
    EXPECT_FALSE(locks->try_is_locked("k").value_or_throw());
    EXPECT_EQ(ends_at(), -1);
  }
  EXPECT_GE(counter(), static_cast<std::int64_t>(Fence::max_issued));
}

}  // namespace
}  // namespace holdfast::test
