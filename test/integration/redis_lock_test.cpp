// The lock engine on Redis where answers get lost: what nobody knows is never taken for "no", and nothing
// that was given up holds a lock later.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <set>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using Way = TcpProxy::Way;

class RedisLock : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    direct = make_redis_lock_backend(server->tcp()).value_or_throw();
    RedisOptions options;
    options.port = proxy->port();
    options.connect_timeout = 300ms;
    options.command_timeout = 300ms;
    proxied = make_redis_lock_backend(options).value_or_throw();
  }
  std::int64_t exists(const std::string& name) { return server->raw().integer({"EXISTS", name}); }
  /// Leaves the record of a 60 s lock as a restore or a PERSIST by hand would: there, but 3 s past its time.
  void outlive_its_time(const std::string& user_key) {
    auto raw = server->raw();
    const auto name = "syncguard:" + user_key;
    auto record = raw.text({"GET", name});
    const auto expires_at = to_ms(lookup(*direct, user_key)->expires_at);
    const auto expiry = std::to_string(expires_at);
    record.replace(record.find(expiry), expiry.size(), std::to_string(expires_at - 63'000));
    raw.text({"SET", name, record});
  }
  static std::string index_of(const LockId& of) { return "syncguard:id:" + std::string(of.str()); }

  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<LockBackend> direct;   ///< undisturbed
  std::shared_ptr<LockBackend> proxied;  ///< through the proxy, with little patience
  const LockId id = LockId::generate();
};

TEST_F(RedisLock, AnAcquireWhoseAnswerIsLostEndsAsUnknownAndMayHoldTheLock) {
  ASSERT_TRUE(acquire(*proxied, LockId::generate(), "warm"));  // the server knows the script
  proxy->swallow(Way::to_client);
  const auto result = try_acquire(*proxied, id, "k");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transient());
  EXPECT_EQ(result.error().key(), "k");
  EXPECT_EQ(lookup(*direct, "k")->id, id) << "it was carried out";
  proxy->forward();
  EXPECT_TRUE(acquire(*proxied, id, "k")) << "asking again is the same request";
}

TEST_F(RedisLock, ADelayedAcquireIsNotGrantedAfterItsRelease) {
  proxy->swallow(Way::to_server);
  ASSERT_FALSE(try_acquire(*proxied, id, "k"));
  proxy->forward();
  EXPECT_EQ(release(*proxied, id, "k"), Absence::not_found);
  // Now the first request arrives after all.
  const auto late = try_acquire(*direct, id, "k");
  EXPECT_FALSE(late && std::holds_alternative<Granted>(*late));
  EXPECT_FALSE(is_locked(*direct, "k"));
  const auto next = LockId::generate();
  EXPECT_TRUE(acquire(*direct, next, "k")) << "the key itself is free";
}

TEST_F(RedisLock, ACopyOfAnAnsweredAcquireIsNotGrantedAfterItsReleaseEither) {
  // The first copy's connection breaks, the second copy is answered.
  proxy->cut_after(Way::to_client, 1);
  ASSERT_TRUE(acquire(*proxied, id, "k"));
  EXPECT_EQ(release(*proxied, id, "k"), std::nullopt);
  EXPECT_FALSE(try_acquire(*direct, id, "k"));
  EXPECT_FALSE(is_locked(*direct, "k"));
}

TEST_F(RedisLock, AReleaseLeavesNothingBehindWhenEveryAnswerCame) {
  ASSERT_TRUE(acquire(*proxied, id, "k"));
  ASSERT_EQ(release(*proxied, id, "k"), std::nullopt);
  EXPECT_EQ(exists(index_of(id)), 0);
  EXPECT_EQ(exists("syncguard:k"), 0);
  EXPECT_EQ(exists("syncguard:fence:syncguard:k"), 1) << "a fence counter stays forever";
}

TEST_F(RedisLock, ATombstoneGoesByItself) {
  proxy->swallow(Way::to_server);
  ASSERT_FALSE(try_acquire(*proxied, id, "k"));
  proxy->forward();
  (void)release(*proxied, id, "k");
  const auto left = server->raw().integer({"PTTL", index_of(id)});
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 60'000);
}

TEST_F(RedisLock, AnExtendWhoseAnswerIsLostIsAskedAgain) {
  ASSERT_TRUE(acquire(*proxied, id, "k", 30s));
  proxy->cut_after(Way::to_client, 1);
  const auto outcome = extend(*proxied, id, "k", 90s);
  ASSERT_TRUE(std::holds_alternative<Extended>(outcome));
  EXPECT_EQ(lookup(*direct, "k")->expires_at, std::get<Extended>(outcome).expires_at);
}

TEST_F(RedisLock, AnUnansweredRenewalIsRepeatedOnANewConnection) {
  RedisOptions options;
  options.port = proxy->port();
  options.connect_timeout = 500ms;
  Locks locks(make_redis_lock_backend(options).value_or_throw());  // command_timeout: 5 s
  auto guard = locks.lock("k", {.ttl = 3s});
  const auto before = proxy->accepted();
  const auto expiry = guard.expires_at();
  proxy->swallow(Way::to_client);
  // A third of the ttl passes, then a sixth of it, and it connects anew: long before 5 s.
  while (proxy->accepted() == before) std::this_thread::sleep_for(1ms);
  proxy->forward();
  EXPECT_TRUE(eventually([&] { return guard.expires_at() > expiry; })) << "answered on the new connection";
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(guard.release());
}

TEST_F(RedisLock, AGuardIsLostBeforeItsLeaseEndsWhenTheServerIsSilent) {
  RedisOptions options = server->tcp();
  Locks locks(make_redis_lock_backend(options).value_or_throw());
  auto guard = locks.lock("k", {.ttl = 600ms});
  const BootTime taken = BootClock::now();
  server->pause();
  while (!guard.lost().stop_requested() && BootClock::now() - taken < 5s) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(guard.lost().stop_requested());
  EXPECT_TRUE(eventually([&] { return !guard.still_held(); })) << "it stays lost";
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
  server->resume();
}

TEST_F(RedisLock, AWaiterIsStoppedThoughTheServerIsSilent) {
  Locks locks(make_redis_lock_backend(server->tcp()).value_or_throw());
  server->pause();
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  const BootTime before = BootClock::now();
  try {
    (void)locks.lock("k", {.wait = 60s}, stop.get_token());
    ADD_FAILURE() << "there was nobody to grant it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Aborted);
  }
  EXPECT_LT(BootClock::now() - before, 4s) << "not the command's time limit";
  server->resume();
}

TEST_F(RedisLock, AnIdWhoseSecondCopyWasRefusedIsGivenBack) {
  ASSERT_TRUE(acquire(*direct, LockId::generate(), "k"));
  proxy->cut_after(Way::to_client, 1);
  EXPECT_FALSE(acquire(*proxied, id, "k"));
  for (int i = 0; i < 5000 && exists(index_of(id)) == 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(server->raw().text({"GET", index_of(id)}), "") << "its first copy would find a tombstone";
}

TEST_F(RedisLock, AWaiterWhoseUnknownLockAnOperatorBreaksGoesOnWithAnotherId) {
  Locks locks(proxied), operators(direct);
  locks.lock("warm").release();
  proxy->hold(Way::to_client);
  auto waiting = std::async(std::launch::async, [&] { return locks.lock("k", {.wait = 20s}).fence(); });
  ASSERT_TRUE(eventually([&] { return proxy->held(Way::to_client) > 0; }));
  ASSERT_TRUE(operators.break_lock("k", "a test"));
  proxy->cut();
  proxy->forward();
  EXPECT_GT(waiting.get().value(), 1U);
}

TEST_F(RedisLock, WhatWasSentEndsAsUnknownWhateverKeepsUsFromAskingAgain) {
  ASSERT_TRUE(acquire(*proxied, LockId::generate(), "warm"));
  server->raw().text({"CONFIG", "SET", "requirepass", "changed"});
  proxy->cut_after(Way::to_client, 1);
  const auto result = try_acquire(*proxied, id, "k");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transient()) << result.error().what();
}

TEST_F(RedisLock, ALeftoverOfAnIdThatHasMovedOnIsRemovedWithoutItsIndex) {
  ASSERT_TRUE(acquire(*direct, id, "old"));
  outlive_its_time("old");
  ASSERT_TRUE(acquire(*direct, id, "new"));
  EXPECT_TRUE(release(*direct, id, "old"));
  EXPECT_EQ(lookup(*direct, id)->key.str(), "new");
}

TEST_F(RedisLock, TheScriptsAreTaughtAgainAfterAFlush) {
  ASSERT_TRUE(acquire(*direct, id, "k"));
  server->raw().text({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(is_locked(*direct, "k"));
  server->raw().text({"SCRIPT", "FLUSH"});
  EXPECT_EQ(list(*direct)->locks.size(), 1U);
  server->raw().text({"SCRIPT", "FLUSH"});
  EXPECT_EQ(release(*direct, id, "k"), std::nullopt);
}

TEST_F(RedisLock, ARestartedServerThatKeptItsDataKeepsLocksAndFences) {
  RedisServer kept({.persistent = true});
  const auto backend = make_redis_lock_backend(kept.tcp()).value_or_throw();
  const auto first = acquire(*backend, id, "k");
  kept.restart();
  EXPECT_EQ(lookup(*backend, "k")->id, id);
  EXPECT_EQ(release(*backend, id, "k"), std::nullopt);
  kept.kill();
  kept.start();
  const auto second = acquire(*backend, LockId::generate(), "k");
  ASSERT_TRUE(first && second);
  EXPECT_GT(second->fence, first->fence);
  EXPECT_EQ(make_redis_lock_backend(kept.tcp()).value_or_throw()->authority(), backend->authority());
}

TEST_F(RedisLock, AServerThatForgotItsCountersIsAnotherAuthority) {
  const auto before = direct->authority();
  server->raw().text({"FLUSHALL"});
  EXPECT_NE(make_redis_lock_backend(server->tcp()).value_or_throw()->authority(), before);
}

TEST_F(RedisLock, AServerThatForgotItsCountersIsAnotherAuthorityForThoseWhoStayConnectedToo) {
  std::set<std::string> authorities{direct->authority()};
  for (int loss = 1; loss <= 3; ++loss) {
    server->raw().text({"FLUSHALL"});
    // Of a key that the client was granted before, it would ask for a higher fence.
    const auto granted = acquire(*direct, LockId::generate(), "k" + std::to_string(loss));
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->fence.value(), 1U) << "the counters began anew";
    EXPECT_TRUE(authorities.insert(granted->authority).second) << "so its fences must not be compared";
    EXPECT_EQ(direct->authority(), granted->authority);
    EXPECT_EQ(acquire(*proxied, LockId::generate(), "other")->authority, granted->authority);
    EXPECT_EQ(make_redis_lock_backend(server->tcp()).value_or_throw()->authority(), granted->authority);
  }
}

TEST_F(RedisLock, AGrantOfAnotherAuthorityFindsTheGuardsWhoseLocksAreGone) {
  Locks locks(direct);
  const auto renewed = locks.lock("renewed", {.ttl = 1h});
  const auto kept_by_hand = locks.lock("kept by hand", {.ttl = 1h, .auto_renew = false});
  server->raw().text({"FLUSHALL"});
  EXPECT_TRUE(renewed.still_held()) << "its next renewal is twenty minutes away";
  const auto after = locks.lock("after", {.ttl = 1h});
  for (const auto* guard : {&renewed, &kept_by_hand}) {
    EXPECT_TRUE(eventually([&] { return guard->lost().stop_requested(); }));
    EXPECT_EQ(guard->loss_reason(), LossReason::gone);
    EXPECT_NE(guard->authority(), after.authority());
  }
  EXPECT_TRUE(after.still_held());
}

TEST_F(RedisLock, AGuardWhoseRecordIsThereOutlivesTheAuthorityItWasGrantedBy) {
  Locks locks(direct);
  auto guard = locks.lock("k", {.ttl = 1h});
  server->raw().text({"DEL", "syncguard:fence:syncguard:"});  // evicted, say
  const auto expiry = guard.expires_at();
  std::this_thread::sleep_for(2ms);  // a renewal in the millisecond of the grant would not show
  const auto other = locks.lock("other", {.ttl = 1h});
  EXPECT_TRUE(eventually([&] { return guard.expires_at() > expiry; })) << "it was renewed at once";
  EXPECT_TRUE(guard.still_held());
  EXPECT_NE(guard.authority(), other.authority());
  EXPECT_TRUE(guard.release());
}

TEST_F(RedisLock, AGuardThatIsNotRenewedKeepsItsLeaseWhenTheAuthorityChanges) {
  Locks locks(direct);
  const auto kept = locks.lock("kept by hand", {.ttl = 1h, .auto_renew = false});
  const auto renewed = locks.lock("renewed", {.ttl = 1h});
  server->raw().text({"DEL", "syncguard:fence:syncguard:"});
  const auto expiry = kept.expires_at(), renewed_from = renewed.expires_at();
  std::this_thread::sleep_for(2ms);
  const auto other = locks.lock("other", {.ttl = 1h});
  EXPECT_TRUE(eventually([&] { return renewed.expires_at() > renewed_from; }));
  EXPECT_EQ(kept.expires_at(), expiry);
  EXPECT_EQ(lookup(*direct, "kept by hand")->expires_at, expiry);
  EXPECT_TRUE(kept.still_held());
}

TEST_F(RedisLock, AnExtendForLessThatNeverLeftTheMachineChangesNothing) {
  Locks locks(proxied);
  auto guard = locks.lock("k", {.ttl = 30s});
  proxy->refuse();
  proxy->cut();
  EXPECT_THROW(guard.extend(1s), Error);
  EXPECT_GT(guard.remaining(), 20s);
}

TEST_F(RedisLock, AnExtendForLessThatTheServerRefusedChangesNothing) {
  Locks locks(direct);
  auto guard = locks.lock("k", {.ttl = 30s});
  server->raw().text({"CONFIG", "SET", "min-replicas-to-write", "1"});
  EXPECT_THROW(guard.extend(1s), Error);
  EXPECT_GT(guard.remaining(), 20s);
  EXPECT_EQ(guard.renewal_error().value().code(), ErrorCode::ServiceUnavailable);
  server->raw().text({"CONFIG", "SET", "min-replicas-to-write", "0"});
  EXPECT_TRUE(guard.extend(20s));
  EXPECT_FALSE(guard.renewal_error());
}

TEST_F(RedisLock, OnAServerWithoutRoomALockIsKept) {
  Locks locks(direct);
  auto guard = locks.lock("k", {.ttl = 30s});
  server->raw().text({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THROW((void)locks.try_lock("another"), Error);
  EXPECT_TRUE(guard.extend(60s)) << "for longer";
  EXPECT_GT(to_ms(lookup(*direct, "k")->expires_at), to_ms(guard.expires_at()) - 1000);
  EXPECT_TRUE(guard.extend(20s)) << "and for less";
  EXPECT_TRUE(guard.release());
  server->raw().text({"CONFIG", "SET", "maxmemory", "0"});
}

TEST_F(RedisLock, AnExtendForLessThatTheServerRefusedTheSecondTimeMayHaveBeenCarriedOut) {
  Locks locks(proxied);
  auto guard = locks.lock("k", {.ttl = 30s});
  ASSERT_TRUE(guard.extend(30s));  // the server knows the script
  proxy->swallow(Way::to_client);
  auto extending = std::async(std::launch::async, [&] { return guard.extend(1s); });
  ASSERT_TRUE(eventually([&] { return lookup(*direct, "k")->expires_at < guard.expires_at(); }));
  server->raw().text({"CONFIG", "SET", "min-replicas-to-write", "1"});
  proxy->cut();
  proxy->forward();
  EXPECT_THROW((void)extending.get(), Error);
  EXPECT_LE(guard.remaining(), 1s);
  server->raw().text({"CONFIG", "SET", "min-replicas-to-write", "0"});
}

TEST_F(RedisLock, DatabasesAndPrefixesAreApart) {
  auto options = server->tcp();
  options.db = 3;
  const auto other_db = make_redis_lock_backend(options).value_or_throw();
  options.db = 0;
  options.lock_prefix = "other";
  const auto other_prefix = make_redis_lock_backend(options).value_or_throw();
  ASSERT_TRUE(acquire(*direct, id, "k"));
  EXPECT_FALSE(is_locked(*other_db, "k"));
  EXPECT_FALSE(is_locked(*other_prefix, "k"));
  EXPECT_TRUE(acquire(*other_db, LockId::generate(), "k"));
  EXPECT_TRUE(list(*other_prefix)->locks.empty());
  EXPECT_NE(direct->authority(), other_db->authority());
}

TEST_F(RedisLock, ReservedNamesAndBadPrefixesAreRefusedBeforeAnythingIsSent) {
  for (const std::string name : {"fence:syncguard:x", "fence:syncguard:"}) {
    const auto result = try_acquire(*direct, LockId::generate(), name);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(try_acquire(*direct, id, "id:" + std::string(22, 'A')).error().code(),
            ErrorCode::InvalidArgument);
  for (const std::string& name :
       std::vector<std::string>{"fence:other:x", "fence:", "id:short", "id:" + std::string(23, 'A'), "id:"}) {
    EXPECT_TRUE(acquire(*direct, LockId::generate(), name)) << name;
  }
  for (const std::string prefix : {"fence", "my-fence", "a:fence:b", "x:fence:"}) {
    auto options = server->tcp();
    options.lock_prefix = prefix;
    EXPECT_EQ(make_redis_lock_backend(options).error().code(), ErrorCode::InvalidArgument) << prefix;
  }
}

TEST_F(RedisLock, IsLockedDeletesLeftoversOnlyWhenToldTo) {
  auto options = server->tcp();
  options.cleanup_in_is_locked = true;
  const auto cleaning = make_redis_lock_backend(options).value_or_throw();
  ASSERT_TRUE(acquire(*direct, id, "k"));
  outlive_its_time("k");
  server->raw().text({"PERSIST", index_of(id)});

  EXPECT_FALSE(is_locked(*direct, "k"));
  EXPECT_EQ(exists("syncguard:k"), 1) << "read-only unless told otherwise";
  EXPECT_FALSE(is_locked(*cleaning, "k"));
  for (int i = 0; i < 1000 && exists("syncguard:k") == 1; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(exists("syncguard:k"), 0);
  EXPECT_EQ(exists(index_of(id)), 0);
  EXPECT_EQ(exists("syncguard:fence:syncguard:k"), 1) << "never a fence";
}

TEST_F(RedisLock, AFenceNearItsEndIsToldToTheLogByItsHashOnly) {
  auto log = std::make_shared<Log>();
  std::string told;
  log->set_sink([&](LogLevel, std::string_view message) { told += message; });
  const auto backend = make_redis_lock_backend(server->tcp(), log).value_or_throw();
  server->raw().text({"SET", "syncguard:fence:syncguard:secret-key", std::to_string(Fence::warn_above)});
  ASSERT_TRUE(acquire(*backend, id, "secret-key"));
  log->flush();
  EXPECT_NE(told.find(key_hash("secret-key")), std::string::npos);
  EXPECT_EQ(told.find("secret-key"), std::string::npos);

  server->raw().text({"SET", "syncguard:fence:syncguard:full", std::to_string(Fence::max_issued)});
  const auto refused = try_acquire(*backend, LockId::generate(), "full");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::Internal);
  EXPECT_FALSE(is_locked(*backend, "full"));
}

TEST_F(RedisLock, AForkedChildLeavesItsParentsConnectionAlone) {
  ASSERT_TRUE(acquire(*direct, id, "k"));
  const pid_t child = fork();
  if (child == 0) {
    const auto result = try_acquire(*direct, LockId::generate(), "other");
    const bool refused = !result && result.error().code() == ErrorCode::ServiceUnavailable &&
                         result.error().message().find("fork") != std::string::npos;
    direct.reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(release(*direct, id, "k"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::test
