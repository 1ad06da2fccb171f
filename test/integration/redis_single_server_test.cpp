// What a server without cluster allows: operations by the lock id alone in one round trip. And prefixes so
// long that index keys end in a hash, as with SyncGuard.

#include <gtest/gtest.h>

#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using redis::Reach;
using redis::Release;

class RedisSingleServer : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }
  /// Scripts run since the last call.
  std::int64_t scripts() {
    auto raw = server->raw();
    const auto stats = raw.text({"INFO", "commandstats"});
    const auto at = stats.find("cmdstat_evalsha:calls=");
    raw.text({"CONFIG", "RESETSTAT"});
    return at == std::string::npos ? 0 : std::stoll(stats.substr(at + 22));
  }

  std::optional<RedisServer> server;
  const LockId id = LockId::generate();
};

TEST_F(RedisSingleServer, OperationsByTheIdAloneTakeOneRoundTrip) {
  const auto backend = make_redis_lock_backend(server->tcp()).value_or_throw();
  const auto first = LockId::generate();
  ASSERT_TRUE(acquire(*backend, first, "k"));  // the server learns the scripts
  EXPECT_TRUE(std::holds_alternative<Extended>(extend(*backend, first, std::nullopt, 90s)));
  EXPECT_TRUE(lookup(*backend, first));
  EXPECT_FALSE(release(*backend, first));
  ASSERT_TRUE(acquire(*backend, id, "k"));
  std::ignore = scripts();
  EXPECT_TRUE(std::holds_alternative<Extended>(extend(*backend, id, std::nullopt, 90s)));
  EXPECT_EQ(scripts(), 1);
  EXPECT_TRUE(lookup(*backend, id));
  EXPECT_EQ(scripts(), 1);
  EXPECT_FALSE(release(*backend, id));
  EXPECT_EQ(scripts(), 1);
  EXPECT_EQ(release(*backend, id), Absence::not_found);
  EXPECT_EQ(scripts(), 1);
}

TEST_F(RedisSingleServer, ALockUnderAPrefixWhoseIndexesAreHashedIsFoundByItsId) {
  for (const std::size_t size : {948U, 949U, 951U}) {
    for (const auto reach : {Reach::one_slot, Reach::every_key}) {
      SCOPED_TRACE(size);
      const auto prefix = std::string(size, 'p');
      RedisLocks locks(server->unix_socket(), prefix, RedisLayout::documented, reach);
      const auto holder = LockId::generate(), next = LockId::generate();
      ASSERT_TRUE(locks.acquire(holder, "k"));
      EXPECT_FALSE(locks.acquire(next, "k"));
      EXPECT_EQ(locks.raw.text({"GET", locks.index_key(holder)}), locks.lock_key("k"));
      EXPECT_TRUE(std::holds_alternative<Extended>(locks.try_extend(holder).value_or_throw()));
      EXPECT_TRUE(locks.try_lookup(holder).value_or_throw());
      // Its TTL was lost, and its time is over: another owner gets it.
      auto record = locks.raw.text({"GET", locks.lock_key("k")});
      record.replace(record.find("\"expiresAtMs\":") + 14, 13, "1000000000000");
      locks.raw.text({"SET", locks.lock_key("k"), record});
      ASSERT_TRUE(locks.acquire(next, "k"));
      EXPECT_EQ(locks.release(holder), size > 948 ? Absence::other_owner : Absence::not_found)
          << "its index goes with its lock if its name is known";
      EXPECT_FALSE(locks.release(next)) << "released";
      // As SyncGuard 1.0 leaves it: the index is the user key.
      ASSERT_TRUE(locks.acquire(next, "k"));
      locks.raw.text({"SET", locks.index_key(next), "k"});
      EXPECT_TRUE(locks.try_lookup(next).value_or_throw());
      EXPECT_FALSE(locks.release(next)) << "released";
    }
  }
}

TEST_F(RedisSingleServer, ACleanupUnderSuchAPrefixDeletesTheLock) {
  RedisLocks locks(server->unix_socket(), std::string(951, 'p'));
  ASSERT_TRUE(locks.acquire(id, "k"));
  auto record = locks.raw.text({"GET", locks.lock_key("k")});
  record.replace(record.find("\"expiresAtMs\":") + 14, 13, "1000000000000");
  locks.raw.text({"SET", locks.lock_key("k"), record});
  EXPECT_EQ(locks.cleanup("k"), 1);
}

TEST_F(RedisSingleServer, UnderALongerPrefixNoLockCanBeAcquiredAndItIsAnswered) {
  for (const auto layout : {RedisLayout::documented, RedisLayout::native}) {
    auto where = server->tcp();
    where.lock_prefix = std::string(960, layout == RedisLayout::native ? 'n' : 'd');
    where.layout = layout;
    const auto backend = make_redis_lock_backend(where).value_or_throw();
    const auto refused = try_acquire(*backend, id, "k");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
    const auto released = try_release(*backend, {.lock = {.id = id, .key = {}}});
    ASSERT_FALSE(released);
    EXPECT_EQ(released.error().code(), ErrorCode::InvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast::test
