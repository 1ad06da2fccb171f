// Extending, renewing, letting go and adopting.

#include <gtest/gtest.h>

#include <thread>

#include "integration/guard_fixture.hpp"
#include "support/eventually.hpp"
#include "support/hooked_backend.hpp"

namespace holdfast::test {
namespace {

class GuardExtend : public GuardFixture {};

TEST_P(GuardExtend, ExtendRenewsByHand) {
  auto guard = locks.lock("k", {.ttl = 5s});
  const auto before = guard.expires_at();
  EXPECT_TRUE(guard.extend(60s));
  EXPECT_GT(guard.remaining(), 50s);
  EXPECT_GT(guard.expires_at(), before + 50s);
  EXPECT_THROW(guard.extend(0ms), Error);
}

TEST_P(GuardExtend, AFailedExtendThrowsAndKeepsTheOldLease) {
  auto guard = locks.lock("k", {.ttl = 60s});
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW(guard.extend(90s), Error);
  EXPECT_TRUE(guard.still_held());
  EXPECT_GT(guard.remaining(), 50s);
  EXPECT_LT(guard.remaining(), 60s);
}

TEST_P(GuardExtend, AnUnansweredShorterExtendShortensTheProof) {
  auto guard = locks.lock("k", {.ttl = 60s});
  wire->plan(Operation::extend, Fault::answer_lost);
  EXPECT_THROW(guard.extend(2s), Error);
  EXPECT_LT(guard.remaining(), 2s) << "the engine may have taken it";
}

TEST_P(GuardExtend, AShorterExtendThatHangsMovesTheLossForward) {
  auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
  wire->plan(Operation::extend, Fault::hangs_for_a_second);
  std::jthread extender([&] { EXPECT_THROW(guard.extend(200ms), Error); });
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }, 700ms))
      << "before the engine answers";
}

TEST_P(GuardExtend, ExtendOfALostLockReturnsFalseAndTheGuardIsLost) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.extend(30s));
  EXPECT_FALSE(guard.still_held());
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_FALSE(locks.is_locked("k")) << "never created again";
}

TEST_P(GuardExtend, RenewsItselfForAsLongAsItLives) {
  const auto guard = locks.lock("k", {.ttl = 900ms});
  const auto first = guard.expires_at();
  EXPECT_TRUE(eventually([&] { return guard.expires_at() > first + 500ms; })) << "renewed twice";
  EXPECT_TRUE(guard.still_held());
  EXPECT_FALSE(guard.lost().stop_requested());
  EXPECT_TRUE(locks.is_locked("k"));
}

TEST_P(GuardExtend, RenewalSurvivesFailuresThatEndBeforeTheDeadline) {
  wire->plan(Operation::extend, Fault::answer_lost, 2);
  wire->plan(Operation::extend, Fault::not_sent, 2);
  const auto guard = locks.lock("k", {.ttl = 600ms});
  EXPECT_TRUE(eventually([&] { return wire->calls(Operation::extend) >= 6; }));
  EXPECT_TRUE(guard.still_held());
}

TEST_P(GuardExtend, DetachLeavesTheLockAndAdoptGuardsItAgain) {
  auto guard = locks.lock("k", {.ttl = 5s});
  const auto fence = guard.fence();
  const auto detached = guard.detach();
  ASSERT_TRUE(detached);
  EXPECT_FALSE(guard);
  EXPECT_TRUE(locks.is_locked("k"));

  TestedLocks elsewhere(GetParam(), memory);
  {
    auto adopted = elsewhere.adopt(*detached);
    ASSERT_TRUE(adopted);
    EXPECT_EQ(adopted->fence(), fence);
    EXPECT_TRUE(adopted->still_held());
  }
  EXPECT_TRUE(freed_by_destructor("k"));
  EXPECT_FALSE(elsewhere.adopt(*detached)) << "it is gone";
}

TEST_P(GuardExtend, ADetachedLockIsNotSaidToLastLongerThanALateExtendWouldLeaveIt) {
  auto guard = locks.lock("k", {.ttl = 60s});
  wire->plan(Operation::extend, Fault::answer_lost);
  EXPECT_THROW(guard.extend(20s), Error);
  ASSERT_TRUE(guard.extend(60s));
  EXPECT_LT(guard.remaining(), 20s);
  const auto detached = guard.detach();
  ASSERT_TRUE(detached);
  EXPECT_EQ(detached->ttl, 20s) << "what its adopter can prove";
}

TEST_P(GuardExtend, NorIsAnAdoptedOneProvenForLongerThanALateExtendWouldLeaveIt) {
  const auto detached = locks.lock("k", {.ttl = 20s}).detach();
  ASSERT_TRUE(detached);
  wire->plan(Operation::extend, Fault::answer_lost);
  EXPECT_THROW((void)locks.adopt(*detached), Error);
  auto adopted = locks.adopt(*detached);
  ASSERT_TRUE(adopted);
  EXPECT_TRUE(adopted->extend(60s));
  EXPECT_LT(adopted->remaining(), 20s) << "the first adoption's extend may reach the engine now";
}

TEST_P(GuardExtend, DetachOfALockThatIsGoneGivesNothing) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.detach());
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
}

TEST_P(GuardExtend, AFailedDetachLeavesTheGuardAsItWas) {
  auto guard = locks.lock("k");
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW((void)guard.detach(), Error);
  EXPECT_TRUE(guard.still_held());
}

TEST(GuardStop, EndsTheWaitOfABlockingCallAndKeepsTheLockUnlessThatReleasesIt) {
  const Locks locks(make_memory_lock_backend());
  auto guard = locks.lock("k", {.ttl = 30s});
  std::stop_source stop;
  stop.request_stop();
  const auto code_of = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code_of([&] { guard.extend(60s, stop.get_token()); }), ErrorCode::Aborted);
  EXPECT_EQ(code_of([&] { (void)guard.detach(stop.get_token()); }), ErrorCode::Aborted);
  EXPECT_TRUE(guard.still_held());
  EXPECT_LT(guard.remaining(), 31s);
  try {
    guard.release(stop.get_token());
    ADD_FAILURE() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Aborted);
    EXPECT_EQ(error.effect(), Effect::unknown) << "it is carried out in the background";
  }
  EXPECT_FALSE(guard);
  EXPECT_TRUE(eventually([&] { return !locks.is_locked("k"); })) << "released in the background";
}

/// A guard whose extends wait at a gate, so that others wait for their turn behind them.
class DetachInTurn : public testing::Test {
 protected:
  void begin_extend(std::chrono::milliseconds ttl) {
    guard.extend(ttl, {}, [this](Result<bool> answer) { extended = std::move(answer); });
  }
  void begin_detach() {
    guard.detach({}, [this](Result<std::optional<Lease>> answer) { detached = std::move(answer); });
  }

  Gate gate;
  std::shared_ptr<FaultyBackend> wire = std::make_shared<FaultyBackend>(make_memory_lock_backend());
  Locks locks{std::make_shared<HookedBackend>(wire, gate.hook())};
  Guard guard = locks.lock("k", {.ttl = 30s, .auto_renew = false});
  std::optional<Result<bool>> extended;
  std::optional<Result<std::optional<Lease>>> detached;
};

TEST_F(DetachInTurn, PromisesNoMoreThanTheExtendBeforeItThatWentUnanswered) {
  wire->plan(Operation::extend, Fault::answer_lost);
  gate.close();
  begin_extend(1s);
  begin_detach();
  ASSERT_EQ(gate.held_up(), 1U);
  gate.open();
  ASSERT_TRUE(extended && !*extended);
  ASSERT_TRUE(detached && *detached && **detached);
  EXPECT_EQ((***detached).ttl, 1s) << "the extend may yet be carried out, and leave no more";
}

TEST_F(DetachInTurn, EndsTheHoldBeforeAnExtendBehindItBegins) {
  gate.close();
  begin_detach();
  begin_extend(1s);
  ASSERT_EQ(gate.held_up(), 1U);
  gate.open();
  ASSERT_TRUE(detached && *detached && **detached);
  EXPECT_EQ((***detached).ttl, 30s);
  ASSERT_TRUE(extended && *extended);
  EXPECT_FALSE(**extended);
  EXPECT_EQ(wire->calls(Operation::extend), 1) << "what was detached is not shortened";
}

TEST(GuardExtendThatThrows, LeavesTheTurnToTheNextOne) {
  bool out_of_memory = false;
  Locks locks(std::make_shared<HookedBackend>(make_memory_lock_backend(), [&](const auto& send) {
    if (out_of_memory) throw std::bad_alloc();
    send();
  }));
  auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
  out_of_memory = true;
  EXPECT_THROW(guard.extend(20s), Error);
  out_of_memory = false;
  std::stop_source give_up;
  std::optional<Result<bool>> extended;
  guard.extend(30s, give_up.get_token(), [&](Result<bool> answer) { extended = std::move(answer); });
  give_up.request_stop();
  ASSERT_TRUE(extended && *extended) << "it waits for an extend that has failed";
  EXPECT_TRUE(**extended);
  EXPECT_LT(guard.remaining(), 20s) << "the one that threw may have been carried out";
}

INSTANTIATE_TEST_SUITE_P(Facades, GuardExtend, testing::ValuesIn(facades()), facade_name);

}  // namespace
}  // namespace holdfast::test
