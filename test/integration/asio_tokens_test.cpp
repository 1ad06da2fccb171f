// Completion tokens: how an operation reads with each of them, as_result above all.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/strand.hpp>
#include <stdexcept>

#include "integration/asio_fixture.hpp"
#include "support/asio_tokens.hpp"

namespace holdfast::test {
namespace {

class AsioTokens : public AsioFixture {
 protected:
  /// Of what is held; its error tells the key.
  static constexpr LockOptions once{.wait = 0ms};
};

TEST_F(AsioTokens, AsResultIsAwaited) {
  run([](AsyncLocks on) -> awaitable<void> {
    Result<AsyncGuard> guard = co_await on.lock("k", {}, as_result);
    EXPECT_TRUE(guard);
    EXPECT_EQ(guard->key(), "k");
    const auto refused = co_await on.lock("k", once, as_result);
    EXPECT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::AcquisitionTimeout);
    EXPECT_EQ(refused.error().key(), "k") << "the whole error, not its code alone";
    const auto tried = co_await on.try_lock("k", {}, as_result(use_awaitable));
    EXPECT_TRUE(tried) << "that another holds the lock is an answer";
    EXPECT_FALSE(tried->has_value());
    Result<bool> released = co_await guard->release(as_result);
    EXPECT_TRUE(*released);
  }(locks));
}

TEST_F(AsioTokens, AsResultTakesACallback) {
  std::optional<Result<AsyncGuard>> granted;
  std::optional<ErrorCode> refused;
  locks.lock("k", {}, as_result([&](Result<AsyncGuard> guard) { granted.emplace(std::move(guard)); }));
  locks.lock("", {}, as_result([&](const Result<AsyncGuard>& guard) { refused = guard.error().code(); }));
  EXPECT_FALSE(granted) << "never called before the function has returned";
  context.run();
  EXPECT_EQ((**granted).key(), "k");
  EXPECT_EQ(refused, ErrorCode::InvalidArgument);
}

TEST_F(AsioTokens, AsResultGivesAFuture) {
  auto granted = locks.lock("k", {}, as_result(asio::use_future));
  auto refused = locks.get_by_id("no id", as_result(asio::use_future));
  context.run();
  EXPECT_EQ(granted.get()->key(), "k");
  EXPECT_EQ(refused.get().error().code(), ErrorCode::InvalidArgument);
}

TEST_F(AsioTokens, AsResultMayBeginLater) {
  auto later = locks.lock(std::string("k"), {}, as_result(asio_tokens::deferred));
  EXPECT_FALSE(blocking.is_locked("k"));
  std::optional<Result<AsyncGuard>> granted;
  std::move(later)([&](Result<AsyncGuard> guard) { granted.emplace(std::move(guard)); });
  context.run();
  EXPECT_EQ((**granted).key(), "k");
}

TEST_F(AsioTokens, AnOperationWithoutAValueGivesAStatus) {
  const auto claimless = AsyncClaim();
  run([](const AsyncClaim& empty) -> awaitable<void> {
    const Status status = co_await empty.wait_stopped(as_result);
    EXPECT_EQ(status.error().code(), ErrorCode::InvalidArgument);
  }(claimless));
}

/// The executor, the allocator and the cancellation slot of the adapted handler, whichever adapter is
/// outside.
TEST_F(AsioTokens, AsResultKeepsWhatIsAssociatedWithItsHandler) {
  const auto held = blocking.lock("k");
  auto strand = asio::make_strand(context);
  asio::cancellation_signal first, second;
  int ended = 0;
  const auto expect_aborted = [&](const Result<AsyncGuard>& guard) {
    EXPECT_EQ(guard.error().code(), ErrorCode::Aborted);
    EXPECT_TRUE(strand.running_in_this_thread());
    ++ended;
  };
  locks.lock(
      "k", {.wait = no_time_limit},
      as_result(asio::bind_cancellation_slot(first.slot(), asio::bind_executor(strand, expect_aborted))));
  locks.lock(
      "k", {.wait = no_time_limit},
      asio::bind_cancellation_slot(second.slot(), asio::bind_executor(strand, as_result(expect_aborted))));
  context.poll();
  first.emit(asio::cancellation_type::terminal);
  second.emit(asio::cancellation_type::partial);
  context.run();
  EXPECT_EQ(ended, 2);

  struct WithAllocator {
    struct allocator_type : std::allocator<void> {
      int mark = 0;
    };
    [[nodiscard]] allocator_type get_allocator() const noexcept { return {{}, 7}; }
    void operator()(const Result<bool>&) const {}
  };
  const detail::ResultHandler<WithAllocator> handler{WithAllocator()};
  EXPECT_EQ(asio::get_associated_allocator(handler).mark, 7);
}

awaitable<int> throws_something_else() {
  throw std::runtime_error("not ours");
  co_return 0;
}

TEST_F(AsioTokens, AsResultMakesAnErrorOfAnyException) {
  std::optional<Result<int>> foreign;
  asio::co_spawn(context, throws_something_else(),
                 as_result([&](Result<int> result) { foreign.emplace(std::move(result)); }));
  context.run();
  EXPECT_EQ(foreign->error().code(), ErrorCode::Internal);
  EXPECT_EQ(foreign->error().cause(), "not ours");
}

TEST_F(AsioTokens, AsTupleGivesTheExceptionAndAnEmptyValue) {
  run([](AsyncLocks on) -> awaitable<void> {
    constexpr auto as_tuple = asio_tokens::as_tuple(use_awaitable);
    auto [none, guard] = co_await on.lock("k", {}, as_tuple);
    EXPECT_FALSE(none);
    EXPECT_EQ(guard.key(), "k");
    auto [failed, empty] = co_await on.lock("k", once, as_tuple);
    EXPECT_EQ(code_of(failed), ErrorCode::AcquisitionTimeout);
    EXPECT_FALSE(empty);
  }(locks));
}

TEST_F(AsioTokens, ASlotIsBoundToAnAwaitedOperation) {
  const auto held = blocking.lock("k");
  run([](AsyncLocks on) -> awaitable<void> {
    asio::cancellation_signal signal;
    asio::post(on.get_executor(), [&] { signal.emit(asio::cancellation_type::total); });
    const auto guard = co_await on.lock(
        "k", {.wait = no_time_limit}, as_result(asio::bind_cancellation_slot(signal.slot(), use_awaitable)));
    EXPECT_EQ(guard.error().code(), ErrorCode::Aborted);
  }(locks));
}

// Whether an operation is awaited in the expression that calls it.
static_assert(detail::is_awaited<asio::use_awaitable_t<>>);
static_assert(detail::is_awaited<std::remove_const_t<decltype(as_result)>>);
static_assert(detail::is_awaited<decltype(asio_tokens::as_tuple(use_awaitable))>);
static_assert(detail::is_awaited<decltype(as_result(asio::bind_cancellation_slot(asio::cancellation_slot(),
                                                                                 use_awaitable)))>);
static_assert(!detail::is_awaited<asio::use_future_t<>>);
static_assert(!detail::is_awaited<std::function<void(std::exception_ptr)>>);
static_assert(!detail::is_awaited<decltype(as_result(asio::use_future))>);

}  // namespace
}  // namespace holdfast::test
