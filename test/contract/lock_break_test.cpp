// Breaking a lock: what it does to the holder, to those who wait, and to the fence.

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <mutex>

#include "support/calls.hpp"
#include "support/engines.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

class Breaking : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    holders = world->open();
    operators.emplace(world->open());
  }
  /// The id that was taken from finds nothing; an engine that asks again may not be able to tell.
  void expect_lost(const LockId& old) const {
    const auto released = release(*holders, old, "k");
    EXPECT_TRUE(released || GetParam().asks_again) << "released what was not there any more";
    EXPECT_TRUE(std::holds_alternative<Absence>(extend(*holders, old, "k", 60s)));
  }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> holders;
  std::optional<Locks> operators;
  const LockId id = LockId::generate();
  const LockId next = LockId::generate();
};

TEST_P(Breaking, TellsWhoseLockItWas) {
  const auto granted = acquire(*holders, id, "k");
  ASSERT_TRUE(granted);
  const auto broken = operators->break_lock("k", "a test");
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->key_hash, key_hash("k"));
  EXPECT_EQ(broken->lock_id_hash, key_hash(id.str()));
  EXPECT_EQ(broken->fence, granted->fence);
  EXPECT_EQ(broken->expires_at, granted->expires_at);
  EXPECT_FALSE(is_locked(*holders, "k"));
  EXPECT_FALSE(lookup(*holders, id)) << "by its id neither";
}

TEST_P(Breaking, LeavesTheFenceCounterAlone) {
  const auto before = acquire(*holders, id, "k");
  ASSERT_TRUE(before);
  ASSERT_TRUE(operators->break_lock("k", "a test"));
  const auto after = acquire(*holders, next, "k");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->fence.value(), before->fence.value() + 1);
}

TEST_P(Breaking, TheOldHoldersReleaseAndExtendBounceAndTheNextHolderIsUntouched) {
  ASSERT_TRUE(acquire(*holders, id, "k"));
  ASSERT_TRUE(operators->break_lock("k", "a test"));
  expect_lost(id);
  const auto granted = acquire(*holders, next, "k");
  ASSERT_TRUE(granted);
  expect_lost(id);
  const auto held = lookup(*holders, "k");
  ASSERT_TRUE(held);
  EXPECT_EQ(held->id, next);
  EXPECT_EQ(held->fence, granted->fence);
}

TEST_P(Breaking, AGuardThatRenewsFindsOut) {
  Locks locks(holders);
  auto guard = locks.lock("k", {.ttl = 600ms});
  ASSERT_TRUE(operators->break_lock("k", "a test"));
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_TRUE(guard.loss_reason() == LossReason::gone || GetParam().asks_again);
  EXPECT_TRUE(!guard.still_held() || GetParam().asks_again);
  const auto granted = acquire(*holders, next, "k");
  ASSERT_TRUE(granted);
  EXPECT_GT(granted->fence, guard.fence());
  guard.release();
  EXPECT_TRUE(is_locked(*holders, "k")) << "the next holder's";
}

TEST_P(Breaking, WakesAWaiter) {
  ASSERT_TRUE(acquire(*holders, id, "k"));
  const auto watch = watch_of(*holders, key("k"));
  ASSERT_TRUE(watch);
  ASSERT_TRUE(operators->break_lock("k", "a test"));
  EXPECT_TRUE(wait_until(*watch, BootClock::now() + 20s, {}));
}

TEST_P(Breaking, WhatNobodyHoldsIsNotBroken) {
  EXPECT_FALSE(operators->break_lock("k", "a test"));
  ASSERT_TRUE(acquire(*holders, id, "k", 50ms));
  EXPECT_TRUE(eventually([&] { return !is_locked(*holders, "k"); }));
  EXPECT_FALSE(operators->break_lock("k", "a test"));
}

TEST_P(Breaking, OnlyTheLockWithTheNamedFence) {
  const auto first = acquire(*holders, id, "k");
  ASSERT_TRUE(first);
  ASSERT_FALSE(operators->break_lock("k", "a test", Fence::of(first->fence.value() + 1).value_or_throw()));
  release(*holders, id, "k");
  const auto second = acquire(*holders, next, "k");
  ASSERT_TRUE(second);
  EXPECT_FALSE(operators->break_lock("k", "a test", first->fence)) << "another has it since";
  EXPECT_TRUE(is_locked(*holders, "k"));
  EXPECT_TRUE(operators->break_lock("k", "a test", second->fence));
  EXPECT_FALSE(is_locked(*holders, "k"));
}

TEST_P(Breaking, NeedsAReason) {
  ASSERT_TRUE(acquire(*holders, id, "k"));
  try {
    (void)operators->break_lock("k", "");
    ADD_FAILURE() << "broken for no reason";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
  }
  EXPECT_TRUE(is_locked(*holders, "k"));
}

INSTANTIATE_TEST_SUITE_P(Engines, Breaking, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

/// Tells what it was asked to release, and lets something happen just before.
class ObservedBackend final : public Intercepting<ObservedBackend, LockBackend> {
 public:
  explicit ObservedBackend(std::shared_ptr<LockBackend> inner) : inner_(std::move(inner)) {}

  std::function<void()> before_release;
  std::vector<ReleaseRequest> releases;

  [[nodiscard]] Capabilities capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }

  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    if constexpr (std::is_same_v<Request, ReleaseRequest>) {
      releases.push_back(request);
      if (before_release) before_release();
    }
    inner_->submit(std::move(request), std::move(stop), std::move(done));
  }

 private:
  std::shared_ptr<LockBackend> inner_;
};

class BreakingObserved : public testing::Test {
 protected:
  const std::shared_ptr<LockBackend> engine = make_memory_lock_backend();
  const std::shared_ptr<ObservedBackend> observed = std::make_shared<ObservedBackend>(engine);
  const std::shared_ptr<Log> log = std::make_shared<Log>();
  Locks operators{observed, log};
  const LockId id = LockId::generate();
  const LockId next = LockId::generate();
};

TEST_F(BreakingObserved, TheReasonGoesWithTheRequestAndToTheLog) {
  std::vector<std::string> logged;
  log->set_sink([&](LogLevel level, std::string_view message) {
    EXPECT_EQ(level, LogLevel::warning);
    logged.emplace_back(message);
  });
  ASSERT_TRUE(acquire(*engine, id, "secret-key"));
  ASSERT_TRUE(operators.break_lock("secret-key", "web-3 is down"));
  ASSERT_EQ(observed->releases.size(), 1U);
  EXPECT_EQ(observed->releases[0].broken_because, "web-3 is down");
  EXPECT_EQ(observed->releases[0].lock.id, id);
  ASSERT_TRUE(observed->releases[0].lock.key);
  EXPECT_EQ(*observed->releases[0].lock.key, key("secret-key"));
  EXPECT_EQ(observed->releases[0].durability, Durability::machine) << "a power cut must not bring it back";
  log->flush();
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_NE(logged[0].find("web-3 is down"), std::string::npos) << logged[0];
  EXPECT_EQ(logged[0].find("secret-key"), std::string::npos) << logged[0];
  EXPECT_EQ(logged[0].find(id.str()), std::string::npos) << logged[0];
}

TEST_F(BreakingObserved, WhoTookTheLockMeanwhileKeepsIt) {
  const auto granted = acquire(*engine, id, "k");
  ASSERT_TRUE(granted);
  observed->before_release = [&] {
    release(*engine, id, "k");
    ASSERT_TRUE(acquire(*engine, next, "k"));
  };
  EXPECT_FALSE(operators.break_lock("k", "a test"));
  EXPECT_EQ(lookup(*engine, "k")->id, next);

  observed->before_release = [&] {
    release(*engine, next, "k");
    ASSERT_TRUE(acquire(*engine, id, "k"));
  };
  EXPECT_FALSE(operators.break_lock("k", "a test", lookup(*engine, "k")->fence));
  EXPECT_EQ(lookup(*engine, "k")->id, id);
}

TEST_F(BreakingObserved, TheFormThatDoesNotBlockDoesTheSame) {
  const auto granted = acquire(*engine, id, "k");
  ASSERT_TRUE(granted);
  const auto answer = [&](auto start) {
    Slot<std::optional<LockInfo>> slot;
    start(Done<std::optional<LockInfo>>::into(slot));
    engine->wait(slot.completion);
    return *std::move(slot.result);
  };
  const auto other_fence = Fence::of(granted->fence.value() + 1).value_or_throw();
  EXPECT_FALSE(answer([&](auto done) {
                 operators.start(operation::BreakLock{"k", "a test", other_fence}, {}, std::move(done));
               }).value_or_throw());
  EXPECT_FALSE(
      answer([&](auto done) { operators.start(operation::BreakLock{"k", ""}, {}, std::move(done)); }).ok());
  EXPECT_TRUE(is_locked(*engine, "k"));
  const auto broken =
      answer([&](auto done) {
        operators.start(operation::BreakLock{"k", "a test", granted->fence}, {}, std::move(done));
      }).value_or_throw();
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->fence, granted->fence);
  EXPECT_FALSE(is_locked(*engine, "k"));
  EXPECT_FALSE(answer([&](auto done) {
                 operators.start(operation::BreakLock{"k", "a test"}, {}, std::move(done));
               }).value_or_throw());
}

}  // namespace
}  // namespace holdfast::test
