#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <holdfast/doctor.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/redis.hpp>

#include "support/acl_user.hpp"
#include "support/calls.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

std::vector<Finding> examined(const RedisOptions& options) {
  return examine_redis(options).value_or_throw();
}

std::string all_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) {
    text += std::string(to_string(finding.severity)) + " " + finding.topic + ": " + finding.found + " [" +
            finding.advice + "]\n";
  }
  return text;
}

Severity worst(const std::vector<Finding>& findings) {
  Severity severity = Severity::ok;
  for (const auto& finding : findings) severity = std::max(severity, finding.severity);
  return severity;
}

Severity worst_of(const std::vector<Finding>& findings, const std::string& topic) {
  std::vector<Finding> some;
  for (const auto& finding : findings) {
    if (finding.topic == topic) some.push_back(finding);
  }
  EXPECT_FALSE(some.empty()) << topic;
  return worst(some);
}

class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Doctor, HasNothingToSayAgainstAHealthyServer) {
  const RedisServer server({.persistent = true, .config = {"appendfsync always"}});
  const auto findings = examined(server.tcp());
  EXPECT_EQ(worst(findings), Severity::ok) << all_of(findings);
  EXPECT_EQ(worst(examined(server.unix_socket())), Severity::ok);
}

TEST_F(Doctor, ExaminesOverTlsToo) {
  const RedisServer server({.persistent = true, .tls = true, .config = {"appendfsync always"}});
  const auto findings = examined(server.tls());
  EXPECT_EQ(worst(findings), Severity::ok) << all_of(findings);
}

TEST_F(Doctor, LeavesNothingBehind) {
  const RedisServer server;
  (void)examined(server.tcp());
  EXPECT_EQ(server.raw().integer({"DBSIZE"}), 0);
}

TEST_F(Doctor, FindsAServerThatForgetsAndEvicts) {
  const RedisServer server({.config = {"maxmemory 100mb", "maxmemory-policy allkeys-lru"}});
  const auto findings = examined(server.tcp());
  EXPECT_EQ(worst_of(findings, "persistence"), Severity::problem) << all_of(findings);
  EXPECT_EQ(worst_of(findings, "memory"), Severity::problem) << all_of(findings);
  EXPECT_EQ(worst_of(findings, "rights"), Severity::ok) << all_of(findings);
}

TEST_F(Doctor, FindsAReadOnlyReplica) {
  const RedisServer master;
  const RedisServer replica({.config = {"replicaof 127.0.0.1 " + std::to_string(master.port())}});
  const auto findings = examined(replica.tcp());
  EXPECT_EQ(worst_of(findings, "role"), Severity::problem) << all_of(findings);
}

TEST_F(Doctor, MissesTheUserAtAReplica) {
  const RedisServer master;
  const RedisServer replica({.config = {"replicaof 127.0.0.1 " + std::to_string(master.port())}});
  auto user = acl_user(master, master.tcp());
  user.connect_timeout = std::chrono::seconds(20);  // a new replica on a busy machine answers late
  master.wait_for_replicas(1);
  const auto address = "127.0.0.1:" + std::to_string(replica.port());
  auto findings = examined(user);
  EXPECT_EQ(worst_of(findings, "replicas"), Severity::problem) << all_of(findings);
  EXPECT_NE(all_of(findings).find("user app cannot log in at the replica " + address), std::string::npos)
      << all_of(findings);
  (void)acl_user(replica, replica.tcp(), {"-set"});
  findings = examined(user);
  EXPECT_NE(all_of(findings).find(address + ", which clients use after a failover: +set missing"),
            std::string::npos)
      << all_of(findings);
  (void)acl_user(replica, replica.tcp());
  findings = examined(user);
  EXPECT_EQ(worst_of(findings, "replicas"), Severity::ok) << all_of(findings);
}

TEST_F(Doctor, FindsAMemberOfACluster) {
  const RedisServer server({.config = {"cluster-enabled yes"}});
  const auto findings = examined(server.tcp());
  EXPECT_EQ(worst_of(findings, "server"), Severity::problem) << all_of(findings);
}

TEST_F(Doctor, FindsAServerWithoutMemoryLeft) {
  const RedisServer server({.config = {"maxmemory 1"}});
  const auto findings = examined(server.tcp());
  EXPECT_EQ(worst_of(findings, "memory"), Severity::warning) << all_of(findings);
  EXPECT_NE(all_of(findings).find("OOM"), std::string::npos) << all_of(findings);
}

TEST_F(Doctor, CountsFenceCountersAndWhatTheyCost) {
  const RedisServer server;
  auto raw = server.raw();
  for (int i = 0; i < 2500; ++i) raw.text({"SET", "syncguard:fence:syncguard:key" + std::to_string(i), "1"});
  for (int i = 0; i < 100; ++i) raw.text({"SET", "other:fence:other:key" + std::to_string(i), "1"});
  const auto findings = examined(server.tcp());
  EXPECT_NE(all_of(findings).find("2500 fence counter(s)"), std::string::npos) << all_of(findings);
}

TEST_F(Doctor, FindsACounterThatWentBack) {
  const RedisServer server;
  const auto backend = make_redis_lock_backend(server.tcp()).value_or_throw();
  for (const auto* name : {"k", "l", "nested:m"}) ASSERT_TRUE(acquire(*backend, LockId::generate(), name));
  EXPECT_EQ(worst_of(examined(server.tcp()), "fences"), Severity::ok);
  server.raw().text({"SET", "syncguard:fence:syncguard:k", "0"});
  const auto findings = examined(server.tcp());
  EXPECT_EQ(worst_of(findings, "fences"), Severity::problem);
  EXPECT_NE(all_of(findings).find("1 of 3 held locks"), std::string::npos) << all_of(findings);
}

TEST_F(Doctor, CountsOnlyTheKeysOfItsPrefix) {
  const RedisServer server;
  auto raw = server.raw();
  raw.text({"SET", "a[b]*:fence:a[b]*:x", "1"});
  raw.text({"SET", "ab:fence:ab:x", "1"});
  auto options = server.tcp();
  options.lock_prefix = "a[b]*";
  EXPECT_NE(all_of(examined(options)).find("1 fence counter(s)"), std::string::npos);
}

TEST_F(Doctor, NoticesPrefixesThatNestByWhatTheyLeaveBehind) {
  const RedisServer server;
  const auto about_prefixes = [&](const std::string& prefix) {
    auto options = server.tcp();
    options.lock_prefix = prefix;
    std::string text;
    for (const auto& finding : examined(options)) {
      if (finding.topic == "prefixes")
        text += std::string(to_string(finding.severity)) + ": " + finding.found;
    }
    return text;
  };
  const auto use = [&](const std::string& prefix) {
    (void)open(server.url() + "?lock_prefix=" + prefix).locks().lock("x");
  };
  use("a");
  use("other");
  EXPECT_TRUE(about_prefixes("a").starts_with("ok: ")) << about_prefixes("a");
  EXPECT_EQ(
      about_prefixes("a:b"),
      "warning: the lock prefix a is in use too: the key b:x under a and the key x under a:b are one lock");
  use("a:b");
  EXPECT_EQ(
      about_prefixes("a"),
      "warning: the lock prefix a:b is in use too: the key b:x under a and the key x under a:b are one lock");
  // SyncGuard leaves counters and no authority.
  auto raw = server.raw();
  raw.text({"SET", "syncguard:fence:syncguard:job", "1"});
  EXPECT_EQ(about_prefixes("syncguard:app:eu"),
            "warning: the lock prefix syncguard is in use too: the key app:eu:x under syncguard and the key "
            "x under "
            "syncguard:app:eu are one lock");
  EXPECT_TRUE(about_prefixes("other").starts_with("ok: "));
  use("");
  EXPECT_EQ(
      about_prefixes("other"),
      "warning: the lock prefix \"\" (empty) is in use too: the key other:x under \"\" (empty) and the key x "
      "under other are one lock");
}

TEST(DoctorOfOthers, ASentinelIsAskedForNothingThatItDoesNotKnow) {
  const FakeRedis sentinel([](const FakeRedis::Words& command) {
    if (command[0] == "INFO") return FakeRedis::Answer{FakeRedis::bulk("redis_mode:sentinel\r\n")};
    if (command[0] == "GET") return FakeRedis::Answer{"-ERR unknown command 'GET'\r\n"};
    return FakeRedis::politely(command);
  });
  RedisOptions options;
  options.port = sentinel.port();
  const auto findings = examined(options);
  EXPECT_EQ(findings.size(), 3U) << all_of(findings);
  EXPECT_EQ(findings.back().topic, "server");
  EXPECT_EQ(findings.back().severity, Severity::problem);
  for (const auto& command : sentinel.heard()) EXPECT_NE(command[0], "GET");
}

TEST_F(Doctor, FailsAsOpenDoesIfThereIsNobodyToExamine) {
  RedisServer server({.password = "sesame"});
  auto options = server.tcp();
  options.password = "wrong";
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::AuthFailed);
  options.password = "";
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::AuthFailed);
  options = server.tcp();
  options.db = 99;
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::InvalidArgument);
  options = server.tcp();
  options.connect_timeout = options.command_timeout = std::chrono::milliseconds(200);
  server.pause();
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::NetworkTimeout);
  server.kill();
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::ServiceUnavailable);
}

TEST_F(Doctor, SaysWhenItCanNoLongerReachWhatItExamines) {
  const RedisServer server;
  TcpProxy proxy(server.port());
  auto options = server.tcp();
  options.port = proxy.port();
  options.connect_timeout = options.command_timeout = std::chrono::milliseconds(300);
  proxy.cut_after(TcpProxy::Way::to_client, 2000);
  proxy.refuse();
  proxy.listen_again();
  EXPECT_TRUE(examine_redis(options).ok()) << "one broken connection is repaired";
  proxy.swallow(TcpProxy::Way::to_client);
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::NetworkTimeout);
}

TEST(EmbeddedDoctor, ExaminesAFileAndCreatesNone) {
  const TempDir dir;
  const auto url = "sqlite:" + (dir / "locks.db").string();
  const auto before = examine(url).value_or_throw();
  EXPECT_EQ(worst(before), Severity::note) << all_of(before);
  EXPECT_FALSE(std::filesystem::exists(dir / "locks.db"));
  {
    auto hf = open(url);
    (void)hf.locks().lock("a");
  }
  const auto after = examine(url).value_or_throw();
  EXPECT_EQ(worst(after), Severity::ok) << all_of(after);
  EXPECT_NE(all_of(after).find((dir / "locks.db").string()), std::string::npos);
  EXPECT_NE(all_of(after).find("the last fence granted is 1"), std::string::npos) << all_of(after);
}

TEST(EmbeddedDoctor, MindsWhoMayWriteTheFile) {
  const TempDir dir;
  const auto url = "sqlite:" + (dir / "locks.db").string();
  {
    auto hf = open(url);
  }
  ::chmod((dir / "locks.db").c_str(), 0660);
  EXPECT_EQ(worst_of(examine(url).value_or_throw(), "permissions"), Severity::note);
  ::chmod((dir / "locks.db").c_str(), 0666);
  EXPECT_EQ(worst_of(examine(url).value_or_throw(), "permissions"), Severity::warning);
}

TEST(EmbeddedDoctor, FailsAsOpenDoes) {
  const TempDir dir;
  std::ofstream(dir / "text") << std::string(3000, 'x');
  EXPECT_EQ(examine("sqlite:" + (dir / "text").string()).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(examine("sqlite:" + (dir / "no/such/file").string()).error().code(),
            ErrorCode::ServiceUnavailable);
  EXPECT_EQ(examine("").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(examine("mysql://u:sesame@h").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(examine("memory:").value_or_throw().size(), 1U);
}

TEST(EmbeddedDoctor, FindsARowThatIsNoLock) {
  const TempDir dir;
  const auto file = (dir / "locks.db").string();
  {
    auto hf = open("sqlite:" + file);
    (void)hf.locks().lock("a");
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(
      sqlite3_exec(raw,
                   "INSERT INTO locks (key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, "
                   "expires_at_ms, durable) VALUES (x'6b', 'short', 1, 9223372036854775807, 1, 1, 1, 1)",
                   nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(raw);
  EXPECT_EQ(worst_of(examine("sqlite:" + file).value_or_throw(), "locks"), Severity::problem);
}

TEST(EmbeddedDoctor, DoesNotApproveOfAFileThatThisUserCannotCreate) {
  const TempDir dir;
  ::chmod(dir.path().c_str(), 0555);
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  auto findings = examine("sqlite:" + (dir / "new.db").string());
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  ::chmod(dir.path().c_str(), 0700);
  EXPECT_EQ(worst_of(std::move(findings).value_or_throw(), "file"), Severity::problem);
}

TEST(DoctorQueues, AreExaminedWithTheStoreTheyAreIn) {
  const TempDir directory;
  const auto url = "sqlite:" + (directory / "store.db").string();
  const auto is_about_queues = [](const Finding& finding) { return finding.topic == "queue"; };
  auto findings = examine(url).value_or_throw();
  EXPECT_TRUE(std::ranges::none_of(findings, is_about_queues));
  EXPECT_FALSE(std::filesystem::exists(directory / "store.db")) << "a check creates no file";

  const auto queue = open(url).queue("render");
  queue.add();
  queue.add();
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  job->fail("broken");
  findings = examine(url).value_or_throw();
  ASSERT_EQ(std::ranges::count_if(findings, is_about_queues), 2) << all_of(findings);
  EXPECT_EQ(worst_of(findings, "queue"), Severity::note);
  EXPECT_NE(all_of(findings).find("1 queue: 1 task ready, 0 worked on"), std::string::npos)
      << all_of(findings);
  EXPECT_NE(all_of(findings).find("\"render\": 1 of the newest 2 tasks failed"), std::string::npos);
}

TEST_F(Doctor, WarnsThatAServerWithoutPersistenceLosesTheTasksOfQueues) {
  const RedisServer server({.persistent = false});
  open(server.url()).queue("render").add();
  const auto findings = examine(server.url()).value_or_throw();
  EXPECT_GE(worst_of(findings, "queue"), Severity::warning) << all_of(findings);
  EXPECT_NE(all_of(findings).find("unfinished tasks: 1; a crash of the server may lose them"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
