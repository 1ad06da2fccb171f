// Calls for Asio of an engine that blocks, when there are more of them than threads to block.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <condition_variable>

#include "integration/asio_fixture.hpp"
#include "support/asio_thread.hpp"
#include "support/hooked_backend.hpp"

namespace holdfast::test {
namespace {

using asio::cancellation_type;

/// Holds the threads up that come to it.
class Barrier {
 public:
  ~Barrier() { open(); }
  void pass(const std::function<void()>& send) {
    {
      std::unique_lock lock(mutex_);
      ++came_;
      changed_.wait(lock, [this] { return open_; });
    }
    send();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] int came() const {
    const std::lock_guard lock(mutex_);
    return came_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int came_ = 0;
};

class AsioPool : public AsioFixture {
 protected:
  /// Takes every thread of the pool.
  void occupy() {
    for (int i = 0; i < threads; ++i) pooled.is_locked("busy", [this](auto, bool) { ++ended; });
    ASSERT_TRUE(eventually([&] { return barrier.came() == threads; }));
  }
  [[nodiscard]] bool run_until(const std::function<bool()>& condition) {
    return eventually([&] {
      context.restart();
      context.poll();
      return condition();
    });
  }

  static constexpr int threads = 4;
  int ended = 0;
  std::shared_ptr<Barrier> barrier_ = std::make_shared<Barrier>();
  Barrier& barrier = *barrier_;
  AsyncLocks pooled{context.get_executor(),
                    Locks(std::make_shared<HookedBackend>(
                        memory, [held = barrier_](const std::function<void()>& send) { held->pass(send); },
                        HookedBackend::Options{.blocks = true}))};
};

TEST_F(AsioPool, WhatWaitsForAThreadCanBeCancelled) {
  occupy();
  asio::cancellation_signal signal;
  std::optional<ErrorCode> code;
  pooled.lock("k", {.wait = 1min},
              asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& error, AsyncGuard) {
                code = code_of(error);
              }));
  context.poll();
  signal.emit(cancellation_type::terminal);
  EXPECT_TRUE(run_until([&] { return code.has_value(); }));
  EXPECT_EQ(code, ErrorCode::Aborted);
  EXPECT_EQ(barrier.came(), threads);
  barrier.open();
  EXPECT_TRUE(run_until([&] { return ended == threads; }));
  run([](AsyncLocks& on) -> awaitable<void> { EXPECT_FALSE(co_await on.is_locked("k")); }(pooled));
  EXPECT_EQ(barrier.came(), threads + 1) << "what was cancelled never reached the engine";
}

TEST_F(AsioPool, WhatWaitsForAThreadDoesNotWaitBeyondItsTime) {
  occupy();
  std::optional<ErrorCode> code;
  pooled.lock("k", {.wait = 20ms},
              [&](const std::exception_ptr& error, const AsyncGuard&) { code = code_of(error); });
  EXPECT_TRUE(run_until([&] { return code.has_value(); }));
  EXPECT_EQ(code, ErrorCode::NetworkTimeout);
  EXPECT_EQ(ended, 0);
  barrier.open();
  EXPECT_TRUE(run_until([&] { return ended == threads; }));
  EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
}

TEST_F(AsioPool, AThreadACancellationAndTheTimeMayComeTogether) {
  barrier.open();
  AsioThread thread;
  AsyncLocks there(thread.context().get_executor(), pooled.blocking());
  constexpr int rounds = 50, calls = 40;
  for (int round = 0; round < rounds; ++round) {
    std::vector<asio::cancellation_signal> signals(calls);
    std::atomic<int> told = 0, strange = 0;
    asio::post(thread.context(), [&] {
      for (int i = 0; i < calls; ++i) {
        // Never used before: a guard of an earlier round may still be releasing in the background.
        const auto key = std::to_string(round * calls + i);
        const LockOptions how{.wait = i % 2 == 0 ? std::chrono::milliseconds(1) : no_time_limit};
        there.lock(key, how,
                   asio::bind_cancellation_slot(signals[static_cast<std::size_t>(i)].slot(),
                                                [&](const std::exception_ptr& error, const AsyncGuard&) {
                                                  const auto code = code_of(error);
                                                  if (code && code != ErrorCode::Aborted &&
                                                      code != ErrorCode::NetworkTimeout) {
                                                    ++strange;
                                                  }
                                                  ++told;
                                                }));
      }
      for (auto& signal : signals) signal.emit(cancellation_type::terminal);
    });
    EXPECT_TRUE(eventually([&] { return told == calls; })) << told;
    EXPECT_EQ(strange, 0);
  }
  for (int i = 0; i < rounds * calls; ++i) {
    EXPECT_TRUE(eventually([&] { return !blocking.is_locked(std::to_string(i)); }));
  }
}

}  // namespace
}  // namespace holdfast::test
