// The time that a holder has to stop, and the warning before that.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "integration/guard_fixture.hpp"

namespace holdfast::test {
namespace {

class GuardNotice : public GuardFixture {
 protected:
  /// A guard that was notified of its loss, with up to 300 ms of its proof left.
  [[nodiscard]] TestedGuard ending() {
    auto guard = locks.lock("k", {.ttl = 60s, .max_hold = 900ms, .notice = 300ms});
    EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
    return guard;
  }
  /// Adopts it with that notice; returns the message of the refusal.
  std::string refusal_to_adopt(const Lease& lease, std::chrono::milliseconds notice) {
    try {
      (void)locks.adopt(lease, {.notice = notice});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.message();
    }
    return "not refused";
  }
};
/// Callbacks with a thread of their own.
class GuardRiskCallbacks : public GuardFixture {};

TEST_P(GuardNotice, ByDefaultTheHolderHasASixthOfTheTtlAfterTheSignal) {
  auto guard = locks.lock("k", {.ttl = 1800ms, .auto_renew = false});
  std::promise<std::chrono::nanoseconds> left;
  guard.on_lost([&](LossReason) { left.set_value(guard.remaining()); });
  const auto told = left.get_future().get();
  EXPECT_GT(told, 0ms);
  EXPECT_LE(told, 300ms);
}

TEST_P(GuardNotice, AGuardThatIsEndingIsHeldUntilItsProofEnds) {
  auto guard = ending();
  EXPECT_EQ(guard.loss_reason(), LossReason::max_hold);
  EXPECT_TRUE(guard.still_held());
  const auto left = guard.remaining();
  EXPECT_GT(left, 0ms);
  EXPECT_LE(left, 300ms);
  EXPECT_TRUE(eventually([&] { return !guard.still_held(); }));
  EXPECT_EQ(guard.remaining(), 0ns);
  EXPECT_EQ(guard.loss_reason(), LossReason::max_hold);
}

TEST_P(GuardNotice, AGuardThatIsEndingSendsNoExtendAndIsNotDetached) {
  auto guard = ending();
  EXPECT_FALSE(guard.extend(60s));
  EXPECT_FALSE(guard.detach());
  EXPECT_EQ(wire->calls(Operation::extend), 0);
  EXPECT_LE(guard.remaining(), 300ms) << "once lost, it stays lost";
  EXPECT_TRUE(guard) << "it is to be released yet";
}

TEST_P(GuardNotice, AGuardThatIsEndingCanBeReleased) {
  auto guard = ending();
  EXPECT_TRUE(guard.release());
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(GuardNotice, TheReleaseOfOneThatIsEndingProvesItsGrant) {
  auto guard = ending();
  wire->plan(Operation::release, Fault::answer_lost);
  EXPECT_TRUE(guard.release()) << "the repeated request found nothing, while the proof held";
}

TEST_P(GuardNotice, OneThatIsTooLongIsRefusedBeforeAnythingIsSent) {
  try {
    (void)locks.lock("k", {.ttl = 9s, .notice = 3001ms});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(error.message(),
              "invalid notice: 3001 ms is more than a third of the ttl of 9000 ms. Use a longer ttl or a "
              "shorter notice");
  }
  EXPECT_THROW((void)locks.lock("k", {.max_hold = 2s, .notice = 1s}), Error);
  EXPECT_THROW((void)locks.try_lock("k", {.notice = -1ms}), Error);
  EXPECT_EQ(wire->calls(Operation::acquire), 0);
}

TEST_P(GuardNotice, AnAdopterHasItsOwnForTheTtlOfTheLease) {
  auto first = locks.lock("k", {.ttl = 60s, .notice = 20s});
  const auto lease = first.detach();
  ASSERT_TRUE(lease);
  EXPECT_EQ(
      refusal_to_adopt(*lease, 20'001ms),
      "invalid notice: 20001 ms is more than a third of the ttl of 60000 ms. Use a longer ttl or a shorter "
      "notice");
  auto adopted = locks.adopt(*lease, {.notice = 15s});
  ASSERT_TRUE(adopted) << "more than a third of the default ttl";
}

TEST_P(GuardNotice, AFailedExtendPutsTheGuardAtRiskUntilTheNextSuccess) {
  auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
  EXPECT_FALSE(guard.at_risk());
  std::promise<void> first, second;
  std::vector<bool> told;
  guard.on_at_risk([&](bool at_risk) {
    told.push_back(at_risk);
    (told.size() == 1 ? first : second).set_value();
  });
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW(guard.extend(60s), Error);
  EXPECT_TRUE(guard.at_risk());
  first.get_future().wait();
  EXPECT_TRUE(guard.extend(60s));
  second.get_future().wait();
  EXPECT_EQ(told, (std::vector{true, false}));
  EXPECT_FALSE(guard.at_risk());
  EXPECT_FALSE(guard.loss_reason());
  guard.release();
}

TEST_P(GuardNotice, ARenewalWithoutAnAnswerForASixthOfTheTtlPutsTheGuardAtRisk) {
  wire->plan(Operation::extend, Fault::never_answered, 100);
  auto guard = locks.lock("k", {.ttl = 1500ms});
  EXPECT_TRUE(eventually([&] { return guard.at_risk(); }));
  EXPECT_FALSE(guard.loss_reason()) << "a warning that comes before the loss";
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
}

TEST_P(GuardNotice, ACallbackThatIsSetWhileTheGuardIsAtRiskRunsAtOnce) {
  auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW(guard.extend(60s), Error);
  EXPECT_TRUE(guard.at_risk());
  std::promise<bool> told;
  guard.on_at_risk([&](bool at_risk) { told.set_value(at_risk); });
  EXPECT_TRUE(told.get_future().get());
  guard.on_at_risk([](bool) {});
  EXPECT_TRUE(guard.extend(60s));
  EXPECT_FALSE(guard.at_risk());
}

TEST_P(GuardRiskCallbacks, TheDestructorWaitsForOneThatRuns) {
  wire->plan(Operation::extend, Fault::not_sent);
  std::atomic<bool> entered{false}, left{false};
  {
    auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
    guard.on_at_risk([&](bool) {
      entered = true;
      std::this_thread::sleep_for(100ms);
      left = true;
    });
    EXPECT_THROW(guard.extend(60s), Error);
    EXPECT_TRUE(eventually([&] { return entered.load(); }));
  }
  EXPECT_TRUE(left);
}

TEST_P(GuardRiskCallbacks, OneThatThrowsOrBlocksHoldsUpNeitherRenewalsNorALoss) {
  wire->plan(Operation::extend, Fault::not_sent, 1000);
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  auto guard = locks.lock("k", {.ttl = 600ms});
  guard.on_at_risk([blocked](bool) {
    blocked.wait();
    throw std::runtime_error("callback");
  });
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_GT(wire->calls(Operation::extend), 1);
  unblock.set_value();
}

/// An engine whose answers to extends come when the test wants.
class LateAnswers final : public Intercepting<LateAnswers, LockBackend> {
 public:
  explicit LateAnswers(std::shared_ptr<LockBackend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }

  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    if constexpr (std::is_same_v<Request, ExtendRequest>) {
      done_.emplace(std::move(done));
      inner_->submit(std::move(request), std::move(stop),
                     [this](Result<ExtendOutcome> answer) { answer_ = std::move(answer); });
    } else {
      inner_->submit(std::move(request), std::move(stop), std::move(done));
    }
  }
  void answer() { (*done_)(*std::move(answer_)); }

 private:
  std::shared_ptr<LockBackend> inner_;
  std::optional<Done<ExtendOutcome>> done_;
  std::optional<Result<ExtendOutcome>> answer_;
};

TEST(LateNotice, AnAnswerThatComesWhileItIsEndingDoesNotReviveTheGuardAndTheLongerLeaseIsReleased) {
  const auto late = std::make_shared<LateAnswers>(make_memory_lock_backend());
  const Locks locks(late);
  auto guard = locks.lock("k", {.ttl = 900ms, .auto_renew = false, .notice = 300ms});
  std::optional<Result<bool>> extended;
  guard.extend(60s, {}, [&](Result<bool> answer) { extended = std::move(answer); });
  ASSERT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  late->answer();
  ASSERT_TRUE(extended && *extended);
  EXPECT_FALSE(**extended) << "the holder was notified before";
  EXPECT_LE(guard.remaining(), 300ms);
  std::this_thread::sleep_for(400ms);
  EXPECT_FALSE(guard.still_held());
  EXPECT_TRUE(locks.is_locked("k")) << "the store has granted 60 s";
  EXPECT_TRUE(guard.release());
  EXPECT_FALSE(locks.is_locked("k"));
}

INSTANTIATE_TEST_SUITE_P(Facades, GuardNotice, testing::ValuesIn(facades()), facade_name);
INSTANTIATE_TEST_SUITE_P(Facades, GuardRiskCallbacks, testing::ValuesIn(waiting_facades()), facade_name);

}  // namespace
}  // namespace holdfast::test
