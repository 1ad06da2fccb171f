#include <gtest/gtest.h>

#include "unit/redis_doctor_findings.hpp"

namespace holdfast::redis {
namespace {

TEST(RedisDoctor, FindsNothingWrongWithAHealthyServerAndNamesWhatItChecked) {
  const std::vector<std::string> topics{"connection",  "access", "server",  "role",     "persistence",
                                        "memory",      "rights", "scripts", "wake-ups", "clock",
                                        "round trips", "fences", "prefixes"};
  const auto findings = judge({}, healthy());
  ASSERT_EQ(findings.size(), topics.size());
  for (std::size_t i = 0; i < topics.size(); ++i) {
    EXPECT_EQ(findings[i].topic, topics[i]);
    EXPECT_EQ(findings[i].severity, Severity::ok) << findings[i].topic << ": " << findings[i].found;
    EXPECT_EQ(findings[i].advice, "") << findings[i].topic;
  }
}

TEST(RedisDoctor, WhatIsNotOkComesWithAdvice) {
  Observations nothing_permitted;
  nothing_permitted.rights = healthy().rights;
  for (auto& right : nothing_permitted.rights) right.missing = Right::Missing::command;
  for (const auto& finding : judge(far_away(), nothing_permitted)) {
    if (finding.severity >= Severity::warning) {
      EXPECT_NE(finding.advice, "") << finding.topic << ": " << finding.found;
    }
    EXPECT_FALSE(mentions(finding.found + finding.advice, "sesame"));
  }
}

TEST(RedisDoctor, InfoIsReadLineByLine) {
  const auto info = parse_info("# Server\r\na:1\r\nb:x:y\r\n\r\nnonsense\r\nc:\nlast:2");
  EXPECT_EQ(info, (Info{{"a", "1"}, {"b", "x:y"}, {"c", ""}, {"last", "2"}}));
  EXPECT_TRUE(parse_info("").empty());
}

TEST(RedisDoctor, ANetworkWithoutTlsIsNotedAndAServerWithoutAPasswordWarnedOf) {
  auto options = far_away();
  EXPECT_EQ(one("connection", healthy(), options).severity, Severity::note);
  EXPECT_EQ(one("access", healthy(), options).severity, Severity::ok);
  options.tls = true;
  EXPECT_EQ(one("connection", healthy(), options).severity, Severity::ok);
  options.user = options.password = "";
  EXPECT_EQ(one("access", healthy(), options).severity, Severity::warning);
  options.unix_socket = "/run/redis.sock";
  EXPECT_EQ(one("access", healthy(), options).severity, Severity::ok);
  EXPECT_TRUE(mentions(one("connection", healthy(), options).found, "/run/redis.sock"));
}

TEST(RedisDoctor, APasswordFileIsForItsOwnerAlone) {
  auto options = far_away();
  options.password_file = "/etc/holdfast/password";
  auto seen = healthy();
  seen.password_file_mode = 0600;
  EXPECT_EQ(about("access", seen, options).size(), 1U);
  seen.password_file_mode = 0640;
  const auto found = about("access", seen, options);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].severity, Severity::warning);
  EXPECT_TRUE(mentions(found[1].found, "0640"));
  EXPECT_EQ(found[1].advice, "chmod 600 /etc/holdfast/password");
}

TEST(RedisDoctor, AServerTooOldOrOfAnotherKindIsAProblem) {
  const auto with = [](const std::string& name, const std::string& value) {
    auto seen = healthy();
    seen.info[name] = value;
    return one("server", seen);
  };
  EXPECT_EQ(with("redis_version", "6.0.16").severity, Severity::problem);
  EXPECT_EQ(with("redis_version", "5.0.3").severity, Severity::problem);
  EXPECT_EQ(with("redis_version", "6.2.0").severity, Severity::ok);
  EXPECT_EQ(with("redis_version", "10.0.0").severity, Severity::ok);
  EXPECT_EQ(with("redis_mode", "cluster").severity, Severity::problem);
  EXPECT_EQ(with("redis_mode", "sentinel").severity, Severity::problem);
}

TEST(RedisDoctor, ValkeyIsNamedAndItsModeIsRead) {
  const auto valkey = [](std::string_view mode) {
    auto seen = healthy();
    seen.info =
        parse_info("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:" +
                   std::string(mode) + "\r\nrole:master\r\n");
    return one("server", seen);
  };
  EXPECT_EQ(valkey("standalone").severity, Severity::ok);
  EXPECT_EQ(valkey("standalone").found, "Valkey 8.1.1");
  EXPECT_EQ(valkey("cluster").severity, Severity::problem);
  EXPECT_TRUE(mentions(valkey("cluster").found, "Valkey 8.1.1 in cluster mode"));
  EXPECT_EQ(valkey("sentinel").severity, Severity::problem);
}

TEST(RedisDoctor, AReplicaIsAProblemAndHavingReplicasIsNoted) {
  auto seen = healthy();
  seen.info["connected_slaves"] = "2";
  EXPECT_EQ(one("role", seen).severity, Severity::note);
  EXPECT_TRUE(mentions(one("role", seen).found, "failover"));
  seen.info["role"] = "slave";
  seen.info["master_host"] = "10.0.0.7";
  seen.info["master_port"] = "6379";
  EXPECT_EQ(one("role", seen).severity, Severity::problem);
  EXPECT_TRUE(mentions(one("role", seen).found, "10.0.0.7:6379"));
}

TEST(RedisDoctor, ThatFencesAreForgottenIsAProblemOrAWarning) {
  auto seen = healthy();
  seen.appendfsync = "everysec";
  EXPECT_EQ(one("persistence", seen).severity, Severity::note);
  seen.appendfsync = std::nullopt;
  EXPECT_EQ(one("persistence", seen).severity, Severity::note);
  seen.appendfsync = "no";
  EXPECT_EQ(one("persistence", seen).severity, Severity::warning);
  seen.info["aof_enabled"] = "0";
  EXPECT_EQ(one("persistence", seen).severity, Severity::problem);
  seen.save = "3600 1 300 100";
  EXPECT_EQ(one("persistence", seen).severity, Severity::warning);
  seen.save = std::nullopt;
  EXPECT_EQ(one("persistence", seen).severity, Severity::warning);
  for (const char* status : {"aof_last_write_status", "rdb_last_bgsave_status"}) {
    auto failing = healthy();
    failing.info[status] = "err";
    EXPECT_EQ(about("persistence", failing).at(0).severity, Severity::problem) << status;
  }
}

TEST(RedisDoctor, AnEvictingPolicyIsAProblemOnceThereIsALimit) {
  for (const std::string policy : {"allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lfu"}) {
    auto seen = healthy();
    seen.info["maxmemory_policy"] = policy;
    EXPECT_EQ(one("memory", seen).severity, Severity::note) << policy;
    seen.info["maxmemory"] = "100000000";
    EXPECT_EQ(one("memory", seen).severity, Severity::problem) << policy;
    EXPECT_EQ(mentions(one("memory", seen).found, "fence"), policy.starts_with("allkeys")) << policy;
  }
}

TEST(RedisDoctor, AFullMemoryIsAWarning) {
  auto seen = healthy();
  seen.info["maxmemory"] = "1100000";
  EXPECT_EQ(one("memory", seen).severity, Severity::warning);
  seen.info["maxmemory"] = "2000000";
  EXPECT_EQ(one("memory", seen).severity, Severity::ok);
}

TEST(RedisDoctor, AFenceAboveItsCounterIsAProblem) {
  auto seen = healthy();
  seen.held = {.checked = 12, .above_counter = 0};
  EXPECT_EQ(one("fences", seen).severity, Severity::ok);
  seen.held.above_counter = 3;
  const auto found = about("fences", seen);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].severity, Severity::problem);
  EXPECT_NE(found[0].found.find("3 of 12 held locks"), std::string::npos) << found[0].found;
}

TEST(RedisDoctor, FewerReplicasThanTheUrlAsksForAreAProblem) {
  auto seen = healthy();
  RedisOptions options;
  options.min_replicas = 2;
  EXPECT_EQ(one("role", seen, options).severity, Severity::problem);
  seen.info["connected_slaves"] = "1";
  EXPECT_NE(one("role", seen, options).found.find("1 replica(s), but the URL asks for 2"), std::string::npos);
  seen.info["connected_slaves"] = "2";
  EXPECT_EQ(one("role", seen, options).severity, Severity::note);
}

TEST(RedisDoctor, MissingRightsAreNamedOneByOneWithTheLineThatGrantsThem) {
  auto seen = healthy();
  seen.user = "app";
  lose(seen, "INCR", Right::Missing::command);
  lose(seen, "SET", Right::Missing::key, Half::locks);
  lose(seen, "PUBLISH", Right::Missing::channel, Half::tasks);
  lose(seen, "SUBSCRIBE", Right::Missing::channel, Half::tasks);
  lose(seen, "SCAN", Right::Missing::command);
  lose(seen, "ZADD", Right::Missing::command);
  RedisOptions options;
  options.lock_prefix = "locks:";
  const auto found = about("rights", seen, options);
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[0].severity, Severity::problem);
  EXPECT_EQ(found[0].found, "user app may not use the command incr: locks cannot be acquired");
  EXPECT_EQ(found[0].advice, "ACL SETUSER app +incr");
  EXPECT_EQ(found[1].severity, Severity::warning);
  EXPECT_EQ(found[1].found,
            "user app has no access to the channels pmcp:changed:*: a changed task wakes no waiter; waiters "
            "poll; waiters for a task poll");
  EXPECT_EQ(found[1].advice, "ACL SETUSER app &pmcp:changed:*");
  EXPECT_EQ(found[2].severity, Severity::warning) << "locks cannot be listed";
  EXPECT_EQ(found[2].advice, "ACL SETUSER app +scan");
  EXPECT_EQ(found[3].severity, Severity::problem);
  EXPECT_EQ(found[3].found,
            "user app may not use set on all the keys locks:*: locks cannot be acquired, broken, extended "
            "or released");
  EXPECT_EQ(found[3].advice, "ACL SETUSER app ~locks:*");
  EXPECT_EQ(found[4].advice, "ACL SETUSER app +zadd");
  EXPECT_EQ(found[4].found,
            "user app may not use the command zadd: tasks cannot be claimed, counted, queued, "
            "changed, created or removed");
  EXPECT_EQ(found[5].severity, Severity::note);
  EXPECT_TRUE(mentions(found[5].advice, "doctor --acl"));
}

TEST(RedisDoctor, KeysThatAreOutOfReachAreOneMissingRight) {
  auto seen = healthy();
  for (auto& right : seen.rights) {
    if (right.half == Half::tasks && right.command != "PUBLISH" && right.command != "SUBSCRIBE")
      right.missing = Right::Missing::key;
  }
  const auto found = one("rights", seen);
  EXPECT_EQ(found.severity, Severity::problem);
  EXPECT_EQ(found.found, "user default has no access to the keys pmcp:*: tasks cannot be used");
}

TEST(RedisDoctor, AWriteThatFailsForAnotherReasonIsAProblem) {
  auto seen = healthy();
  for (auto& right : seen.rights) {
    if (right.command == "SET" || right.command == "ZADD") right.failure = "MISCONF Redis cannot save";
  }
  EXPECT_EQ(one("rights", seen).severity, Severity::problem);
  EXPECT_EQ(one("rights", seen).found, "MISCONF Redis cannot save (reply to SET, ZADD)");
  for (auto& right : seen.rights) {
    if (!right.failure.empty()) right.failure = "READONLY You can't write against a read only replica.";
  }
  EXPECT_EQ(one("rights", seen).severity, Severity::ok) << "told as its role";
}

TEST(RedisDoctor, ATaskPrefixOfTheOtherLayoutIsAProblem) {
  auto seen = healthy();
  seen.task_layout = "documented";
  EXPECT_TRUE(about("layout", seen).empty());
  seen.task_layout = "native";
  EXPECT_EQ(one("layout", seen).severity, Severity::problem);
  EXPECT_EQ(one("layout", seen).found,
            "the task prefix pmcp is used with layout=native; tasks cannot be used");
  RedisOptions native;
  native.layout = RedisLayout::native;
  EXPECT_EQ(one("layout", seen, native).severity, Severity::ok);
  seen.documented_counters = 3;
  EXPECT_EQ(one("layout", seen, native).severity, Severity::problem);
  EXPECT_NE(one("layout", seen, native).found.find("3 fence counters"), std::string::npos);
  seen.documented_counters = 0;
  seen.task_layout = "documented";
  EXPECT_EQ(one("layout", seen, native).severity, Severity::problem);
  seen.other_layout = true;
  EXPECT_EQ(about("layout", seen, native).size(), 2U) << "of locks and of tasks";
}

TEST(RedisDoctor, ARightThatIsRarelyNeededIsNotMissedByAllLocks) {
  RedisOptions native;
  native.layout = RedisLayout::native;
  auto seen = healthy();
  seen.rights = {{.command = "HGETALL", .half = Half::locks, .missing = Right::Missing::command}};
  EXPECT_EQ(about("rights", seen, native).at(0).severity, Severity::problem);
  EXPECT_EQ(about("rights", seen, native).at(0).found,
            "user default may not use the command hgetall: a lock that was broken, or released again after a "
            "lost reply, cannot be acquired from a minute later on");
  seen.rights[0].missing = Right::Missing::key;
  seen.rights.push_back({.command = "HGET", .half = Half::locks});
  EXPECT_EQ(
      about("rights", seen, native).at(0).found,
      "user default may not use hgetall on all the keys syncguard:*: a lock that was broken, or released "
      "again after a lost reply, cannot be acquired from a minute later on");
}

TEST(RedisDoctor, OfASentinelOnlyThatItIsOneIsSaid) {
  auto seen = healthy();
  seen.info["redis_mode"] = "sentinel";
  seen.script_failure = "ERR unknown command 'EVALSHA'";
  const auto findings = judge({}, seen);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings.back().severity, Severity::problem);
  EXPECT_TRUE(mentions(findings.back().found, "Sentinel"));
}

TEST(RedisDoctor, APrefixThatNestsWithAnotherIsAWarningThatNamesTheLockTheyShare) {
  auto seen = healthy();
  RedisOptions options;
  options.lock_prefix = "a:b:";
  EXPECT_EQ(one("prefixes", seen, options).severity, Severity::ok);
  seen.nested_prefixes = {"a"};
  EXPECT_EQ(one("prefixes", seen, options).severity, Severity::warning);
  EXPECT_EQ(one("prefixes", seen, options).found,
            "the lock prefix a is in use too: the key b:x under a and the key x under a:b are one lock");
  seen.nested_prefixes = {"a:b:c"};
  EXPECT_EQ(
      one("prefixes", seen, options).found,
      "the lock prefix a:b:c is in use too: the key c:x under a:b and the key x under a:b:c are one lock");
  seen.nested_prefixes = {""};
  EXPECT_TRUE(mentions(one("prefixes", seen, options).found, "the key a:b:x under \"\" (empty)"));
  seen.prefixes_known = false;
  EXPECT_EQ(one("prefixes", seen, options).severity, Severity::warning) << "what was seen is there";
  seen.nested_prefixes.clear();
  EXPECT_EQ(one("prefixes", seen, options).severity, Severity::note);
  for (int i = 0; i < 7; ++i) seen.nested_prefixes.insert("a:b:" + std::to_string(i));
  EXPECT_EQ(about("prefixes", seen, options).size(), 6U);
  EXPECT_TRUE(mentions(about("prefixes", seen, options).back().found, "2 more"));
}

TEST(RedisDoctor, ScriptsAndWakeUpsThatDoNotWorkAreSaid) {
  auto seen = healthy();
  seen.script_failure = "ERR scripting is disabled";
  EXPECT_EQ(one("scripts", seen).severity, Severity::problem);
  seen.message_reached = 0;
  EXPECT_EQ(one("wake-ups", seen).severity, Severity::warning);
  seen.message_reached = std::nullopt;
  EXPECT_EQ(one("wake-ups", seen).severity, Severity::note);
}

TEST(RedisDoctor, AClockThatIsOffByMoreThanASecondIsAWarning) {
  auto seen = healthy();
  for (const auto ahead : {std::chrono::microseconds(1000ms), std::chrono::microseconds(-1000ms)}) {
    seen.clock_ahead = ahead;
    EXPECT_EQ(one("clock", seen).severity, Severity::ok);
    seen.clock_ahead = ahead * 2;
    EXPECT_EQ(one("clock", seen).severity, Severity::warning);
    EXPECT_TRUE(mentions(one("clock", seen).found, ahead > 0us ? "2000.00 ms ahead" : "2000.00 ms behind"));
  }
  seen.clock_uncertainty = 5s;
  EXPECT_EQ(one("clock", seen).severity, Severity::ok) << "the way there may have taken that long";
  seen.clock_ahead = std::nullopt;
  EXPECT_EQ(one("clock", seen).severity, Severity::note);
}

TEST(RedisDoctor, RoundTripsAreSummedUp) {
  auto seen = healthy();
  seen.round_trips = {3ms, 1ms, 2ms};
  EXPECT_EQ(one("round trips", seen).found, "min 1.00 ms, median 2.00 ms, max 3.00 ms of 3");
  seen.round_trips = {80ms, 80ms, 1ms};
  EXPECT_EQ(one("round trips", seen).severity, Severity::note);
}

TEST(RedisDoctor, FenceCountersAreCountedOrEstimatedAndWeighed) {
  auto seen = healthy();
  EXPECT_TRUE(mentions(one("fences", seen).found, "10 fence counter(s), 720 bytes (72 bytes each)"));
  seen.fences = FenceCount{.counters = 500, .looked_at = 1000, .keys = 4'000'000, .bytes_each = 80};
  EXPECT_TRUE(mentions(one("fences", seen).found, "about 2000000 fence counter(s), 160.0 MB"))
      << one("fences", seen).found;
  EXPECT_EQ(one("fences", seen).severity, Severity::note);
  seen.info["maxmemory"] = "1000000000";
  EXPECT_EQ(one("fences", seen).severity, Severity::warning);
  seen.fences = FenceCount{.keys = 20};
  EXPECT_EQ(one("fences", seen).severity, Severity::ok);
  seen.fences = std::nullopt;
  EXPECT_EQ(one("fences", seen).severity, Severity::note);
}

}  // namespace
}  // namespace holdfast::redis
