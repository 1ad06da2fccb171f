// Every error of the contract's list, as a real server says it: alone, and from inside a script.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "engine/redis/wire/errors.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using Words = std::vector<std::string>;

class RedisErrors : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }

  /// The error of a command that must fail.
  static Error error(RawRedis& raw, const Words& command) {
    const auto reply = raw.command(command);
    if (!redis::is_error(*reply)) throw std::runtime_error(command.front() + " did not fail");
    return redis::error_of(*reply);
  }
  static RedisOptions as_user(const RedisServer& server, const std::string& user) {
    auto where = server.unix_socket();
    where.user = user;
    where.password = "secret";
    return where;
  }
  static void expect(const Error& error, ErrorCode code, std::string_view word) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    EXPECT_NE(error.cause().find(word), std::string::npos) << error.what();
  }
  /// Waits for something that a server does in its own time.
  template <class Condition>
  static void eventually(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(condition());
  }

  const LockId id = LockId::generate();
};

TEST_F(RedisErrors, WrongCredentialsAreAuthFailed) {
  RedisServer server({.password = "secret"});
  auto where = server.unix_socket();
  where.password.clear();
  RawRedis raw(where);
  expect(error(raw, {"GET", "k"}), ErrorCode::AuthFailed, "NOAUTH");
  expect(error(raw, {"AUTH", "guess"}), ErrorCode::AuthFailed, "WRONGPASS");
  expect(error(raw, {"AUTH", "nobody", "guess"}), ErrorCode::AuthFailed, "WRONGPASS");
  RedisLocks locks(where, "p");
  expect(locks.try_release(id, "k").error(), ErrorCode::AuthFailed, "NOAUTH");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::AuthFailed, "unauthenticated");
}

TEST_F(RedisErrors, APasswordThatNobodyAskedForIsAuthFailed) {
  RedisServer server;
  auto raw = server.raw();
  expect(error(raw, {"AUTH", "guess"}), ErrorCode::AuthFailed, "without any password");
}

TEST_F(RedisErrors, MissingRightsAreAuthFailedAlsoInsideAScript) {
  RedisServer server({.config = {"user scripts on >secret ~p:* &* +@all -eval",   //
                                 "user keys on >secret ~other:* &* +@all",        //
                                 "user fences on >secret ~p:k ~p:id:* &* +@all",  //
                                 "user commands on >secret ~p:* &* +@all -set -incr",
                                 "user channels on >secret ~p:* resetchannels +@all"}});
  RawRedis channels(as_user(server, "channels"));
  expect(error(channels, {"SUBSCRIBE", "x"}), ErrorCode::AuthFailed, "NOPERM");
  for (const auto* user : {"scripts", "keys", "fences", "commands"}) {
    SCOPED_TRACE(user);
    RedisLocks locks(as_user(server, user), "p");
    const auto result = locks.try_acquire(id, "k");
    ASSERT_FALSE(result);
    EXPECT_EQ(to_string(result.error().code()), "AuthFailed") << result.error().what();
    EXPECT_EQ(result.error().key(), "k");
  }
  // The key of a release by id is not declared: the server refuses it while the script runs.
  auto root = server.raw();
  root.text({"SET", "p:id:" + std::string(id.str()), "p:k"});
  root.text({"ACL", "SETUSER", "commands", "-get"});
  RedisLocks locks(as_user(server, "commands"), "p");
  expect(locks.try_release(id).error(), ErrorCode::AuthFailed, "script");
}

TEST_F(RedisErrors, AWrongTypeIsInvalidArgument) {
  RedisServer server;
  RedisLocks locks(server.unix_socket(), "p");
  locks.raw.text({"RPUSH", "p:k", "x"});
  expect(error(locks.raw, {"GET", "p:k"}), ErrorCode::InvalidArgument, "WRONGTYPE");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::InvalidArgument, "WRONGTYPE");
}

TEST_F(RedisErrors, BadArgumentsAreInvalidArgument) {
  RedisServer server;
  auto raw = server.raw();
  expect(error(raw, {"SET", "k", "v", "XX", "NX"}), ErrorCode::InvalidArgument, "syntax error");
  expect(error(raw, {"SET", "k", "v", "PX", "0"}), ErrorCode::InvalidArgument, "invalid expire time");
  expect(error(raw, {"GET"}), ErrorCode::InvalidArgument, "wrong number of arguments");
  expect(error(raw, {"SELECT", "99"}), ErrorCode::InvalidArgument, "DB index is out of range");
  expect(error(raw, {"EVAL", "return redis.call('SET', 'k', 'v', 'PX', '-1')", "0"}),
         ErrorCode::InvalidArgument, "invalid expire time");
}

TEST_F(RedisErrors, AnUnknownCommandIsInternalAndItsArgumentsAreNotRepeated) {
  RedisServer server;
  auto raw = server.raw();
  const auto unknown = error(raw, {"AUHT", "hunter2"});
  expect(unknown, ErrorCode::Internal, "unknown command");
  EXPECT_EQ(std::string(unknown.what()).find("hunter2"), std::string::npos) << unknown.what();
}

TEST_F(RedisErrors, LoadingIsServiceUnavailable) {
  RedisServer server({.persistent = true});
  server.restart_into_loading();
  auto raw = server.raw();
  expect(error(raw, {"GET", "k"}), ErrorCode::ServiceUnavailable, "LOADING");
  RedisLocks locks(server.unix_socket(), "p");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "LOADING");
}

TEST_F(RedisErrors, AReplicaIsServiceUnavailable) {
  RedisServer master({.config = {"repl-diskless-sync-delay 0"}});
  RedisServer replica({.config = {"replicaof 127.0.0.1 " + std::to_string(master.port())}});
  RedisLocks locks(replica.unix_socket(), "p");
  eventually([&] {
    return locks.raw.text({"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
  });
  expect(error(locks.raw, {"SET", "k", "v"}), ErrorCode::ServiceUnavailable, "READONLY");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "READONLY");
  EXPECT_TRUE(locks.try_is_locked("k")) << "reading is allowed there";

  locks.raw.text({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  master.kill();
  eventually([&] {
    return locks.raw.text({"INFO", "replication"}).find("master_link_status:down") != std::string::npos;
  });
  expect(error(locks.raw, {"GET", "k"}), ErrorCode::ServiceUnavailable, "MASTERDOWN");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "MASTERDOWN");
}

TEST_F(RedisErrors, TooFewReplicasAreServiceUnavailable) {
  RedisServer server({.config = {"min-replicas-to-write 1"}});
  RedisLocks locks(server.unix_socket(), "p");
  expect(error(locks.raw, {"SET", "k", "v"}), ErrorCode::ServiceUnavailable, "NOREPLICAS");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "NOREPLICAS");
}

TEST_F(RedisErrors, AServerThatCannotSaveIsServiceUnavailable) {
  RedisServer server;
  RedisLocks locks(server.unix_socket(), "p");
  locks.raw.text({"CONFIG", "SET", "save", "3600 1000"});
  // A snapshot cannot take the place of a directory.
  std::filesystem::create_directory(server.directory() / "dump.rdb");
  locks.raw.text({"BGSAVE"});
  eventually([&] {
    return locks.raw.text({"INFO", "persistence"}).find("rdb_last_bgsave_status:err") != std::string::npos;
  });
  expect(error(locks.raw, {"SET", "k", "v"}), ErrorCode::ServiceUnavailable, "MISCONF");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "MISCONF");
}

TEST_F(RedisErrors, OutOfMemoryIsRateLimitedAndNothingIsHeld) {
  RedisServer server;
  RedisLocks locks(server.unix_socket(), "p");
  ASSERT_TRUE(locks.acquire(id, "held"));
  locks.raw.text({"CONFIG", "SET", "maxmemory", "1"});
  expect(error(locks.raw, {"SET", "k", "v"}), ErrorCode::RateLimited, "OOM");
  expect(locks.try_acquire(LockId::generate(), "k").error(), ErrorCode::RateLimited, "OOM");
  EXPECT_FALSE(*locks.try_is_locked("k"));
  EXPECT_FALSE(locks.release(id, "held")) << "a lock can be given back even then";
}

TEST_F(RedisErrors, ALongScriptIsServiceUnavailable) {
  RedisServer server({.config = {"busy-reply-threshold 1"}});
  auto busy = server.raw();
  busy.send({"EVAL", "while true do end", "0"});
  RedisLocks locks(server.unix_socket(), "p");
  eventually([&] { return redis::is_error(*locks.raw.command({"GET", "k"})); });
  expect(error(locks.raw, {"GET", "k"}), ErrorCode::ServiceUnavailable, "BUSY");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "BUSY");
  locks.raw.text({"SCRIPT", "KILL"});
  expect(redis::error_of(*busy.receive()), ErrorCode::ServiceUnavailable, "Script killed by user");
}

TEST_F(RedisErrors, ServersFullOfConnectionsAreServiceUnavailable) {
  RedisServer server;
  auto raw = server.raw();
  raw.text({"CONFIG", "SET", "maxclients", "1"});
  auto one_too_many = server.raw();
  expect(redis::error_of(*one_too_many.receive()), ErrorCode::ServiceUnavailable, "max number of clients");
}

TEST_F(RedisErrors, AServerThatCannotBeUsedIsExplainedWhenItIsOpened) {
  const RedisServer member({.config = {"cluster-enabled yes"}});
  const auto cluster = make_redis_lock_backend(member.tcp());
  ASSERT_FALSE(cluster);
  EXPECT_EQ(to_string(cluster.error().code()), "InvalidArgument");
  EXPECT_NE(cluster.error().message().find("member of a cluster"), std::string::npos);
  EXPECT_FALSE(make_redis_storage_backend(member.tcp())) << "for tasks too";

  RedisServer secure({.tls = true});
  auto plain = secure.tls();
  plain.tls = false;
  const auto tls_port = make_redis_lock_backend(plain);
  ASSERT_FALSE(tls_port);
  EXPECT_NE(tls_port.error().message().find("rediss://"), std::string::npos) << tls_port.error().what();

  RedisServer strict({.config = {"user locks on >secret ~* &* +@all"}});
  auto nameless = strict.tcp();
  nameless.user = "locks";
  const auto without_password = make_redis_lock_backend(nameless);
  ASSERT_FALSE(without_password);
  EXPECT_EQ(to_string(without_password.error().code()), "AuthFailed");
  EXPECT_NE(without_password.error().message().find("password_file"), std::string::npos);

  RedisServer stopped;
  auto hasty = stopped.tcp();
  hasty.connect_timeout = 100ms;
  stopped.pause();
  const auto hanging = make_redis_lock_backend(hasty);
  stopped.resume();
  ASSERT_FALSE(hanging);
  EXPECT_EQ(to_string(hanging.error().code()), "NetworkTimeout");
  EXPECT_NE(hanging.error().message().find("connected, but the server did not answer within "),
            std::string::npos)
      << hanging.error().what();
}

TEST_F(RedisErrors, AWrongSchemeIsNamedOnEveryTopology) {
  RedisServer both({.tls = true});
  for (const bool tls : {true, false}) {
    auto options = tls ? both.tls() : both.tcp();
    options.port = tls ? both.port() : both.tls_port();
    options.connect_timeout = 500ms;
    const RedisAddress address{.host = options.host, .port = options.port};
    auto by_sentinel = options, in_cluster = options;
    by_sentinel.sentinels = {address};
    by_sentinel.sentinel_service = "s";
    in_cluster.cluster_nodes = {address};
    const std::string scheme = tls ? "for a port without TLS use redis" : "for a TLS port use rediss";
    for (const auto& [where, word] : {std::pair(options, "://"), std::pair(by_sentinel, "+sentinel://"),
                                      std::pair(in_cluster, "+cluster://")}) {
      const auto opened = make_redis_lock_backend(where);
      ASSERT_FALSE(opened);
      EXPECT_NE(opened.error().message().find(scheme + word), std::string::npos) << opened.error().what();
    }
  }
}

TEST_F(RedisErrors, NodesOfAClusterThatFailForTheSameReasonAreNamedTogether) {
  auto options = parse_redis_url("redis+cluster://127.0.0.1:1,127.0.0.1:2").value_or_throw();
  const auto opened = make_redis_lock_backend(options);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("nodes 127.0.0.1:1 and 127.0.0.1:2: cannot connect"),
            std::string::npos)
      << opened.error().what();
}

TEST_F(RedisErrors, AnAddressThatOnlyTheClusterKnowsLeadsToConnectTo) {
  RedisServer node(
      {.config = {"cluster-enabled yes", "cluster-announce-ip 127.0.0.1", "cluster-announce-port 1"}});
  node.raw().text({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  auto options = node.tcp();
  options.cluster_nodes = {{.host = options.host, .port = options.port}};
  options.connect_timeout = options.command_timeout = 1s;
  // Whatever the operation is: an acquire waits for the epoch of its master.
  const auto locks = make_redis_lock_backend(options).value_or_throw();
  for (const auto& error : {try_acquire(*locks, id, "k").error(), list(*locks).error()}) {
    EXPECT_NE(error.message().find("map it with connect_to"), std::string::npos) << error.what();
  }
}

TEST_F(RedisErrors, AClusterThatIsDownOrMovingKeysIsServiceUnavailable) {
  RedisServer source({.config = {"cluster-enabled yes"}});
  RedisServer target({.config = {"cluster-enabled yes"}});
  auto from = source.raw();
  auto to = target.raw();
  RedisLocks locks(source.unix_socket(), "{p}");
  expect(error(from, {"GET", "k"}), ErrorCode::ServiceUnavailable, "CLUSTERDOWN");
  expect(locks.try_acquire(id, "k").error(), ErrorCode::ServiceUnavailable, "CLUSTERDOWN");

  from.text({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  from.text({"CLUSTER", "MEET", "127.0.0.1", std::to_string(target.port())});
  eventually([&] { return !redis::is_error(*from.command({"SET", "{p}:here", "v"})); });
  const auto slot = from.text({"CLUSTER", "KEYSLOT", "{p}"});
  const auto target_id = to.text({"CLUSTER", "MYID"});
  eventually(
      [&] { return !redis::is_error(*from.command({"CLUSTER", "SETSLOT", slot, "MIGRATING", target_id})); });
  expect(error(from, {"MGET", "{p}:here", "{p}:there"}), ErrorCode::ServiceUnavailable, "TRYAGAIN");
}

}  // namespace
}  // namespace holdfast::test
