// The native layout under guards, claims, rights and the doctor.

#include <gtest/gtest.h>

#include <holdfast/doctor.hpp>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>

#include "support/acl_user.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using redis::Release;

class RedisNativeStore : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace(RedisServer::Options{.persistent = true, .config = {"appendfsync always"}});
    options = server->unix_socket();
    options.lock_prefix = "p";
    options.task_prefix = "t";
    options.layout = RedisLayout::native;
  }

  static const Finding* about(const std::vector<Finding>& findings, std::string_view topic) {
    const auto found = std::ranges::find(findings, topic, &Finding::topic);
    return found == findings.end() ? nullptr : &*found;
  }

  std::optional<RedisServer> server;
  RedisOptions options;
};

TEST_F(RedisNativeStore, AUserWithThePrintedRightsIsRefusedNothing) {
  const auto as_user = acl_user(*server, options);
  const auto backend = make_redis_lock_backend(as_user).value_or_throw();
  const auto id = LockId::generate();
  ASSERT_TRUE(acquire(*backend, id, "k"));
  EXPECT_FALSE(acquire(*backend, LockId::generate(), "k"));
  EXPECT_TRUE(lookup(*backend, id));
  EXPECT_EQ(list(*backend)->locks.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Extended>(extend(*backend, id, std::nullopt, 90s)));
  EXPECT_TRUE(watch_of(*backend, key("k")));
  EXPECT_FALSE(release(*backend, id));
  const auto doubtful = LockId::generate();
  const auto unknown = try_release(
      *backend,
      {.lock = {.id = doubtful, .key = key("k")}, .asked_before = true, .acquire_may_be_repeated = true});
  EXPECT_EQ(unknown.error().code(), ErrorCode::NetworkTimeout)
      << "the evidence was read, and decides nothing";
  EXPECT_FALSE(try_acquire(*backend, doubtful, "k"));
  const auto broken = LockId::generate();
  ASSERT_TRUE(acquire(*backend, broken, "k"));
  EXPECT_TRUE(try_release(*backend, {.lock = {.id = broken, .key = key("k")}, .broken_because = "test"}));
  const AcquireRequest of_a_task{.id = LockId::generate(),
                                 .key = key("task"),
                                 .ttl = ttl(60s),
                                 .counter_lifetime = CounterLifetime{.until = from_ms(1)}};
  EXPECT_TRUE(try_acquire(*backend, of_a_task));
  EXPECT_EQ(acl_refusals(*server), "");
  const auto findings = examine_redis(as_user).value_or_throw();
  ASSERT_NE(about(findings, "rights"), nullptr);
  EXPECT_EQ(about(findings, "rights")->severity, Severity::ok) << about(findings, "rights")->found;
}

TEST_F(RedisNativeStore, TheDoctorFindsItHealthyAndCountsItsCounters) {
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  for (const auto* name : {"a", "b", "c"}) {
    const auto id = LockId::generate();
    ASSERT_TRUE(acquire(*backend, id, name));
  }
  const auto findings = examine_redis(options).value_or_throw();
  for (const auto& finding : findings) EXPECT_EQ(finding.severity, Severity::ok) << finding.found;
  ASSERT_NE(about(findings, "layout"), nullptr);
  EXPECT_NE(about(findings, "fences")->found.find('3'), std::string::npos)
      << about(findings, "fences")->found;
  RedisLocks raw(options, "p", RedisLayout::native);
  EXPECT_EQ(raw.page("", 10).locks.size(), 3U) << "the doctor left nothing behind";
}

TEST_F(RedisNativeStore, TheDoctorReportsAPrefixThatIsUsedWithTheOtherLayout) {
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  auto other = options;
  other.layout = RedisLayout::documented;
  auto findings = examine_redis(other).value_or_throw();
  ASSERT_NE(about(findings, "layout"), nullptr);
  EXPECT_EQ(about(findings, "layout")->severity, Severity::problem);
  EXPECT_NE(about(findings, "layout")->found.find("layout=native"), std::string::npos);
  // A prefix around it sees the marker too.
  other.lock_prefix = "p:inner";
  findings = examine_redis(other).value_or_throw();
  ASSERT_NE(about(findings, "prefixes"), nullptr);
  EXPECT_EQ(about(findings, "prefixes")->severity, Severity::warning) << about(findings, "prefixes")->found;
}

TEST_F(RedisNativeStore, AKeyThatSyncGuardHasCountedIsNotGranted) {
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  auto raw = server->raw();
  // As a SyncGuard process leaves it that has released its lock: the counter alone.
  raw.text({"SET", "p:fence:p:k", "7"});
  const auto refused = try_acquire(*backend, LockId::generate(), "k");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_NE(refused.error().message().find("SyncGuard"), std::string::npos) << refused.error().message();
  EXPECT_EQ(raw.integer({"EXISTS", "p:k"}), 0) << "nothing was created";
  EXPECT_TRUE(acquire(*backend, LockId::generate(), "other"));
  // A key that is there already is not asked for again.
  raw.text({"SET", "p:fence:p:other", "7"});
  EXPECT_FALSE(acquire(*backend, LockId::generate(), "other")) << "held";
  const auto findings = examine_redis(options).value_or_throw();
  ASSERT_NE(about(findings, "layout"), nullptr);
  EXPECT_EQ(about(findings, "layout")->severity, Severity::problem);
  EXPECT_NE(about(findings, "layout")->found.find("2 fence counters"), std::string::npos)
      << about(findings, "layout")->found;
}

TEST_F(RedisNativeStore, AReleaseThatKnowsTheKeyLeavesNoHint) {
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  const auto id = LockId::generate();
  ASSERT_TRUE(acquire(*backend, id, "k"));
  auto raw = server->raw();
  EXPECT_EQ(raw.text({"GET", "p:id:" + std::string(id.str())}), "p:k");
  ASSERT_TRUE(try_release(*backend, {.lock = {.id = id, .key = key("k")}}));
  EXPECT_NE(raw.text({"GET", "p:id:" + std::string(id.str())}), "p:k") << "dropped";
}

TEST_F(RedisNativeStore, ADetachedLockIsReleasedByItsIdAlone) {
  const auto holdfast = open(redis_url(options));
  auto guard = holdfast.locks().lock("k");
  const auto authority = guard.authority();
  auto lease = guard.detach();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->authority, authority);
  EXPECT_EQ(holdfast.locks().get_by_id_raw(lease->id.str())->key.str(), "k");
  // Adopted by a process that does not know the authority: the token is of the key's counter all the same.
  auto adopted = holdfast.locks().adopt({.key = "k", .id = lease->id, .ttl = 30s, .fence = lease->fence});
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->authority(), authority);
  lease = adopted->detach();
  ASSERT_TRUE(lease);
  EXPECT_TRUE(holdfast.locks().release(lease->id.str()));
  EXPECT_FALSE(holdfast.locks().is_locked("k"));
}

TEST_F(RedisNativeStore, ATaskWhoseLockWasCreatedAnewIsReboundByAnOperator) {
  const auto holdfast = open(redis_url(options));
  const auto tasks = holdfast.tasks();
  const auto task = tasks.create("alice");
  const auto lost = [&] {
    auto claim = tasks.claim("alice", task.id);
    EXPECT_TRUE(claim.release());
    return claim.token().authority;
  }();
  RedisLocks raw(options, "p", RedisLayout::native);
  const auto lock_key = Tasks::lock_key("alice", task.id);
  EXPECT_GT(raw.raw.integer({"PEXPIRETIME", "p:" + lock_key}), 0) << "its counter ends";
  // As a failover does that lost the creation of the key.
  raw.raw.integer({"DEL", "p:" + lock_key});
  try {
    (void)tasks.claim("alice", task.id);
    FAIL() << "fences of different authorities were compared";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::WrongLock);
  }
  (void)tasks.rebind_from(lost, "alice", task.id, {});
  auto claim = tasks.claim("alice", task.id);
  EXPECT_NE(claim.token().authority, lost);
  EXPECT_EQ(claim.complete(Json::parse("1").value_or_throw()).status, TaskStatus::completed);
}

}  // namespace
}  // namespace holdfast::test
