// Holding and releasing.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "integration/guard_fixture.hpp"

namespace holdfast::test {
namespace {

class GuardTest : public GuardFixture {};

TEST_P(GuardTest, HoldsTheLockForItsScope) {
  {
    const TestedGuard guard = locks.lock("k");
    EXPECT_TRUE(guard);
    EXPECT_TRUE(guard.still_held());
    EXPECT_EQ(guard.key(), "k");
    EXPECT_EQ(guard.authority(), memory->authority());
    EXPECT_GT(guard.remaining(), 29s);
    EXPECT_LT(guard.remaining(), 30s);
    const auto record = locks.get_by_key_raw("k");
    ASSERT_TRUE(record);
    EXPECT_EQ(record->id, guard.id());
    EXPECT_EQ(record->fence, guard.fence());
    EXPECT_EQ(record->expires_at, guard.expires_at());
  }
  EXPECT_TRUE(freed_by_destructor("k"));
}

TEST_P(GuardTest, MovesAndIsEmptyAfterwards) {
  TestedGuard first = locks.lock("a");
  TestedGuard second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_FALSE(first.release());
  EXPECT_FALSE(first.still_held());
  EXPECT_THROW((void)first.key(), Error);
  EXPECT_TRUE(second.still_held());
  second = locks.lock("b");
  EXPECT_TRUE(freed_by_destructor("a")) << "what it held before is released";
  EXPECT_TRUE(locks.is_locked("b"));
  TestedGuard& same = second;
  second = std::move(same);
  EXPECT_TRUE(second.still_held());
}

TEST_P(GuardTest, ReleasesAtMostOnce) {
  {
    auto guard = locks.lock("k");
    EXPECT_TRUE(guard.release());
    EXPECT_FALSE(guard);
    EXPECT_FALSE(guard.release());
  }
  EXPECT_EQ(wire->calls(Operation::release), 1);
}

TEST_P(GuardTest, ReleaseSaysWhetherTheLockWasStillThere) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.release());
}

TEST_P(GuardTest, ManualReleaseThrowsSystemErrorsAndLeavesTheGuardEmpty) {
  auto guard = locks.lock("k");
  wire->plan(Operation::release, Fault::refused_auth);
  try {
    guard.release();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AuthFailed);
    EXPECT_EQ(error.key(), "k");
    EXPECT_FALSE(error.lock_id().empty());
  }
  EXPECT_FALSE(guard);
}

TEST_P(GuardTest, AReleaseWhoseAnswerWasLostIsRepeatedAndCountsAsDone) {
  auto guard = locks.lock("k");
  wire->plan(Operation::release, Fault::answer_lost);
  EXPECT_TRUE(guard.release());
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(GuardTest, AReleaseWhoseAnswerWasLostPastTheLeaseDoesNotCountAsDone) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  std::this_thread::sleep_for(40ms);
  wire->plan(Operation::release, Fault::answer_lost);
  EXPECT_FALSE(guard.release());
}

TEST_P(GuardTest, TheDestructorReportsSystemErrorsAndNotAbsence) {
  std::atomic<int> reports{0};
  std::atomic<ErrorCode> reported{};
  const auto report = [&](const Error& error) {
    reported = error.code();
    ++reports;
  };
  {
    auto guard = locks.lock("a");
    guard.on_release_error(report);
    wire->plan(Operation::release, Fault::not_sent, 2);
  }
  EXPECT_TRUE(after_destructor([&] { return reports == 1; }));
  EXPECT_EQ(reported, ErrorCode::ServiceUnavailable);
  const auto kept_by_callback = std::make_shared<int>();
  {
    auto guard = locks.lock("b");
    guard.on_release_error([report, kept_by_callback](const Error& error) { report(error); });
    ASSERT_TRUE(locks.release(guard.id().str()));
  }
  EXPECT_TRUE(after_destructor([&] { return kept_by_callback.use_count() == 1; })) << "the end of it";
  EXPECT_EQ(reports, 1);
}

TEST_P(GuardTest, TheDestructorSurvivesACallbackThatThrows) {
  std::atomic<bool> called{false};
  auto guard = locks.lock("k");
  guard.on_release_error([&](const Error&) {
    called = true;
    throw std::runtime_error("callback");
  });
  wire->plan(Operation::release, Fault::refused_auth);
  guard = TestedGuard();
  EXPECT_TRUE(after_destructor([&] { return called.load(); }));
  EXPECT_TRUE(locks.is_locked("k"));
}

TEST_P(GuardTest, TheDestructorsReleaseEndsAtTheDisposeTimeout) {
  std::atomic<bool> reported{false};
  const BootTime before = BootClock::now();
  {
    auto guard = locks.lock("k", {.dispose_timeout = 60ms});
    guard.on_release_error([&](const Error& error) { reported = error.code() == ErrorCode::NetworkTimeout; });
    wire->plan(Operation::release, Fault::never_answered, 2);
  }
  EXPECT_TRUE(after_destructor([&] { return reported.load(); }));
  EXPECT_GE(BootClock::now() - before, 60ms);
  EXPECT_LT(BootClock::now() - before, 10s);
}

TEST_P(GuardTest, WithoutACallbackAFailedDisposalIsOneLogLineWithoutKeyOrId) {
  const auto log = std::make_shared<Log>();
  std::mutex mutex;
  std::vector<std::string> lines;
  log->set_sink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(message);
  });
  TestedLocks logging(GetParam(), wire, log);
  std::string id;
  {
    const auto guard = logging.lock("secret-key");
    id = guard.id().str();
    wire->plan(Operation::release, Fault::refused_auth);
  }
  ASSERT_TRUE(after_destructor([&] {
    log->flush();
    const std::lock_guard lock(mutex);
    return lines.size() == 1;
  }));
  EXPECT_EQ(lines[0].find("secret-key"), std::string::npos);
  EXPECT_EQ(lines[0].find(id), std::string::npos);
}

/// What only makes sense where a thread waits for the end.
class GuardScopes : public GuardFixture {};

TEST_P(GuardScopes, WithLockReturnsWhatTheFunctionReturnsAndReleases) {
  Locks blocking(wire);
  const auto fence = blocking.with_lock("k", {}, [&](Guard& guard) {
    EXPECT_TRUE(locks.is_locked("k"));
    return guard.fence();
  });
  EXPECT_EQ(fence.value(), 1U);
  EXPECT_FALSE(locks.is_locked("k"));
  EXPECT_THROW(blocking.with_lock("k", {}, [](Guard&) { throw std::runtime_error("work"); }),
               std::runtime_error);
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(GuardTest, GuardsOutliveTheirLocks) {
  TestedGuard guard;
  {
    TestedLocks short_lived(GetParam(), memory);
    guard = short_lived.lock("k", {.ttl = 100ms});
  }
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(guard.release());
}

TEST_P(GuardTest, DiagnosisIsSanitisedUnlessAskedForRaw) {
  const auto guard = locks.lock("k");
  const auto info = locks.get_by_key("k");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->key_hash, key_hash("k"));
  EXPECT_EQ(info->lock_id_hash, key_hash(guard.id().str()));
  EXPECT_EQ(info->fence, guard.fence());
  EXPECT_EQ(locks.get_by_id(guard.id().str())->key_hash, key_hash("k"));
  EXPECT_EQ(locks.get_by_id_raw(guard.id().str())->key.str(), "k");
  EXPECT_TRUE(locks.owns("k", guard.id().str()));
  EXPECT_FALSE(locks.owns("k", LockId::generate().str()));
  EXPECT_FALSE(locks.get_by_key("other"));
  EXPECT_EQ(locks.list().locks.size(), 1U);
}

TEST_P(GuardTest, ItsReleaseWaitsNoLongerThanTheLeaseLasts) {
  auto guard = locks.lock("k", {.ttl = 30s});
  wire->plan(Operation::release, Fault::not_sent, 2);
  EXPECT_THROW(guard.release(), Error);
  EXPECT_EQ(wire->calls(Operation::release), 2);
  EXPECT_LT(wire->last_release().deadline, BootClock::now() + 30s);
  EXPECT_GT(wire->last_release().deadline, BootClock::now() + 20s);
}

TEST_P(GuardTest, TheReleaseOfALeaseThatHasEndedIsNotTriedForLong) {
  auto guard = locks.lock("k", {.ttl = 20ms, .auto_renew = false});
  ASSERT_TRUE(eventually([&] { return guard.loss_reason().has_value(); }));
  wire->plan(Operation::release, Fault::not_sent, 2);
  EXPECT_THROW(guard.release(), Error);
  EXPECT_LT(wire->last_release().deadline, BootClock::now() + 2s);
  EXPECT_GT(wire->last_release().deadline, BootClock::now()) << "an unanswered renewal may have prolonged it";
}

INSTANTIATE_TEST_SUITE_P(Facades, GuardTest, testing::ValuesIn(facades()), facade_name);
INSTANTIATE_TEST_SUITE_P(Facades, GuardScopes, testing::ValuesIn(waiting_facades()), facade_name);

}  // namespace
}  // namespace holdfast::test
