// Renewals on an engine that does not block: nobody waits for them, and they for no other.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/redis.hpp>
#include <thread>
#include <vector>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/hooked_backend.hpp"
#include "support/no_new_threads.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

/// An engine whose requests wait at a gate.
class Renewals : public testing::Test {
 protected:
  Gate gate;
  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  Locks locks{std::make_shared<HookedBackend>(memory, gate.hook())};
};

TEST_F(Renewals, AreSentThoughTheOnesBeforeAreNotAnswered) {
  std::vector<Guard> guards;
  for (int i = 0; i < 100; ++i) guards.push_back(locks.lock(std::to_string(i), {.ttl = 1500ms}));
  gate.close();
  EXPECT_TRUE(eventually([&] { return gate.held_up() == 100; })) << gate.held_up();
  gate.open();
  for (const auto& guard : guards) EXPECT_TRUE(guard.still_held());
}

TEST_F(Renewals, ThatAreNeverAnsweredDoNotKeepTheHolderFromBeingTold) {
  const auto guard = locks.lock("k", {.ttl = 150ms});
  gate.close();
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
  ASSERT_EQ(gate.held_up(), 1U) << "extends of one guard do not overlap";
  gate.open();
  EXPECT_LE(guard.remaining(), 25ms) << "what was lost stays lost";
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
}

TEST_F(Renewals, AreNotOverlappedByAnExtendByHand) {
  auto guard = locks.lock("k", {.ttl = 900ms});
  gate.close();
  ASSERT_TRUE(eventually([&] { return gate.held_up() == 1; }));
  std::optional<Result<bool>> extended;
  guard.extend(60s, {}, [&](Result<bool> answer) { extended = std::move(answer); });
  EXPECT_EQ(gate.held_up(), 1U) << "it waits for its turn";
  gate.open();
  ASSERT_TRUE(extended && *extended);
  EXPECT_TRUE(**extended);
  EXPECT_GT(guard.remaining(), 50s);
}

TEST_F(Renewals, OfAReleasedGuardAreAnsweredInVain) {
  auto guard = locks.lock("k", {.ttl = 900ms});
  gate.close();
  ASSERT_TRUE(eventually([&] { return gate.held_up() == 1; }));
  guard.release_in_background();
  EXPECT_EQ(gate.held_up(), 2U);
  gate.open();
  EXPECT_FALSE(is_locked(*memory, "k"));
}

/// Counts renewals, and remembers where the last one ended.
class CountedRenewals final : public Observer {
 public:
  void begun(Activity activity, std::string_view) noexcept override {
    if (activity == Activity::renew) ++begun_;
  }
  void ended(const Occurrence& occurrence) noexcept override {
    if (occurrence.activity != Activity::renew) return;
    thread_ = std::this_thread::get_id();
    ++ended_;
  }
  [[nodiscard]] bool next_ends() const {
    const auto so_far = ended_.load();
    return eventually([&] { return ended_ > so_far; });
  }
  [[nodiscard]] bool one_is_under_way() const {
    return eventually([&] { return begun_ > ended_; });
  }
  [[nodiscard]] std::size_t ended() const { return ended_; }
  [[nodiscard]] std::thread::id thread() const { return thread_; }

 private:
  std::atomic<std::size_t> begun_ = 0, ended_ = 0;
  std::atomic<std::thread::id> thread_;
};

class RedisRenewals : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    auto options = server->tcp();
    options.port = proxy->port();
    threads_before = threads();
    locks.emplace(make_redis_lock_backend(options).value_or_throw(), nullptr, renewals);
  }
  static std::ptrdiff_t threads() {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  }

  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<CountedRenewals> renewals = std::make_shared<CountedRenewals>();
  std::ptrdiff_t threads_before = 0;
  std::atomic<std::size_t> granted = 0, lost = 0;
  std::optional<Locks> locks;  ///< its end waits for callbacks
};

TEST_F(RedisRenewals, NeedNoThreadButTheTimers) {
  EXPECT_EQ(threads(), threads_before) << "none before the first guard";
  const auto guard = locks->lock("a", {.ttl = 300ms});
  const auto another = locks->lock("b", {.ttl = 200ms});
  EXPECT_EQ(threads() - threads_before, 2) << "the timer's, and one that is ready to report a loss";
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(renewals->next_ends());
  EXPECT_EQ(threads() - threads_before, 2);
  EXPECT_NE(renewals->thread(), std::this_thread::get_id());
}

TEST_F(RedisRenewals, AreSentAgainByTextWhereTheServerForgotTheScript) {
  const auto guard = locks->lock("k", {.ttl = 600ms});
  ASSERT_TRUE(renewals->next_ends());
  server->raw().command({"SCRIPT", "FLUSH"});
  ASSERT_TRUE(renewals->next_ends());
  ASSERT_TRUE(renewals->next_ends());
  EXPECT_TRUE(guard.still_held());
}

TEST_F(RedisRenewals, SurviveABrokenConnection) {
  const auto guard = locks->lock("k", {.ttl = 900ms});
  ASSERT_TRUE(renewals->next_ends());
  proxy->cut();
  ASSERT_TRUE(renewals->next_ends());
  EXPECT_TRUE(guard.still_held());
}

TEST_F(RedisRenewals, ToAServerThatIsSilentDoNotKeepTheHolderFromBeingTold) {
  const auto guard = locks->lock("k", {.ttl = 300ms});
  const auto long_one = locks->lock("long", {.ttl = 60s});
  ASSERT_TRUE(renewals->next_ends());
  server->pause();
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
  server->resume();
  EXPECT_TRUE(long_one.still_held());
}

TEST_F(RedisRenewals, UnderWayDoNotBringCompletionsOfOthersToTheTimersThread) {
  const auto guard = locks->lock("k", {.ttl = 1500ms});
  ASSERT_TRUE(renewals->next_ends());
  const auto timer = renewals->thread();
  proxy->hold(TcpProxy::Way::to_client);
  ASSERT_TRUE(renewals->one_is_under_way());
  std::promise<std::thread::id> completed;
  locks->start(operation::IsLocked{"k"}, {},
               [&](const Result<bool>&) { completed.set_value(std::this_thread::get_id()); });
  proxy->forward();
  EXPECT_NE(completed.get_future().get(), timer);
  EXPECT_TRUE(locks->is_locked("k"));
  ASSERT_TRUE(renewals->next_ends());
  EXPECT_TRUE(guard.still_held());
}

TEST_F(RedisRenewals, UnderWayDoNotBringThemThereWhereNoOtherThreadCanBeStartedEither) {
  const auto guard = locks->lock("k", {.ttl = 1500ms});
  ASSERT_TRUE(renewals->next_ends());
  const auto timer = renewals->thread();
  proxy->hold(TcpProxy::Way::to_client);
  ASSERT_TRUE(renewals->one_is_under_way());
  std::promise<std::pair<std::thread::id, Result<bool>>> completed;
  {
    const NoNewThreads exhausted;
    locks->start(operation::IsLocked{"k"}, {}, [&](const Result<bool>& locked) {
      completed.set_value({std::this_thread::get_id(), locked});
    });
    proxy->forward();
    const auto [thread, locked] = completed.get_future().get();
    EXPECT_NE(thread, timer);
    ASSERT_FALSE(locked);
    EXPECT_EQ(locked.error().code(), ErrorCode::ServiceUnavailable);
  }
  ASSERT_TRUE(renewals->next_ends());
  EXPECT_TRUE(guard.still_held());
}

TEST_F(RedisRenewals, ThatFindNothingDoNotBringTheWaitForTheLossToTheTimersThread) {
  auto guard = locks->lock("k", {.ttl = 300ms});
  ASSERT_TRUE(renewals->next_ends());
  const auto timer = renewals->thread();
  std::promise<std::thread::id> told;
  guard.wait_lost({}, [&](const Result<LossReason>&) { told.set_value(std::this_thread::get_id()); });
  EXPECT_TRUE(
      Locks(make_redis_lock_backend(server->tcp()).value_or_throw()).break_lock("k", "to see it lost"));
  EXPECT_NE(told.get_future().get(), timer);
}

TEST_F(RedisRenewals, AreNotSentAgainBecauseTheirAnswersWereReadLate) {
  auto guard = locks->lock("k", {.ttl = 30s, .auto_renew = false});
  ASSERT_TRUE(guard.extend(30s));  // the server knows the script
  const auto connections = proxy->accepted();
  std::promise<void> reading_stops, reading_goes_on;
  locks->start(operation::IsLocked{"k"}, {}, [&](const Result<bool>&) {
    reading_stops.set_value();
    reading_goes_on.get_future().wait();
  });
  reading_stops.get_future().wait();
  const auto answered = proxy->passed(TcpProxy::Way::to_client);
  auto extending = std::async(std::launch::async, [&] { return guard.extend(600ms); });
  EXPECT_TRUE(eventually([&] { return proxy->passed(TcpProxy::Way::to_client) > answered; }));
  std::this_thread::sleep_for(110ms);  // a sixth of the ttl, after which a connection is taken for dead
  reading_goes_on.set_value();
  EXPECT_NO_THROW(extending.get());
  EXPECT_EQ(proxy->accepted(), connections);
}

TEST_F(RedisRenewals, UnderWayDoNotHoldUpThreadsThatWait) {
  const auto guard = locks->lock("renewed", {.ttl = 300ms});
  std::atomic<bool> stop = false;
  std::vector<std::jthread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&, i, mine = *locks]() mutable {
      while (!stop) mine.lock(std::to_string(i)).release();
    });
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(renewals->next_ends());
  stop = true;
  users.clear();
  EXPECT_TRUE(guard.still_held());
}

TEST_F(RedisRenewals, DoNotBreakAConnectionThatAnswersHoweverLongItsQueueIs) {
  auto options = server->tcp();
  options.port = proxy->port();
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  (void)extend(*backend, LockId::generate(), "k", 3s);  // the server knows the script
  const auto connections = proxy->accepted();
  // Five bytes an answer, a byte every 100 us: the last one comes after 0.75 s, a sixth of the ttl is 0.5 s.
  proxy->drip(TcpProxy::Way::to_client);
  constexpr int count = 1500;
  std::atomic<int> answered = 0;
  for (int i = 0; i < count; ++i) {
    backend->submit(ExtendRequest{.lock = {.id = LockId::generate(), .key = key("k")}, .ttl = ttl(3s)}, {},
                    [&](const Result<ExtendOutcome>&) { ++answered; });
  }
  EXPECT_TRUE(eventually([&] { return answered == count; }));
  EXPECT_EQ(proxy->accepted(), connections);
}

/// Sixteen at a time, each as long as a round trip, would be 80 a second.
TEST_F(RedisRenewals, OfManyGuardsFarAwayLoseNone) {
  proxy->delay(TcpProxy::Way::to_server, 100ms);
  proxy->delay(TcpProxy::Way::to_client, 100ms);
  constexpr std::size_t count = 600;
  std::vector<Guard> guards(count);
  for (std::size_t i = 0; i < count; ++i) {
    locks->start(operation::Lock{std::to_string(i), LockOptions{.ttl = 3s, .wait = 60s}}, {},
                 [&, i](Result<Guard> guard) {
                   ASSERT_TRUE(guard);
                   guards[i] = *std::move(guard);
                   guards[i].on_lost([&](LossReason) { ++lost; });
                   ++granted;
                 });
  }
  EXPECT_TRUE(eventually([&] { return granted == count; }));
  EXPECT_TRUE(eventually([&] { return renewals->ended() >= count || lost > 0; }));
  EXPECT_EQ(lost, 0U);
  proxy->forward();
  for (auto& guard : guards) guard.release_in_background();
}

}  // namespace
}  // namespace holdfast::test
