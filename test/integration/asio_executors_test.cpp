// Handlers on executors that are no io_context's own.

#include <gtest/gtest.h>

#include <asio/bind_executor.hpp>
#include <asio/detached.hpp>
#include <asio/io_context_strand.hpp>
#include <asio/strand.hpp>
#include <thread>

#include "integration/asio_fixture.hpp"
#include "support/hooked_backend.hpp"

namespace holdfast::test {
namespace {

class AsioExecutors : public AsioFixture {
 protected:
  Gate gate;
  Locks gated{std::make_shared<HookedBackend>(memory, gate.hook(), HookedBackend::Options{.deaf = true})};
};

/// Does something when it is destroyed unrun.
class OnDrop {
 public:
  explicit OnDrop(std::function<void()> what) : what_(std::move(what)) {}
  OnDrop(OnDrop&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
  OnDrop& operator=(OnDrop&&) = delete;
  ~OnDrop() {
    if (what_) what_();
  }
  void operator()() { what_ = nullptr; }

 private:
  std::function<void()> what_;
};

/// A context shuts its services down one by one, and a strand that is shut down destroys what is posted to it
/// on the spot: here, a coroutine that owns another call of the same context.
TEST_F(AsioExecutors, AnAnswerMayComeWhileItsContextGoes) {
  auto other = std::make_unique<asio::io_context>();
  {
    AsyncLocks plain(other->get_executor(), gated);
    plain.is_locked("k",
                    [](const std::exception_ptr&, bool) {});  // before there are strands: shut down after
    auto strand = asio::make_strand(*other);
    asio::co_spawn(
        strand,
        [](AsyncLocks on, Gate& at) -> awaitable<void> {
          auto guard = co_await on.lock("k");
          guard.on_lost([](LossReason) {});
          at.close();
          (void)co_await on.is_locked("k");
          ADD_FAILURE() << "the context is gone";
        }(AsyncLocks(strand, gated), gate),
        asio::detached);
    other->poll();
    ASSERT_EQ(gate.held_up(), 1U);
    asio::post(strand, OnDrop([this] { std::thread([this] { gate.open(); }).join(); }));
  }
  other.reset();
  EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
}

/// Runs what it is given at once, though it was told not to.
struct Inline {
  asio::io_context* of;

  [[nodiscard]] asio::execution_context& query(asio::execution::context_t) const noexcept { return *of; }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  [[nodiscard]] Inline require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
  template <class F>
  void execute(F function) const {
    std::move(function)();
  }
  bool operator==(const Inline&) const noexcept = default;
};

TEST_F(AsioExecutors, AHandlerThatRunsInsideThePostMayEndTheContext) {
  auto other = std::make_unique<asio::io_context>();
  bool called = false;
  AsyncLocks there(asio::system_executor(), blocking);
  there.is_locked("k", asio::bind_executor(Inline{other.get()}, [&](const std::exception_ptr&, bool) {
                    called = true;
                    other.reset();
                  }));
  EXPECT_TRUE(called);
  EXPECT_FALSE(other);
}

TEST_F(AsioExecutors, AnExecutorOfTheNetworkingTsWillDo) {
  asio::io_context::strand strand(context);
  gate.close();
  AsyncLocks there(context.get_executor(), gated);
  std::optional<bool> in_strand;
  there.lock("k", {}, asio::bind_executor(strand, [&](const std::exception_ptr&, const AsyncGuard& guard) {
               in_strand = guard && strand.running_in_this_thread();
             }));
  EXPECT_EQ(context.poll(), 0U);
  EXPECT_FALSE(context.stopped()) << "the call is work that the context waits for";
  gate.open();
  context.run();
  EXPECT_EQ(in_strand, true);
}

}  // namespace
}  // namespace holdfast::test
