// What the doctor says about sentinels, replicas and clusters.

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/redis_doctor_findings.hpp"

namespace holdfast::redis {
namespace {

/// A service of three sentinels, at epoch 2.
struct WatchedService {
  WatchedService() {
    for (const auto* host : {"s1", "s2", "s3"}) {
      options.sentinels.push_back({.host = host, .port = 26379});
      seen.sentinels.all.push_back({.address = std::string(host) + ":26379",
                                    .answer = SentinelAnswer{.master = master, .replicas = 2},
                                    .quorum = "OK 3 usable Sentinels.",
                                    .id = std::string("id of ") + host});
    }
    options.sentinel_service = "orders";
    seen.sentinels.master = master;
    seen.sentinels.min_replicas = "1";
    seen.highest_counter = 2'000'000'017;
    seen.info["connected_slaves"] = "2";
  }
  /// The most serious one.
  [[nodiscard]] Finding finding() const {
    const auto all = about("sentinels", seen, options);
    EXPECT_FALSE(all.empty());
    return all.empty() ? Finding{} : *std::ranges::max_element(all, {}, &Finding::severity);
  }
  /// The texts of all of them.
  [[nodiscard]] std::string text() const {
    std::string lines;
    for (const auto& finding : about("sentinels", seen, options)) {
      lines += std::string(to_string(finding.severity)) + ": " + finding.found + "\n";
    }
    return lines;
  }

  NamedMaster master{.address = {.host = "m", .port = 6379}, .epoch = 2};
  RedisOptions options;
  Observations seen = healthy();
};

TEST(RedisDoctor, SentinelsThatAgreeAreFine) {
  const WatchedService service;
  EXPECT_EQ(service.text(), "ok: 3 sentinels name the master m:6379 (epoch 2), and can elect another\n");
  EXPECT_TRUE(about("sentinels", healthy()).empty()) << "a server without sentinels";
}

TEST(RedisDoctor, NamesSentinelsThatCannotBeUsedOrDisagree) {
  WatchedService unreachable;
  unreachable.seen.sentinels.all[1].answer = Error(ErrorCode::ServiceUnavailable, "refused");
  EXPECT_EQ(unreachable.finding().severity, Severity::warning);
  EXPECT_TRUE(mentions(unreachable.finding().found, "s2:26379"));
  WatchedService torn;
  torn.seen.sentinels.all[2].answer->master.epoch = 1;
  EXPECT_EQ(torn.finding().severity, Severity::problem);
  EXPECT_TRUE(mentions(torn.finding().found, "m:6379 (epoch 1), m:6379 (epoch 2)"));
  WatchedService few;
  few.seen.sentinels.all[0].quorum = "NOQUORUM 1 usable Sentinels.";
  EXPECT_EQ(few.finding().severity, Severity::problem);
  EXPECT_TRUE(mentions(few.finding().found, "NOQUORUM"));
  EXPECT_FALSE(mentions(few.text(), "can elect another"));
  WatchedService unknown_user;
  unknown_user.seen.sentinels.all[1].answer =
      Error(ErrorCode::AuthFailed, "the server rejected the user", "WRONGPASS invalid");
  EXPECT_TRUE(mentions(unknown_user.finding().advice, "create the user of the others there too"));
  EXPECT_TRUE(mentions(unreachable.finding().advice, "start it"));
}

TEST(RedisDoctor, DoesNotClaimAQuorumThatItMayNotAskFor) {
  WatchedService service;
  service.options.sentinel_user = "app";
  for (auto& sentinel : service.seen.sentinels.all) {
    sentinel.quorum.clear();
    sentinel.missing = {"+sentinel|ckquorum"};
  }
  EXPECT_EQ(service.finding().severity, Severity::warning);
  EXPECT_TRUE(mentions(service.finding().found, "quorum not checked")) << service.finding().found;
  EXPECT_TRUE(mentions(service.finding().found, "s1:26379, s2:26379, s3:26379")) << service.finding().found;
  EXPECT_EQ(service.finding().advice, "ACL SETUSER app +sentinel|ckquorum, then ACL SAVE, at each sentinel");
  EXPECT_FALSE(mentions(service.text(), "can elect another")) << service.text();
  service.seen.sentinels.all[0].quorum = "ERR unexpected";
  EXPECT_TRUE(mentions(service.text(), "warning: sentinel s1:26379: quorum not checked: ERR unexpected"));
}

TEST(RedisDoctor, NamesEachRightThatTheUserAtTheSentinelsLacks) {
  for (const auto& right : sentinel_rights()) {
    WatchedService service;
    service.seen.sentinels.all[1].missing = {"+" + acl_name_of(right.command)};
    EXPECT_EQ(service.finding().severity, right.severity) << right.command;
    EXPECT_TRUE(mentions(service.finding().found, std::string(right.lost))) << service.finding().found;
  }
  WatchedService deaf;
  deaf.seen.sentinels.all[2].missing = {"&+switch-master"};
  EXPECT_EQ(deaf.finding().severity, Severity::warning);
  EXPECT_EQ(
      deaf.finding().found,
      "user default has no access to the channel +switch-master at the sentinel(s) s3:26379: a failover "
      "is noticed only when the old master does not answer");
}

TEST(RedisDoctor, OneSentinelUnderSeveralAddressesIsNoMajority) {
  WatchedService service;
  service.seen.sentinels.all[1].id = service.seen.sentinels.all[0].id;
  EXPECT_EQ(service.finding().severity, Severity::warning);
  EXPECT_TRUE(mentions(service.finding().found, "several times: s1:26379, s2:26379")) << service.text();
  EXPECT_TRUE(mentions(service.text(), "ok: 2 sentinels name the master")) << service.text();
  EXPECT_TRUE(mentions(service.text(), "note: the URL names 2 sentinel(s)")) << service.text();
  for (auto& sentinel : service.seen.sentinels.all) sentinel.id.clear();
  EXPECT_EQ(service.finding().severity, Severity::ok) << "not known";
}

TEST(RedisDoctor, AReplicaThatOnlyTheSentinelsKnowIsAWarning) {
  WatchedService service;
  service.seen.info["connected_slaves"] = "1";
  for (auto& sentinel : service.seen.sentinels.all) sentinel.answer->replicas = 1;
  EXPECT_EQ(service.finding().severity, Severity::ok);
  service.seen.sentinels.all[2].answer->replicas = 2;
  EXPECT_EQ(service.finding().severity, Severity::warning);
  EXPECT_TRUE(mentions(service.finding().found, "know 2 replica(s), but 1 of them")) << service.text();
  service.seen.info["connected_slaves"] = "0";
  EXPECT_TRUE(mentions(service.finding().found, "no failover is possible")) << service.text();
  EXPECT_FALSE(mentions(service.text(), "can elect another")) << service.text();
  service.seen.info.clear();
  EXPECT_EQ(service.finding().severity, Severity::ok) << "not known";
}

TEST(RedisDoctor, WithoutAReplicaThereIsNobodyToElect) {
  WatchedService service;
  service.seen.info["connected_slaves"] = "0";
  for (auto& sentinel : service.seen.sentinels.all) sentinel.answer->replicas = 0;
  EXPECT_EQ(service.text(),
            "ok: 3 sentinels name the master m:6379 (epoch 2)\n"
            "warning: the master has no replica: no failover is possible\n");
  service.seen.info["connected_slaves"] = "1";
  for (auto& sentinel : service.seen.sentinels.all) sentinel.answer->replicas = 1;
  service.seen.sentinels.all[1].answer->replicas = 0;
  EXPECT_EQ(service.text(),
            "ok: 3 sentinels name the master m:6379 (epoch 2)\n"
            "warning: the sentinel(s) s2:26379 know no replica: they can promote none\n");
}

TEST(RedisDoctor, ComparesTheEpochWithTheCounters) {
  WatchedService forgetful;
  forgetful.seen.highest_counter = 3'000'000'000;
  EXPECT_EQ(forgetful.finding().severity, Severity::warning);
  EXPECT_TRUE(mentions(forgetful.finding().found, "3000000000"));
  forgetful.seen.highest_counter = 2'999'999'999;
  EXPECT_EQ(forgetful.finding().severity, Severity::ok);
  WatchedService exhausted;
  exhausted.seen.sentinels.master->epoch = 90'001;
  EXPECT_EQ(exhausted.finding().severity, Severity::problem);
}

TEST(RedisDoctor, AdvisesReplicasThatMustFollow) {
  WatchedService service;
  service.seen.sentinels.min_replicas = "0";
  EXPECT_EQ(service.finding().severity, Severity::note);
  EXPECT_TRUE(mentions(service.finding().advice, "min-replicas-to-write 1"));
  EXPECT_TRUE(mentions(service.text(), "ok: 3 sentinels name the master")) << "what is well is said too";
}

/// A master of two replicas at which the user has all rights.
Observations with_replicas() {
  auto seen = healthy();
  seen.user = "app";
  seen.info["connected_slaves"] = "2";
  seen.info["slave0"] = "ip=10.0.0.2,port=6379,state=online,offset=1,lag=0";
  seen.info["slave1"] = "ip=fd00::3,port=6380,state=online,offset=1,lag=0";
  for (const auto& address : replicas_in(seen.info)) {
    seen.replicas.push_back({.address = to_text(address), .rights = seen.rights});
  }
  return seen;
}

TEST(RedisDoctor, ReplicasAreReadFromInfo) {
  const auto seen = with_replicas();
  ASSERT_EQ(seen.replicas.size(), 2U);
  EXPECT_EQ(seen.replicas[0].address, "10.0.0.2:6379");
  EXPECT_EQ(seen.replicas[1].address, "[fd00::3]:6380");
  EXPECT_TRUE(replicas_in(parse_info("slave0:nonsense\r\nslave1:ip=h,port=x\r\n")).empty());
  EXPECT_EQ(one("replicas", seen).severity, Severity::ok);
  EXPECT_EQ(one("replicas", seen).found, "user app has the same rights at 2 replica(s)");
  EXPECT_TRUE(about("replicas", healthy()).empty());
}

TEST(RedisDoctor, AUserThatAReplicaDoesNotKnowIsAProblem) {
  for (const auto* refusal : {"WRONGPASS invalid username-password pair", "NOAUTH Authentication required.",
                              "NOPERM this user has no permissions"}) {
    auto seen = with_replicas();
    seen.replicas[1].failure = Error(ErrorCode::AuthFailed, "refused", refusal);
    const auto found = about("replicas", seen);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].severity, Severity::problem) << refusal;
    EXPECT_TRUE(mentions(found[0].found, "user app cannot log in at the replica [fd00::3]:6380"));
    EXPECT_TRUE(mentions(found[0].advice, "create the user there too"));
  }
  auto unreachable = with_replicas();
  unreachable.replicas[0].failure = Error(ErrorCode::ServiceUnavailable, "cannot connect");
  EXPECT_EQ(about("replicas", unreachable).at(0).severity, Severity::note);
  EXPECT_TRUE(
      mentions(about("replicas", unreachable).at(0).found, "not checked at the replica 10.0.0.2:6379"));
  auto untrusted = with_replicas();
  untrusted.replicas[0].failure = Error(ErrorCode::AuthFailed, "not trusted", "self-signed certificate");
  EXPECT_EQ(about("replicas", untrusted).at(0).severity, Severity::warning);
}

TEST(RedisDoctor, RightsThatAreMissingOnlyAtAReplicaAreNamed) {
  auto seen = with_replicas();
  for (auto& right : seen.replicas[0].rights) {
    if (right.command == "GET") right.missing = Right::Missing::command;
    right.failure = "READONLY You can't write against a read only replica.";
  }
  const auto found = about("replicas", seen);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].severity, Severity::problem);
  EXPECT_TRUE(mentions(found[0].found, "10.0.0.2:6379, which clients use after a failover: +get missing"))
      << found[0].found;
  lose(seen, "GET", Right::Missing::command);
  EXPECT_EQ(one("replicas", seen).severity, Severity::ok) << "reported as missing at the master";
}

TEST(RedisDoctor, MoreReplicasThanAreCheckedAreNoted) {
  auto seen = with_replicas();
  seen.replicas.pop_back();
  EXPECT_TRUE(mentions(about("replicas", seen).at(0).found, "checked at 1 of 2 replicas"));
}

/// Three masters with a replica each, of the epochs 1, 2 and 3.
ObservedCluster whole_cluster() {
  ObservedCluster seen;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    seen.masters.push_back({.name = "n" + std::to_string(i) + ":6379",
                            .config_epoch = i,
                            .replicas = 1,
                            .highest_counter = i * 1'000'000'000 + 17,
                            .counters_known = true});
  }
  return seen;
}

std::string text_of_cluster(const ObservedCluster& seen) {
  std::string text;
  for (const auto& finding : judge_cluster(seen)) {
    text += std::string(to_string(finding.severity)) + ": " + finding.found + "\n";
    EXPECT_TRUE(finding.severity < Severity::warning || !finding.advice.empty()) << finding.found;
  }
  return text;
}

TEST(RedisDoctor, AWholeClusterIsFine) {
  EXPECT_EQ(text_of_cluster(whole_cluster()),
            "ok: 3 masters have all slots\n"
            "ok: the highest config epoch is 3: fences continue above those that a failover lost\n");
}

TEST(RedisDoctor, AMasterThatIsConsideredFailedDoesNotCount) {
  auto seen = whole_cluster();
  seen.masters[1].failed = true;
  EXPECT_TRUE(mentions(text_of_cluster(seen), "problem: considered failed: n2:6379"))
      << text_of_cluster(seen);
  EXPECT_FALSE(mentions(text_of_cluster(seen), "have all slots"));
}

TEST(RedisDoctor, ANodeThatConsidersTheClusterDownIsAProblem) {
  auto seen = whole_cluster();
  seen.down_at = {"n1:6379", "n9:6379"};
  EXPECT_TRUE(mentions(text_of_cluster(seen),
                       "problem: the cluster is down (cluster_state:fail) according to "
                       "n1:6379, n9:6379"))
      << text_of_cluster(seen);
}

TEST(RedisDoctor, SlotsThatMoveAreAWarning) {
  auto seen = whole_cluster();
  seen.masters[0].moving_slots = seen.masters[2].moving_slots = 1;
  EXPECT_TRUE(mentions(text_of_cluster(seen), "warning: slots are moving at n1:6379, n3:6379"))
      << text_of_cluster(seen);
}

TEST(RedisDoctor, CountersAboveTheEpochOfTheirMasterAreAWarning) {
  auto seen = whole_cluster();
  seen.masters[0].highest_counter = 1'999'999'999;
  EXPECT_TRUE(mentions(text_of_cluster(seen), "fences continue above")) << "the last one of its epoch";
  seen.masters[0].highest_counter = 2'000'000'000;  // its own epoch counts, not the highest of the cluster
  EXPECT_TRUE(mentions(text_of_cluster(seen),
                       "warning: a fence counter at n1:6379 is at 2000000000, above all fences of its config "
                       "epoch 1"))
      << text_of_cluster(seen);
  EXPECT_TRUE(mentions(text_of_cluster(seen), "until the epoch is above 2"));
  EXPECT_FALSE(mentions(text_of_cluster(seen), "fences continue above"));
  seen = whole_cluster();
  seen.masters[1].counters_not_compared = 7;
  EXPECT_TRUE(mentions(text_of_cluster(seen),
                       "note: the highest config epoch is 3; 7 fence counters at n2:6379 were not "
                       "compared with it"))
      << text_of_cluster(seen);
  seen = whole_cluster();
  seen.masters[2].counters_known = false;
  EXPECT_TRUE(mentions(text_of_cluster(seen),
                       "note: the highest config epoch is 3; fence counters were not "
                       "compared with it at n3:6379"))
      << text_of_cluster(seen);
  seen.masters[2].config_epoch = 90'001;
  EXPECT_TRUE(mentions(text_of_cluster(seen), "problem: the config epoch 90001"));
}

TEST(RedisDoctor, OfAFailoverInAClusterOnlyLocksAreLost) {
  auto seen = healthy();
  seen.info["connected_slaves"] = "1";
  EXPECT_TRUE(mentions(one("role", seen).found, "newest locks and fences"));
  seen.in_cluster = true;
  EXPECT_TRUE(mentions(one("role", seen).found, "newest locks (fences stay in order)"));
}

TEST(RedisDoctor, FindingsThatAreEqualAtAllMastersAreOneLine) {
  const Finding saves{Severity::ok, "persistence", "saved", ""},
      old{Severity::problem, "server", "old", "up"};
  const Finding young{Severity::ok, "server", "young", ""};
  const auto lines = [](const std::vector<NodeFindings>& nodes) {
    std::string text;
    for (const auto& finding : folded(nodes)) text += finding.topic + ": " + finding.found + "\n";
    return text;
  };
  EXPECT_EQ(lines({{"a", {young, saves}}, {"b", {old, saves}}, {"c", {young, saves}}}),
            "server: a, c: young\nserver: b: old\npersistence: all 3 masters: saved\n");
  EXPECT_EQ(lines({{"a", {saves}}}), "persistence: a: saved\n");
  auto serious = saves;
  serious.severity = Severity::warning;
  EXPECT_EQ(lines({{"a", {saves}}, {"b", {serious}}}), "persistence: a: saved\npersistence: b: saved\n");
  auto advised = saves;
  advised.advice = "do it";
  EXPECT_EQ(folded({{"a", {saves}}, {"b", {advised}}}).size(), 2U);
}

}  // namespace
}  // namespace holdfast::redis
