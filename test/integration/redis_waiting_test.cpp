// Waiting for a lock on Redis: woken by its release, by the next look otherwise, and not all at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

/// How many connections wait for messages.
std::ptrdiff_t listeners(const RedisServer& server) {
  return std::ranges::count(server.raw().text({"CLIENT", "LIST", "TYPE", "pubsub"}), '\n');
}

class RedisWaiting : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    backend = open();
  }
  std::shared_ptr<LockBackend> open() { return make_redis_lock_backend(server->tcp()).value_or_throw(); }
  /// Scripts run so far.
  std::int64_t calls() {
    const auto stats = server->raw().text({"INFO", "commandstats"});
    const auto at = stats.find("cmdstat_evalsha:calls=");
    return at == std::string::npos ? 0 : std::stoll(stats.substr(at + 22));
  }
  std::int64_t subscriptions() {
    const auto info = server->raw().text({"INFO", "stats"});
    return std::stoll(info.substr(info.find("pubsub_channels:") + 16));
  }
  void wait_for_a_subscription() {
    while (subscriptions() == 0) std::this_thread::sleep_for(1ms);
  }

  std::optional<RedisServer> server;
  std::shared_ptr<LockBackend> backend;
  const LockId id = LockId::generate();
};

TEST_F(RedisWaiting, AReleaseWakesAWaiterLongBeforeItWouldLookAgain) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  BootTime got = never;
  std::jthread waiter([&] {
    const auto guard =
        locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
    got = BootClock::now();
  });
  wait_for_a_subscription();
  std::this_thread::sleep_for(50ms);
  const BootTime released = BootClock::now();
  ASSERT_EQ(release(*backend, id, "k"), std::nullopt);
  waiter.join();
  EXPECT_LT(got - released, 20s);
}

TEST_F(RedisWaiting, ASilentReleaseIsFoundByLookingAgain) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::jthread releaser([&] {
    wait_for_a_subscription();
    server->raw().text({"DEL", "syncguard:k", "syncguard:id:" + std::string(id.str())});
  });
  EXPECT_TRUE(locks.lock("k", {.wait = 30s}).still_held());
}

TEST_F(RedisWaiting, ALockThatExpiresIsTakenThen) {
  ASSERT_TRUE(acquire(*backend, id, "k", 300ms));
  Locks locks(open());
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s) << "the refusal said when to look again";
}

TEST_F(RedisWaiting, AWaiterOutlivesTheLossOfItsSubscription) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::jthread trouble([&] {
    wait_for_a_subscription();
    auto raw = server->raw();
    raw.text({"CLIENT", "KILL", "TYPE", "pubsub"});
    while (subscriptions() == 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    release(*backend, id, "k");
  });
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s);
}

TEST_F(RedisWaiting, AReleaseThatNobodyHeardIsFoundWhenTheSubscriptionIsBack) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::jthread trouble([&] {
    wait_for_a_subscription();
    // In one breath: the waiter cannot be subscribed again in between.
    auto raw = server->raw();
    raw.text({"EVAL", "redis.call('DEL', KEYS[1], KEYS[2]) return redis.call('SET', 'unheard', '1')", "2",
              "syncguard:k", "syncguard:id:" + std::string(id.str())});
    raw.text({"CLIENT", "KILL", "TYPE", "pubsub"});
  });
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s);
}

TEST_F(RedisWaiting, AReleaseWhileNobodyCouldListenIsFoundWhenTheSubscriptionIsBack) {
  TcpProxy proxy(server->port());
  auto options = server->tcp();
  options.port = proxy.port();
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(make_redis_lock_backend(options).value_or_throw());
  std::jthread trouble([&] {
    wait_for_a_subscription();
    std::this_thread::sleep_for(50ms);
    proxy.refuse();
    server->raw().text({"CLIENT", "KILL", "TYPE", "pubsub"});
    std::this_thread::sleep_for(50ms);
    release(*backend, id, "k");
    std::this_thread::sleep_for(50ms);
    proxy.listen_again();
  });
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s);
}

/// One that only a message wakes in time.
constexpr LockOptions hardly_polling{
    .wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none};

TEST_F(RedisWaiting, ASubscriptionThatFallsSilentIsGivenUpAndMadeAnew) {
  RedisServer secure({.tls = true});
  for (const bool tls : {false, true}) {
    SCOPED_TRACE(tls ? "TLS" : "TCP");
    TcpProxy proxy(tls ? secure.tls_port() : secure.port());
    auto options = tls ? secure.tls() : secure.tcp();
    options.port = proxy.port();
    options.command_timeout = 1s;  // an attempt over the silent connection must not fail on a busy machine
    const auto holder = make_redis_lock_backend(secure.tcp()).value_or_throw();
    const auto own = LockId::generate();
    ASSERT_TRUE(acquire(*holder, own, "k"));
    Locks locks(make_redis_lock_backend(options).value_or_throw());
    std::jthread trouble([&] {
      EXPECT_TRUE(eventually([&] { return listeners(secure) == 1; }));
      proxy.silence();
      EXPECT_TRUE(eventually([&] { return listeners(secure) >= 2; })) << "the server has not noticed";
      EXPECT_EQ(release(*holder, own, "k"), std::nullopt);
    });
    const BootTime before = BootClock::now();
    const auto guard = locks.lock("k", hardly_polling);
    EXPECT_LT(BootClock::now() - before, 20s);
  }
}

TEST_F(RedisWaiting, AQuietSubscriptionThatAnswersIsKept) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  TcpProxy proxy(server->port());
  auto options = server->tcp();
  options.port = proxy.port();
  options.command_timeout = 50ms;
  Locks locks(make_redis_lock_backend(options).value_or_throw());
  std::jthread waiter([&] { (void)locks.lock("k", hardly_polling); });
  wait_for_a_subscription();
  const auto asked = [&] { return server->raw().text({"INFO", "commandstats"}); };
  EXPECT_TRUE(eventually([&] { return asked().find("cmdstat_subscribe:calls=5,") != std::string::npos; }))
      << asked();
  EXPECT_EQ(proxy.accepted(), 2U) << "one for calls, one for messages";
  ASSERT_EQ(release(*backend, id, "k"), std::nullopt);
}

TEST_F(RedisWaiting, AHurriedWaiterLooksThoughTheFirstInTheQueueDoesNotWantTo) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::stop_source enough;
  std::jthread unhurried([&] {
    try {
      (void)locks.lock("k", hardly_polling, enough.get_token());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Aborted) << error.what();
    }
  });
  while (calls() < 3) std::this_thread::sleep_for(1ms);  // it has asked twice, and waits
  std::this_thread::sleep_for(50ms);
  std::jthread releaser([&] {
    while (calls() < 5) std::this_thread::sleep_for(1ms);
    server->raw().text({"DEL", "syncguard:k", "syncguard:id:" + std::string(id.str())});
  });
  EXPECT_TRUE(locks.lock("k").still_held()) << "silently released, within its five seconds";
  enough.request_stop();
}

TEST_F(RedisWaiting, AServerThatDoesNotConfirmKeepsNobodyBeyondItsWait) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  // No room for the connection that listens.
  auto raw = server->raw();
  const auto info = raw.text({"INFO", "clients"});
  const auto clients = std::stoll(info.substr(info.find("connected_clients:") + 18));
  raw.text({"CONFIG", "SET", "maxclients", std::to_string(clients)});
  const BootTime before = BootClock::now();
  try {
    (void)locks.lock("k", {.wait = 100ms});
    ADD_FAILURE() << "it was held";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout) << error.what();
  }
  EXPECT_LT(BootClock::now() - before, 900ms) << "not as long as it would wait to be confirmed";

  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  try {
    (void)locks.lock("k", {.wait = 60s}, stop.get_token());
    ADD_FAILURE() << "it was held";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Aborted) << error.what();
  }
}

TEST_F(RedisWaiting, ManyWaitersOfOneProcessMakeFewAttempts) {
  constexpr int waiters = 60;
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::atomic<int> held = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < waiters; ++i) {
    threads.emplace_back([&] {
      const auto guard = locks.lock("k", {.wait = 60s});
      std::this_thread::sleep_for(5ms);
      ++held;
    });
  }
  // Everyone has asked twice: before and after it began to listen.
  while (calls() < 1 + 2 * waiters) std::this_thread::sleep_for(5ms);
  const auto before = calls();
  ASSERT_EQ(release(*backend, id, "k"), std::nullopt);
  threads.clear();
  EXPECT_EQ(held, waiters);
  const auto attempts = calls() - before - (waiters + 1);
  EXPECT_LE(attempts, 3 * (waiters + 1)) << "one a release, and what the first in the queue looks for all";
}

TEST_F(RedisWaiting, WaitersOfOneProcessAreServedInTheOrderTheyCame) {
  ASSERT_TRUE(acquire(*backend, id, "k"));
  Locks locks(open());
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    const auto before = calls();
    threads.emplace_back([&, i] {
      const auto guard = locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s});
      const std::lock_guard lock(mutex);
      order.push_back(i);
    });
    while (calls() < before + 2) std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(50ms);
  ASSERT_EQ(release(*backend, id, "k"), std::nullopt);
  threads.clear();
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(order.size(), 8U);
}

TEST_F(RedisWaiting, WithoutTheRightToListenWaitersPollAndTheLogSaysSoOnce) {
  RedisServer strict({.config = {"user silent on >pw ~syncguard:* resetchannels +@all"}});
  auto options = strict.tcp();
  options.user = "silent";
  options.password = "pw";
  auto log = std::make_shared<Log>();
  std::atomic<int> warnings = 0;
  log->set_sink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning && message.find("subscribe") != std::string_view::npos) ++warnings;
  });
  const auto holder = make_redis_lock_backend(options, log).value_or_throw();
  Locks locks(make_redis_lock_backend(options, log).value_or_throw(), log);
  for (int round = 0; round < 2; ++round) {
    const auto own = LockId::generate();
    ASSERT_TRUE(acquire(*holder, own, "k"));
    std::jthread releaser([&] {
      std::this_thread::sleep_for(100ms);
      EXPECT_EQ(release(*holder, own, "k"), std::nullopt) << "though it may not be announced";
    });
    EXPECT_TRUE(locks.lock("k", {.wait = 30s}).still_held());
  }
  log->flush();
  EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace holdfast::test
