// What a planned failover does to clients whose address leads to the new master, as a name or a proxy does.

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

class RedisFailover : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    old_master.emplace(RedisServer::Options{.config = {"repl-diskless-sync-delay 0"}});
    new_master.emplace(
        RedisServer::Options{.config = {"replicaof 127.0.0.1 " + std::to_string(old_master->port())}});
    proxy.emplace(old_master->port());
    ASSERT_TRUE(eventually([&] {
      return new_master->raw().text({"INFO", "replication"}).find("link_status:up") != std::string::npos;
    }));
  }
  std::shared_ptr<LockBackend> open() {
    RedisOptions options;
    options.port = proxy->port();
    return make_redis_lock_backend(options).value_or_throw();
  }
  /// The replica takes over, with all that the master has; connections that there are stay where they are.
  void fail_over() {
    ASSERT_EQ(old_master->raw().text({"FAILOVER"}), "OK");
    ASSERT_TRUE(eventually([&] {
      return new_master->raw().text({"INFO", "replication"}).find("role:master") != std::string::npos;
    }));
    proxy->lead_to(new_master->port());
  }

  /// Whether anyone waits for messages there.
  static bool listens(const RedisServer& server) {
    return server.raw().text({"PUBSUB", "CHANNELS"}).find("wake") != std::string::npos;
  }

  std::optional<RedisServer> old_master, new_master;
  std::optional<TcpProxy> proxy;
};

TEST_F(RedisFailover, GuardsLiveOnAtTheNewMasterAndLocksAreGrantedThere) {
  Locks locks(open());
  auto guard = locks.lock("k", {.ttl = 60s});
  fail_over();
  EXPECT_TRUE(eventually([&] {
    try {
      return guard.extend(60s);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable) << error.what();
      return false;
    }
  }));
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(locks.lock("another", {.wait = 10s}).still_held());
  EXPECT_TRUE(guard.release());
}

TEST_F(RedisFailover, WaitersListenToTheNewMaster) {
  const auto backend = open();
  const auto own = LockId::generate();
  ASSERT_TRUE(acquire(*backend, own, "k"));
  Locks locks(backend);
  std::jthread trouble([&] {
    EXPECT_TRUE(eventually([&] { return listens(*old_master); }));
    fail_over();
    // From here on the old one hears nothing of what the new one publishes.
    old_master->raw().text({"REPLICAOF", "127.0.0.1", "1"});
    EXPECT_FALSE(try_acquire(*backend, LockId::generate(), "another")) << "refused by the old one";
    EXPECT_TRUE(eventually([&] { return listens(*new_master); }));
    EXPECT_EQ(release(*backend, own, "k"), std::nullopt);
  });
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s);
}

}  // namespace
}  // namespace holdfast::test
