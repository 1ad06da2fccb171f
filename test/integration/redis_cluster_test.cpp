// Redirections, maps and epochs of a cluster, by nodes that answer as a test says.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/redis/conn/slot.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_cluster.hpp"

namespace holdfast::test {
namespace {

/// Two nodes that answer as their scripts say. Both announce that the first has all slots.
class FakeCluster {
 public:
  /// The answer to a command that reaches `node`; empty: the polite one.
  using Script = std::function<std::string(std::size_t node, const FakeRedis::Words& command)>;

  explicit FakeCluster(Script script)
      : script_(std::move(script)),
        first_([this](const auto& words) { return answer(0, words); }),
        second_([this](const auto& words) { return answer(1, words); }) {
    ready_ = true;
  }

  [[nodiscard]] RedisOptions options() const {
    RedisOptions where;
    where.cluster_nodes = {{.host = "127.0.0.1", .port = first_.port()}};
    where.layout = RedisLayout::documented;
    where.lock_prefix = where.task_prefix = "{p}";
    return where;
  }
  [[nodiscard]] std::uint16_t port(std::size_t node) const {
    return node == 0 ? first_.port() : second_.port();
  }
  /// "MOVED 1 127.0.0.1:port" for the slot of {p}.
  [[nodiscard]] std::string redirect(const std::string& word, std::size_t node) const {
    return "-" + word + " " + std::to_string(redis::slot_of("p")) +
           " 127.0.0.1:" + std::to_string(port(node)) + "\r\n";
  }
  std::atomic<std::size_t> owner = 0;
  /// How much higher its own epoch is than the one in the map.
  std::atomic<std::size_t> more_epochs = 0;
  std::atomic<bool> epoch_is_refused = false;
  /// The second node does not know the user.
  std::atomic<bool> second_refuses_login = false;
  std::atomic<int> refused_logins = 0;
  /// The port of one more master in the map; 0: there is none.
  std::atomic<std::uint16_t> third = 0;
  /// Redis 7: it has sharded channels, and only the owner of all slots serves them.
  std::atomic<bool> has_sharded_channels = false;
  [[nodiscard]] bool heard_by_second(const std::string& command) const {
    return std::ranges::any_of(second_.heard(), [&](const auto& words) { return words[0] == command; });
  }

 private:
  static std::string id(std::size_t node) { return std::string(40, node == 0 ? 'a' : 'b'); }
  std::string nodes() const {
    std::string text;
    for (std::size_t node = 0; node < 2; ++node) {
      text += id(node) + " 127.0.0.1:" + std::to_string(port(node)) + "@1 master - 0 0 " +
              std::to_string(node + 1) + " connected" + (owner == node ? " 0-16382" : "") + "\n";
    }
    if (third != 0)
      text += std::string(40, 'c') + " 127.0.0.1:" + std::to_string(third) +
              "@1 master - 0 0 3 connected 16383\n";
    return text;
  }
  std::string ranges() const {
    if (!has_sharded_channels) return "*0\r\n";
    return "*1\r\n*3\r\n:0\r\n:16382\r\n*4\r\n" + FakeRedis::bulk("127.0.0.1") + ":" +
           std::to_string(port(owner)) + "\r\n" + FakeRedis::bulk(id(owner)) + "*0\r\n";
  }
  FakeRedis::Answer answer(std::size_t node, const FakeRedis::Words& words) {
    while (!ready_) std::this_thread::yield();
    if (words[0] == "CLUSTER" && words[1] == "INFO") {
      if (epoch_is_refused)
        return {"-NOPERM this user has no permissions to run the 'cluster|info' command\r\n"};
      return {FakeRedis::bulk("cluster_my_epoch:" + std::to_string(node + 1 + more_epochs) + "\r\n")};
    }
    if (words[0] == "CLUSTER") return {words[1] == "NODES" ? FakeRedis::bulk(nodes()) : ranges()};
    if (words[0] == "SSUBSCRIBE" && node != owner) return {redirect("MOVED", owner)};
    if (words[0] == "SSUBSCRIBE")
      return {"*3\r\n" + FakeRedis::bulk("ssubscribe") + FakeRedis::bulk(words[1]) + ":1\r\n"};
    if (words[0] == "HELLO" && node == 1 && second_refuses_login) {
      ++refused_logins;
      return {"-WRONGPASS invalid username-password pair or user is disabled.\r\n"};
    }
    if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("cluster")};
    if (words[0] == "GET") return {FakeRedis::bulk("authority")};
    if (words[0] == "EVALSHA" || words[0] == "EVAL") {
      if (auto special = script_(node, words); !special.empty()) return {std::move(special)};
      return {":1\r\n"};
    }
    return FakeRedis::politely(words);
  }

  Script script_;
  std::atomic<bool> ready_ = false;
  FakeRedis first_, second_;
};

TEST(RedisCluster, ACallIsSentAroundUntilANodeCarriesItOut) {
  std::atomic<int> asked = 0, carried_out = 0;
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const auto&) -> std::string {
    if (++asked <= 20) return self->redirect("MOVED", 1 - node);
    ++carried_out;
    return ":1\r\n";
  });
  self = &cluster;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_EQ(asked, 21);
  EXPECT_EQ(carried_out, 1);
}

TEST(RedisCluster, ARedirectedReleaseIsNoRepetition) {
  std::mutex mutex;
  std::vector<std::size_t> copies;
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const auto&) -> std::string {
    const std::lock_guard lock(mutex);
    copies.push_back(node);
    if (copies.size() < 4) return self->redirect("MOVED", 1 - node);
    return ":-1\r\n";  // absent: a repeated release would read evidence next
  });
  self = &cluster;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_EQ(release(*backend, LockId::generate(), "k"), Absence::not_found);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(copies.size(), 4U);
}

TEST(RedisCluster, AnAskedCallComesBehindItsAskingAndTheSlotStays) {
  std::mutex mutex;
  std::vector<std::string> heard;
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const auto&) -> std::string {
    const std::lock_guard lock(mutex);
    heard.push_back(std::to_string(node));
    return node == 0 ? self->redirect("ASK", 1) : "";
  });
  self = &cluster;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_TRUE(is_locked(*backend, "k"));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(heard, (std::vector<std::string>{"0", "1", "0", "1"}));
}

TEST(RedisCluster, ACallPausesWhileItsKeysAreSplit) {
  std::atomic<int> asked = 0;
  FakeCluster cluster([&](std::size_t, const auto&) -> std::string {
    return ++asked < 6 ? "-TRYAGAIN Multiple keys request during rehashing of slot\r\n" : ":1\r\n";
  });
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_EQ(asked, 6);
}

TEST(RedisCluster, AStormOfRedirectionsEndsAtTheDeadline) {
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const auto&) { return self->redirect("MOVED", 1 - node); });
  self = &cluster;
  auto options = cluster.options();
  options.command_timeout = 1s;  // time to connect to both on a busy machine
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  const auto outcome = try_acquire(*backend, LockId::generate(), "k");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::ServiceUnavailable) << outcome.error().what();
}

TEST(RedisCluster, AGrantCarriesTheEpochOfTheOwnerAfterAMove) {
  std::mutex mutex;
  std::vector<std::string> floors;
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const FakeRedis::Words& words) -> std::string {
    const std::lock_guard lock(mutex);
    floors.push_back(words.back());
    if (node == 0) {
      self->owner = 1;
      return self->redirect("MOVED", 1);
    }
    return ":1000\r\n";
  });
  self = &cluster;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_FALSE(acquire(*backend, LockId::generate(), "k"));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(floors, (std::vector<std::string>{"000001000000000", "000002000000000"}));
}

TEST(RedisCluster, AGrantCarriesTheEpochThatItsMasterTellsNotThatOfAnOldMap) {
  std::mutex mutex;
  std::vector<std::string> floors;
  FakeCluster cluster([&](std::size_t, const FakeRedis::Words& words) -> std::string {
    const std::lock_guard lock(mutex);
    floors.push_back(words.back());
    return ":1000\r\n";
  });
  cluster.more_epochs = 5;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_FALSE(acquire(*backend, LockId::generate(), "k"));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(floors, std::vector<std::string>{"000006000000000"});
}

TEST(RedisCluster, AGrantCarriesTheConfiguredFloorIfThatIsAboveTheEpoch) {
  std::mutex mutex;
  std::vector<std::string> floors;
  FakeCluster cluster([&](std::size_t, const FakeRedis::Words& words) -> std::string {
    const std::lock_guard lock(mutex);
    floors.push_back(words.back());
    return ":1000\r\n";
  });
  for (const std::uint64_t floor : {41U, 1'500'000'041U}) {
    auto options = cluster.options();
    options.fence_floor = floor;
    const auto backend = make_redis_lock_backend(options).value_or_throw();
    EXPECT_FALSE(acquire(*backend, LockId::generate(), "k"));
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(floors, (std::vector<std::string>{"000001000000000", "000001500000041"}));
}

TEST(RedisCluster, AUserWhoMayNotAskForTheEpochIsToldSo) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(); });
  cluster.epoch_is_refused = true;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  const auto outcome = try_acquire(*backend, LockId::generate(), "k");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::AuthFailed) << outcome.error().what();
}

TEST(RedisCluster, AUserWhoHasGotTheRightToAskForTheEpochIsServedAtOnce) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(); });
  cluster.epoch_is_refused = true;
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  ASSERT_FALSE(try_acquire(*backend, LockId::generate(), "k"));
  cluster.epoch_is_refused = false;
  std::this_thread::sleep_for(200ms);  // the master is asked again no sooner than after 100 ms
  const auto outcome = try_acquire(*backend, LockId::generate(), "k");
  EXPECT_TRUE(outcome) << outcome.error().what();
}

/// Its completions run on the thread that ends calls which wait for a map, and one of them waits for a map.
TEST(RedisCluster, ACompletionMayWaitForACallThatNeedsANewMap) {
  std::atomic<bool> is_down = true;
  FakeCluster cluster([&](std::size_t, const auto&) {
    return std::string(is_down ? "-CLUSTERDOWN The cluster is down\r\n" : "");
  });
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  std::atomic<int> ended = 0;
  backend->submit(IsLockedRequest{.key = key("k"), .deadline = BootClock::now() + 200ms}, {},
                  Done<bool>([&](const Result<bool>& first) {
                    EXPECT_FALSE(first.ok());
                    std::jthread repaired([&] {
                      std::this_thread::sleep_for(100ms);
                      is_down = false;
                    });
                    const auto second =
                        call(*backend, IsLockedRequest{.key = key("l"), .deadline = BootClock::now() + 5s});
                    EXPECT_TRUE(second.ok());
                    ++ended;
                  }));
  EXPECT_TRUE(eventually([&] { return ended == 1; }));
}

std::ptrdiff_t count_threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::distance(begin(all), end(all));
}

TEST(RedisCluster, AfterItsEndNoThreadLooksForAClusterThatIsGone) {
  std::thread([] {}).join();  // with the first one ThreadSanitizer starts its own
  const auto before = count_threads();
  std::optional<FakeCluster> cluster;
  cluster.emplace([](std::size_t, const auto&) { return std::string(); });
  auto options = cluster->options();
  options.command_timeout = 300ms;
  auto backend = make_redis_lock_backend(options).value_or_throw();
  cluster.reset();
  const auto asked = call(*backend, IsLockedRequest{.key = key("k")});
  EXPECT_FALSE(asked.ok());
  backend.reset();
  EXPECT_TRUE(eventually([&] { return count_threads() <= before; })) << count_threads() << " of " << before;
}

TEST(RedisCluster, AUserWhomTheMasterOfALockDoesNotKnowIsToldSoAtOnce) {
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t, const auto&) { return self->redirect("MOVED", 1); });
  self = &cluster;
  auto options = cluster.options();
  options.command_timeout = 3s;
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  cluster.owner = 1;
  cluster.second_refuses_login = true;
  const auto outcome = try_acquire(*backend, LockId::generate(), "k");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::AuthFailed) << outcome.error().what();
  EXPECT_LE(cluster.refused_logins, 3) << "it tried until the deadline";
}

/// Each of them would cost a second of a failover, and a cluster whose nodes get new addresses leaves more
/// and more.
TEST(RedisCluster, ANodeThatHasLeftIsAskedForNoMap) {
  std::atomic<int> calls = 0;
  FakeCluster* self = nullptr;
  FakeRedis left([](const FakeRedis::Words& words) -> FakeRedis::Answer {
    if (words[0] == "CLUSTER") return {""};
    if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("cluster")};
    return FakeRedis::politely(words);
  });
  FakeCluster cluster([&](std::size_t, const auto&) -> std::string {
    switch (++calls) {
      case 1:
        self->third = 0;
        return self->redirect("MOVED", 0);
      case 2:
      case 3:
      case 4:
        return "-CLUSTERDOWN The cluster is down\r\n";
      default:
        return ":1\r\n";
    }
  });
  self = &cluster;
  cluster.third = left.port();
  const auto backend = make_redis_lock_backend(cluster.options()).value_or_throw();
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_TRUE(is_locked(*backend, "k"));
  EXPECT_EQ(calls, 6);
  const auto heard = left.heard();
  EXPECT_TRUE(std::ranges::none_of(heard, [](const auto& words) { return words[0] == "CLUSTER"; }));
}

/// A node of the URL that knows only these lines of CLUSTER NODES.
FakeRedis::Script knows_only(const std::string& nodes) {
  return [nodes](const FakeRedis::Words& words) -> FakeRedis::Answer {
    if (words[0] == "CLUSTER") return {words[1] == "NODES" ? FakeRedis::bulk(nodes) : "*0\r\n"};
    if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("cluster")};
    return FakeRedis::politely(words);
  };
}

TEST(RedisCluster, ANodeThatWasRemovedAndResetDoesNotHideTheOthers) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(); });
  const FakeRedis removed(
      knows_only(std::string(40, 'r') + " :7000@17000 myself,master - 0 0 0 connected\n"));
  auto options = cluster.options();
  options.cluster_nodes.insert(options.cluster_nodes.begin(), {.host = "127.0.0.1", .port = removed.port()});
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  EXPECT_TRUE(is_locked(*backend, "k"));
  options.cluster_nodes.pop_back();
  const auto refused = make_redis_lock_backend(options);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().transient()) << refused.error().what();
  EXPECT_NE(refused.error().message().find("knows no master"), std::string::npos) << refused.error().what();
}

TEST(RedisCluster, ANodeWhoseMapIsOldDoesNotHideTheOthers) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(); });
  const auto gone = std::to_string(free_loopback_port());
  const FakeRedis old(
      knows_only(std::string(40, 'g') + " 127.0.0.1:" + gone + "@1 master - 0 0 1 connected 0-16383\n"));
  auto options = cluster.options();
  options.cluster_nodes.insert(options.cluster_nodes.begin(), {.host = "127.0.0.1", .port = old.port()});
  options.layout = RedisLayout::native;  // whose locks need no marker to be opened
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  EXPECT_EQ(release(*backend, LockId::generate(), "k"), std::nullopt) << "carried out by the second node";
}

/// A waiter that sleeps sends no call that would find out. One that did may have read the map of a node that
/// did not know of the move yet.
TEST(RedisCluster, ASubscriberThatIsSentToAnotherNodeReadsTheMapAnew) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(":60000\r\n"); });
  cluster.has_sharded_channels = true;
  auto options = cluster.options();
  options.layout = RedisLayout::native;
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  cluster.owner = 1;
  std::stop_source stop;
  std::jthread waiter([&] {
    try {
      (void)Locks(backend).lock("k", {.wait = 60s, .base_delay = 50s, .max_delay = 50s}, stop.get_token());
    } catch (const Error&) {
      return;  // stopped
    }
    ADD_FAILURE() << "the lock is held";
  });
  EXPECT_TRUE(eventually([&] { return cluster.heard_by_second("SSUBSCRIBE"); }, 20s));
  stop.request_stop();
}

/// A redirected renewal is answered on the background thread of another node; what that thread sends again
/// has no guest.
TEST(RedisCluster, ARenewalThatIsRedirectedToANodeWithoutItsScriptIsSentAgain) {
  std::atomic<int> renewed = 0;
  FakeCluster* self = nullptr;
  FakeCluster cluster([&](std::size_t node, const FakeRedis::Words& words) -> std::string {
    const bool is_acquire = words[2] == "4";
    if (is_acquire) {
      return "*4\r\n:1\r\n" + FakeRedis::bulk("000001000000001") + ":1\r\n" + FakeRedis::bulk("authority");
    }
    if (node == 0) return self->redirect("MOVED", 1);
    if (words[0] == "EVALSHA") return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    ++renewed;
    return "*2\r\n:1\r\n:1\r\n";
  });
  self = &cluster;
  Locks locks(make_redis_lock_backend(cluster.options()).value_or_throw());
  auto guard = locks.lock("k", {.ttl = 3s});
  EXPECT_TRUE(eventually([&] { return renewed >= 1 || !guard.still_held(); }, 10s));
  EXPECT_TRUE(guard.still_held());
}

TEST(RedisCluster, APrefixWithoutATagIsRefusedWithAnExplanation) {
  FakeCluster cluster([](std::size_t, const auto&) { return std::string(); });
  auto options = cluster.options();
  options.lock_prefix = "syncguard";
  const auto refused = make_redis_lock_backend(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_NE(refused.error().message().find("lock_prefix={syncguard}"), std::string::npos);
  options.task_prefix = "pmcp";
  EXPECT_NE(make_redis_storage_backend(options).error().message().find("task_prefix={pmcp}"),
            std::string::npos);
}

TEST(RedisCluster, NodesThatDoNotAnswerShareTheTimeToConnect) {
  std::vector<std::unique_ptr<FakeRedis>> nodes;
  RedisOptions where;
  where.connect_timeout = 500ms;
  for (int i = 0; i < 6; ++i) {
    nodes.push_back(std::make_unique<FakeRedis>([](const FakeRedis::Words& words) -> FakeRedis::Answer {
      if (words[0] == "CLUSTER") return {""};
      if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("cluster")};
      return FakeRedis::politely(words);
    }));
    where.cluster_nodes.push_back({.host = "127.0.0.1", .port = nodes.back()->port()});
  }
  const auto begun = BootClock::now();
  const auto opened = make_redis_lock_backend(where);
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().transient()) << opened.error().what();
  EXPECT_LT(BootClock::now() - begun, 2s) << "not that time for each of them";
}

TEST(RedisCluster, ASingleServerIsNoCluster) {
  const FakeRedis server([](const FakeRedis::Words& words) -> FakeRedis::Answer {
    if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("standalone")};
    return FakeRedis::politely(words);
  });
  RedisOptions options;
  options.cluster_nodes = {{.host = "127.0.0.1", .port = server.port()}};
  options.lock_prefix = "{p}";
  const auto refused = make_redis_lock_backend(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
}

TEST(RedisCluster, IsReachedAtItsTlsPorts) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server({.tls = true, .config = {"cluster-enabled yes", "tls-cluster yes"}});
  server.raw().text({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  ASSERT_TRUE(eventually([&] { return !redis::is_error(*server.raw().command({"GET", "k"})); }));
  auto options = server.tls();
  options.cluster_nodes = {{.host = "localhost", .port = server.tls_port()}};
  options.lock_prefix = "{p}";
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  EXPECT_TRUE(acquire(*backend, LockId::generate(), "k"))
      << "the node announces no host: it is the one asked";

  options.cluster_nodes = {{.host = "node.invalid", .port = 1}};
  options.cluster_connect_to = {{.announced = {.host = "node.invalid", .port = 1},
                                 .reached_at = {.host = "127.0.0.1", .port = server.tls_port()}}};
  const auto unknown = make_redis_lock_backend(options);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::AuthFailed) << "the certificate is not for the announced name";
  options.tls_server_name = "localhost";
  const auto mapped = make_redis_lock_backend(options);
  EXPECT_TRUE(mapped) << mapped.error().what();

  options.tls_server_name.clear();
  options.cluster_nodes = {{.host = "127.0.0.1", .port = server.tls_port()}};
  const auto unnamed = make_redis_lock_backend(options);
  ASSERT_FALSE(unnamed) << "the end of a tunnel to a node that announces another name than its certificate";
  EXPECT_EQ(unnamed.error().code(), ErrorCode::AuthFailed);
  options.cluster_connect_to = {{.announced = {.host = "localhost", .port = 1},
                                 .reached_at = {.host = "127.0.0.1", .port = server.tls_port()}}};
  const auto tunnel = make_redis_lock_backend(options);
  EXPECT_TRUE(tunnel) << "the URL names the end of a tunnel: " << tunnel.error().what();
}

}  // namespace
}  // namespace holdfast::test
