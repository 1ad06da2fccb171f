// Queues in Redis: answers that get lost, other software, nothing that is left behind, and which process is
// woken.

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <holdfast/open.hpp>
#include <holdfast/queue.hpp>
#include <set>
#include <thread>

#include "engine/redis/queue_commands.hpp"
#include "support/begun_wait.hpp"
#include "support/eventually.hpp"
#include "support/queue_calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/times.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class RedisQueue : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    direct = make_redis_storage_backend(server->tcp()).value_or_throw();
    // The prefix is marked, and the server knows the scripts: what follows is one question and one answer.
    enqueue(*direct, "warm:t");
    retry(*direct, claim_one(*direct, claim_terms(), "warm"));
    std::ignore = claim_record(*direct, "warm:t");
    remove(*direct, "warm:t");
    RedisOptions options;
    options.port = proxy->port();
    proxied = make_redis_storage_backend(options).value_or_throw();
  }
  /// The next answer to `proxied` is lost with its connection, after the server has carried out the request.
  void lose_the_next_answer() { proxy->cut_after(TcpProxy::Way::to_client, 1); }

  /// The names of all keys, except those of claims and of tasks that were not kept, which expire on their
  /// own, and the layout's mark.
  std::set<std::string> keys() {
    std::set<std::string> names;
    auto raw = server->raw();
    const auto reply = raw.command({"KEYS", "*"});
    for (const auto* part : redis::elements_of(*reply)) {
      const auto name = std::string(redis::text_of(*part));
      if (name != "pmcp:layout" && !name.starts_with("pmcp:queue:claimed:") &&
          name.find(":made:") == std::string::npos) {
        names.insert(name);
      }
    }
    return names;
  }
  std::string final_text(milliseconds retention) {
    return record_text({.expires_at = now_ms(*direct) + retention.count()});
  }

  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<StorageBackend> direct;   ///< undisturbed
  std::shared_ptr<StorageBackend> proxied;  ///< through the proxy
};

TEST_F(RedisQueue, ACreateWhoseAnswerIsLostEntersTheQueueOnce) {
  lose_the_next_answer();
  enqueue(*proxied, "q:t");
  EXPECT_EQ(proxy->accepted(), 2U) << "it was asked twice";
  EXPECT_EQ(count_queue(*direct).ready, 1U);
}

TEST_F(RedisQueue, AClaimWhoseAnswerIsLostClaimsOnce) {
  for (const auto* key : {"q:a", "q:b", "q:c", "q:d"}) enqueue(*direct, key);
  lose_the_next_answer();
  const auto claimed = claim_next(*proxied, claim_terms(2)).claimed;
  EXPECT_EQ(proxy->accepted(), 2U);
  EXPECT_EQ(names_of(claimed), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(claimed[0].record.queue->attempts, 1U);
  EXPECT_EQ(count_queue(*direct).leased, 2U);
  // The next call of the same slot is another one.
  EXPECT_EQ(claim_one(*proxied).key.task(), "c");
  EXPECT_EQ(count_queue(*direct).leased, 3U);
}

TEST_F(RedisQueue, AClaimByNameWhoseAnswerIsLostIsGrantedOnce) {
  enqueue(*direct, "q:t");
  lose_the_next_answer();
  const auto answer = claim_record(*proxied, "q:t");
  EXPECT_EQ(proxy->accepted(), 2U);
  EXPECT_EQ(std::get<ClaimedRecord>(answer).record.queue->attempts, 1U);
}

TEST_F(RedisQueue, AnEndWhoseAnswerIsLostIsMadeOnce) {
  for (const auto* key : {"q:a", "q:b", "q:c"}) enqueue(*direct, key);
  for (const auto end : {LeaseEnd::retried, LeaseEnd::given_back, LeaseEnd::finished}) {
    const auto claimed = claim_one(*direct);
    const auto before = proxy->accepted();
    const auto counts = count_queue(*direct);
    auto request = end_of(claimed, end, end == LeaseEnd::finished ? std::optional("final") : std::nullopt);
    request.then = claim_terms();
    lose_the_next_answer();
    const auto ended = outcome(*proxied, request);
    EXPECT_EQ(proxy->accepted(), before + 1);
    if (end == LeaseEnd::finished) {
      EXPECT_EQ(std::get<Written>(ended.end).version, 2U);
    } else {
      EXPECT_TRUE(std::holds_alternative<LeaseEnded>(ended.end));
    }
    ASSERT_TRUE(ended.next);
    EXPECT_EQ(ended.next->claimed.size(), 1U);
    EXPECT_EQ(count_queue(*direct).leased, counts.leased) << "one ended, one begun";
    for (const auto& next : ended.next->claimed) give_back(*direct, next);
  }
}

TEST_F(RedisQueue, NothingIsLeftBehind) {
  const auto before = keys();
  for (int i = 0; i < 5; ++i) enqueue(*direct, "q:" + std::to_string(i));
  enqueue(*direct, "q:delayed", {.not_before = direct->now() + 1h});
  for (const auto& one : claim_next(*direct, claim_terms(5)).claimed) finish(*direct, one, final_text(300ms));
  outcome(*direct,
          PutRecord{
              .key = record_key("q:delayed"), .data = record_data(final_text(300ms)), .leaves_queue = true});
  EXPECT_EQ(count_queue(*direct).records, 6U);
  EXPECT_TRUE(eventually([&] { return keys() == before; })) << keys().size();
  EXPECT_EQ(count_queue(*direct).records, 0U);
}

TEST_F(RedisQueue, NothingIsLeftBehindOfLimitKeysAndDeadLetters) {
  const auto before = keys();
  const QueueTerms keyed{.limit_key = "k"};
  for (const auto* key : {"q:a", "q:b", "q:c", "q:d", "q:e"}) enqueue(*direct, key, keyed);
  const auto die = [&](const ClaimedRecord& claimed, std::size_t max_dead) {
    auto request = end_of(claimed, LeaseEnd::finished, final_text(300ms));
    request.max_dead = max_dead;
    outcome(*direct, request);
  };
  const auto first = claim_next(*direct, claim_terms(5)).claimed;
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(count_queue(*direct).parked, 4U);
  remove(*direct, "q:e");  // parked
  outcome(*direct,
          PutRecord{.key = record_key("q:d"), .data = record_data(final_text(300ms)), .leaves_queue = true});
  die(first[0], 1);
  die(claim_one(*direct), 1);
  EXPECT_FALSE(get(*direct, "q:a")) << "one dead letter too many";
  const auto last = claim_one(*direct);
  EXPECT_EQ(last.key.task(), "c");
  finish(*direct, last, final_text(300ms));
  EXPECT_TRUE(eventually([&] { return keys() == before; })) << keys().size();
  const auto counts = count_queue(*direct);
  EXPECT_EQ(counts.dead, 0U);
  EXPECT_EQ(counts.records, 0U);
}

TEST_F(RedisQueue, ATaskThatOtherSoftwareRemovedHoldsNothingUpUnderItsKey) {
  const QueueTerms keyed{.limit_key = "k"};
  auto raw = server->raw();
  const auto park = [&](const std::string& first) {  // the others, while this one is leased
    enqueue(*direct, "q:" + first, keyed);
    for (const auto* key : {"q:b", "q:c"}) enqueue(*direct, key, keyed);
    const auto claimed = claim_next(*direct, claim_terms(5, "worker", 50ms)).claimed;
    EXPECT_EQ(names_of(claimed), std::vector<std::string>{first});
    EXPECT_EQ(count_queue(*direct).parked, 2U);
  };
  // A leased one, and the first parked one: noticed when the lease expires.
  park("a");
  raw.text({"DEL", "pmcp:tasks:q:a"});
  raw.text({"DEL", "pmcp:tasks:q:b"});
  std::vector<ClaimedRecord> next;
  EXPECT_TRUE(eventually([&] {
    next = claim_next(*direct).claimed;
    return !next.empty();
  }));
  EXPECT_EQ(names_of(next), std::vector<std::string>{"c"});
  finish(*direct, next.at(0), final_text(1ms));
  // One that was let go, and not claimed yet.
  park("d");
  EXPECT_TRUE(eventually([&] {
    next = claim_next(*direct).claimed;
    return !next.empty();
  }));
  EXPECT_EQ(names_of(next), std::vector<std::string>{"b"}) << "the expired one went behind";
  retry(*direct, next[0], 1h);
  EXPECT_EQ(queue_state(*direct, "q:c").place, QueuePlace::ready);
  raw.text({"DEL", "pmcp:tasks:q:c"});
  EXPECT_EQ(claim_one(*direct).key.task(), "d");
}

TEST_F(RedisQueue, ATaskThatOtherSoftwareMadeAnewHoldsNothingUpUnderItsKey) {
  const QueueTerms keyed{.limit_key = "k"};
  auto raw = server->raw();
  // Outside the queue, since only we write its state there.
  const auto make_anew = [&](const std::string& task) {
    raw.text({"DEL", "pmcp:tasks:q:" + task});
    raw.text({"HSET", "pmcp:tasks:q:" + task, "version", "1", "data", "{}"});
  };
  // While it is leased, and while it is parked: noticed when the lease expires.
  for (const auto* key : {"q:a", "q:b", "q:c"}) enqueue(*direct, key, keyed);
  EXPECT_EQ(names_of(claim_next(*direct, claim_terms(5, "worker", 50ms)).claimed),
            std::vector<std::string>{"a"});
  make_anew("a");
  make_anew("b");
  std::vector<ClaimedRecord> next;
  EXPECT_TRUE(eventually([&] {
    next = claim_next(*direct).claimed;
    return !next.empty();
  }));
  ASSERT_EQ(names_of(next), std::vector<std::string>{"c"});
  EXPECT_EQ(count_queue(*direct).parked, 0U);
  // While it is ready.
  for (const auto* key : {"q:d", "q:e"}) enqueue(*direct, key, keyed);
  retry(*direct, next[0], 1h);
  EXPECT_EQ(queue_state(*direct, "q:d").place, QueuePlace::ready);
  make_anew("d");
  EXPECT_EQ(claim_one(*direct).key.task(), "e");
  auto left = raw.command({"HKEYS", "pmcp:queue:settings:q:keys"});
  std::set<std::string> names;
  for (const auto* name : redis::elements_of(*left)) names.emplace(redis::text_of(*name));
  EXPECT_EQ(names, (std::set<std::string>{"c", "e"}));
}

TEST_F(RedisQueue, AnEntryOfARemovedTaskDoesNotEndTheLeaseOfItsSuccessor) {
  const QueueTerms keyed{.limit_key = "k"};
  enqueue(*direct, "q:a", keyed);
  server->raw().text({"DEL", "pmcp:tasks:q:a"});
  auto later = keyed;
  later.not_before = direct->now() + 1h;
  enqueue(*direct, "q:a", later);
  enqueue(*direct, "q:b", keyed);
  ASSERT_TRUE(std::holds_alternative<ClaimedRecord>(claim_record(*direct, "q:a")));
  // It finds the entry of the first one among the ready ones.
  EXPECT_TRUE(claim_next(*direct, claim_terms(5)).claimed.empty());
  EXPECT_TRUE(claim_next(*direct, claim_terms(5)).claimed.empty()) << "one of its key at a time";
}

TEST_F(RedisQueue, WorkGoesOnAndNothingIsAddedWhenTheServerIsFull) {
  for (const auto* key : {"q:held", "q:ready"}) enqueue(*direct, key);
  enqueue(*direct, "q:due", {.not_before = direct->now() + 300ms});
  const auto held = claim_one(*direct);
  auto raw = server->raw();
  raw.text({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THROW(enqueue(*direct, "q:more"), Error);
  EXPECT_TRUE(renew(*direct, held).is_held);
  EXPECT_EQ(limit_leases(*direct, 1).max_leased, 1U);
  EXPECT_TRUE(claim_next(*direct).claimed.empty());
  limit_leases(*direct, 0);
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*direct, held).end));
  const auto expiring = claim_one(*direct, claim_terms(1, "worker", 100ms));
  EXPECT_EQ(expiring.key.task(), "ready");
  std::this_thread::sleep_for(400ms);
  std::set<std::string> later;
  for (const auto& next : claim_next(*direct, claim_terms(5)).claimed) later.emplace(next.key.task());
  EXPECT_EQ(later, (std::set<std::string>{"due", "ready"}));
  EXPECT_TRUE(std::holds_alternative<FenceRefused>(finish(*direct, expiring).end));
  raw.text({"CONFIG", "SET", "maxmemory", "0"});
}

TEST_F(RedisQueue, AClaimThatIsStoppedBeforeItsAnswerLeavesNoLease) {
  const auto holdfast = open("redis://127.0.0.1:" + std::to_string(proxy->port()));
  const auto queue = holdfast.queue("stopped");
  const auto added = queue.add({.max_attempts = 1});
  std::ignore = queue.counts();
  for (const bool by_completion : {false, true}) {
    proxy->hold(TcpProxy::Way::to_client);
    const auto before = proxy->held(TcpProxy::Way::to_client);
    std::stop_source stop;
    std::promise<Result<std::optional<Job>>> ended;
    std::jthread waiter;
    if (by_completion) {
      queue.start(operation::ClaimNextTask{detail::owned(ClaimOptions{}), {}}, stop.get_token(),
                  [&ended](Result<std::optional<Job>> job) { ended.set_value(std::move(job)); });
    } else {
      waiter = std::jthread([&] {
        try {
          ended.set_value(queue.claim_next({}, stop.get_token()));
        } catch (const Error& error) {
          ended.set_value(error);
        }
      });
    }
    ASSERT_TRUE(eventually([&] { return proxy->held(TcpProxy::Way::to_client) > before; }));
    stop.request_stop();
    std::this_thread::sleep_for(50ms);
    proxy->forward();
    EXPECT_EQ(ended.get_future().get().error().code(), ErrorCode::Aborted);
    EXPECT_TRUE(eventually([&] { return queue.get(added.id).queue->place == QueuePlace::ready; }));
    EXPECT_EQ(queue.get(added.id).queue->attempts, 0U);
  }
}

TEST_F(RedisQueue, ATaskThatComesBackUnderTheNameOfARemovedOneHoldsNoOldLease) {
  const QueueTerms keyed{.limit_key = "k"};
  auto raw = server->raw();
  for (const bool has_other_key : {false, true}) {
    enqueue(*direct, "q:a", keyed);
    enqueue(*direct, "q:b", keyed);
    EXPECT_EQ(claim_next(*direct, claim_terms(5)).claimed.size(), 1U);
    raw.text({"DEL", "pmcp:tasks:q:a"});
    enqueue(*direct, "q:a", {.limit_key = has_other_key ? "other" : ""});
    const auto claimed = claim_next(*direct, claim_terms(5)).claimed;
    std::set<std::string> names;
    for (const auto& one : claimed) names.emplace(one.key.task());
    EXPECT_EQ(names, (std::set<std::string>{"a", "b"}));
    for (const auto& one : claimed) finish(*direct, one, final_text(1ms));
    EXPECT_TRUE(eventually([&] { return count_queue(*direct).records == 0; }));
  }
}

TEST_F(RedisQueue, ATaskWithALimitKeyIsClaimedAndEndedOnceWhenAnswersAreLost) {
  const QueueTerms keyed{.limit_key = "k"};
  lose_the_next_answer();
  enqueue(*proxied, "q:a", keyed);
  enqueue(*direct, "q:b", keyed);
  lose_the_next_answer();
  const auto claimed = claim_one(*proxied);
  EXPECT_TRUE(claim_next(*direct).claimed.empty());
  auto request = end_of(claimed, LeaseEnd::finished, "final");
  request.max_dead = 5;
  lose_the_next_answer();
  EXPECT_EQ(std::get<Written>(outcome(*proxied, request).end).version, 2U);
  EXPECT_EQ(count_queue(*direct).dead, 1U);
  EXPECT_EQ(claim_one(*direct).key.task(), "b");
  EXPECT_EQ(count_queue(*direct).leased, 1U);
}

TEST_F(RedisQueue, AQueueThatIsUsedAgainKeepsItsIndex) {
  enqueue(*direct, "q:a");
  finish(*direct, claim_one(*direct), final_text(200ms));
  enqueue(*direct, "q:b");
  EXPECT_TRUE(eventually([&] { return !get(*direct, "q:a"); }));
  EXPECT_EQ(outcome(*direct, ListRecords{.prefix = "q:"}).records.size(), 1U);
  EXPECT_EQ(count_queue(*direct).records, 1U);
  finish(*direct, claim_one(*direct), final_text(200ms));
  // Nor does it lose a record that is in no queue.
  create(*direct, "q:plain");
  EXPECT_TRUE(eventually([&] { return !get(*direct, "q:b"); }));
  EXPECT_EQ(outcome(*direct, ListRecords{.prefix = "q:"}).records.size(), 1U);
}

TEST_F(RedisQueue, ExpiredTasksDoNotCountAgainstTheQuota) {
  const auto create = [&](const std::string& key) {
    return outcome(
        *direct,
        CreateRecord{.key = record_key(key), .data = record_data("{}"), .quota = 2, .queue = QueueTerms{}});
  };
  EXPECT_TRUE(std::holds_alternative<Written>(create("q:a")));
  EXPECT_TRUE(std::holds_alternative<Written>(create("q:b")));
  finish(*direct, claim_one(*direct), final_text(200ms));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create("q:c")));
  EXPECT_TRUE(eventually([&] { return !get(*direct, "q:a"); }));
  EXPECT_TRUE(std::holds_alternative<Written>(create("q:c")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create("q:d")));
}

TEST_F(RedisQueue, ATaskThatOtherSoftwareRemovedIsDropped) {
  for (const auto* key : {"q:a", "q:b", "q:c"}) enqueue(*direct, key);
  auto raw = server->raw();
  raw.text({"DEL", "pmcp:tasks:q:a"});
  EXPECT_EQ(claim_one(*direct).key.task(), "b");
  raw.text({"DEL", "pmcp:tasks:q:b"});
  const auto counts = count_queue(*direct);
  EXPECT_EQ(counts.ready, 1U);
  EXPECT_EQ(counts.records, 2U) << "the leased one is noticed when its lease expires";
}

TEST_F(RedisQueue, ATaskThatOtherSoftwareRewroteIsClaimedAsItIs) {
  enqueue(*direct, "q:t", {}, R"({"empty":[],"long":12345678901234567890})");
  auto raw = server->raw();
  EXPECT_EQ(raw.text({"HGET", "pmcp:tasks:q:t", "data"}), R"({"empty":[],"long":12345678901234567890})");
  raw.text({"HSET", "pmcp:tasks:q:t", "version", "2", "data", R"({"cancelled":[]})"});
  const auto claimed = claim_one(*direct);
  EXPECT_EQ(claimed.record.version, 2U);
  EXPECT_EQ(claimed.record.data, R"({"cancelled":[]})");
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*direct, claimed).end));
  EXPECT_EQ(raw.text({"HGET", "pmcp:tasks:q:t", "version"}), "3");
}

TEST_F(RedisQueue, AClaimIsAboveTheFenceOfItsRecord) {
  enqueue(*direct, "q:t");
  const auto first = claim_one(*direct);
  auto higher = *first.record.bound_to;
  higher.fence = Fence::of(1000).value_or_throw();
  outcome(*direct, BindRecord{.key = first.key, .fence = higher});
  EXPECT_TRUE(std::holds_alternative<FenceRefused>(give_back(*direct, first).end));
  auto end = end_of(first, LeaseEnd::given_back);
  end.token = higher;
  outcome(*direct, end);
  EXPECT_EQ(claim_one(*direct).record.bound_to->fence.value(), 1001U);
  // A guard that an operator took away does not take the counter with it.
  outcome(*direct, RebindRecord{.key = first.key});
  EXPECT_FALSE(get(*direct, "q:t")->bound_to);
  end.token.fence = Fence::of(1001).value_or_throw();
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(outcome(*direct, end).end));
  EXPECT_EQ(claim_one(*direct).record.bound_to->fence.value(), 1002U);
}

TEST_F(RedisQueue, OneProcessIsWokenAndOneThatIsGoneCostsNothing) {
  // A process that waited and died: registered, and nobody listens.
  auto raw = server->raw();
  raw.text({"ZADD", "pmcp:queue:waiters:q", "-99999999999999", "dead"});
  const auto second = make_redis_storage_backend(server->tcp()).value_or_throw();
  const auto mine = call(*direct, WatchQueue{.owner = "q"}).value_or_throw();
  const auto theirs = call(*second, WatchQueue{.owner = "q"}).value_or_throw();
  EXPECT_TRUE(claim_next(*direct).claimed.empty());
  EXPECT_TRUE(claim_next(*second).claimed.empty());
  EXPECT_EQ(raw.text({"ZCARD", "pmcp:queue:waiters:q"}), "3");
  {
    const BegunWait first(*mine, never, BootClock::now() + 20s);
    const BegunWait other(*theirs, never, BootClock::now() + 20s);
    enqueue(*proxied, "q:a");
    EXPECT_EQ(raw.text({"ZCARD", "pmcp:queue:waiters:q"}), "1") << "the dead one and one that is alive";
    enqueue(*proxied, "q:b");
    EXPECT_TRUE(first.end().value_or(false));
    EXPECT_TRUE(other.end().value_or(false));
  }
  EXPECT_EQ(raw.text({"ZCARD", "pmcp:queue:waiters:q"}), "0");
}

TEST_F(RedisQueue, ALateCopyOfAClaimByNameDoesNotReceiveTheFenceOfAnotherWorker) {
  enqueue(*direct, "q:t");
  const auto layout = redis::StorageLayout::make("pmcp", 0).value_or_throw();
  const redis::QueueClient client{.layout = layout, .channels = "", .process = "AAAAAAAAAAAAAAAAAAAAAA"};
  auto raw = server->raw();
  const auto claim_by_name = [&] {
    ClaimRecord request{.key = record_key("q:t"), .terms = claim_terms()};
    request.terms.lease = 1ms;
    const auto sent = redis::claim_task_command(client, request, "BBBBBBBBBBBBBBBBBBBBBB", redis::By::text);
    return redis::claim_task_outcome(*raw.command(arguments_of(sent)), request).value_or_throw();
  };
  const auto first = std::get<ClaimedRecord>(claim_by_name());
  std::optional<ClaimedRecord> other;
  EXPECT_TRUE(eventually([&] {  // when the lease has expired
    auto claimed = claim_next(*direct, claim_terms()).claimed;
    if (!claimed.empty()) other = std::move(claimed.front());
    return other.has_value();
  }));
  EXPECT_GT(other->record.bound_to->fence, first.record.bound_to->fence);
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_by_name()));
}

TEST_F(RedisQueue, ALateCopyOfAClaimDoesNotReceiveTheLeaseOfAnotherWorker) {
  const auto layout = redis::StorageLayout::make("pmcp", 0).value_or_throw();
  const redis::QueueClient client{.layout = layout, .channels = "", .process = "AAAAAAAAAAAAAAAAAAAAAA"};
  auto raw = server->raw();
  const auto claim_copy = [&] {
    const ClaimNext request{.owner = "q", .terms = claim_terms()};
    const auto sent = redis::claim_command(client, request, {0, 1, ""}, redis::By::text);
    return redis::claim_outcome(*raw.command(arguments_of(sent)), request).value_or_throw().records.claimed;
  };
  enqueue(*direct, "q:t");
  const auto first = claim_copy();
  ASSERT_EQ(names_of(first), std::vector<std::string>{"t"});
  EXPECT_EQ(names_of(claim_copy()), std::vector<std::string>{"t"});
  // The fences of a record that is created anew begin again.
  EXPECT_TRUE(remove(*direct, "q:t"));
  enqueue(*direct, "q:t");
  EXPECT_EQ(claim_one(*direct).record.bound_to->fence, first[0].record.bound_to->fence);
  EXPECT_TRUE(claim_copy().empty());
}

TEST_F(RedisQueue, ALateCopyOfACreateDoesNotAddATaskAgainThatWasFinishedAndNotKept) {
  const auto layout = redis::StorageLayout::make("pmcp", 0).value_or_throw();
  const redis::QueueClient client{.layout = layout, .channels = "", .process = "AAAAAAAAAAAAAAAAAAAAAA"};
  const CreateRecord request{.key = record_key("q:t"), .data = record_data("{}"), .queue = QueueTerms()};
  auto raw = server->raw();
  const auto create_copy = [&] {
    const auto sent = redis::queue_create_command(client, request, "BBBBBBBBBBBBBBBBBBBBBB", redis::By::text);
    return raw.command(arguments_of(sent));
  };
  for (const bool is_finished : {true, false}) {
    std::ignore = create_copy();
    if (is_finished) {
      finish(*direct, claim_one(*direct), final_text(0ms));
    } else {  // cancelled
      outcome(*direct,
              PutRecord{.key = request.key, .data = record_data(final_text(0ms)), .leaves_queue = true});
    }
    EXPECT_FALSE(get(*direct, "q:t"));
    std::ignore = create_copy();
    EXPECT_EQ(count_queue(*direct).ready, 0U) << is_finished;
    const auto name = "pmcp:queue:settings:q:made:BBBBBBBBBBBBBBBBBBBBBB";
    EXPECT_GT(raw.integer({"PTTL", name}), 0) << "it is forgotten";
    raw.integer({"DEL", name});
  }
}

TEST_F(RedisQueue, AnOutcomeWhoseAnswerIsLostIsAcceptedAlthoughItsTaskIsNotKept) {
  enqueue(*direct, "q:t");
  enqueue(*direct, "q:next");
  auto request = end_of(claim_one(*direct), LeaseEnd::finished, final_text(0ms));
  request.then = claim_terms();
  lose_the_next_answer();
  const auto ended = outcome(*proxied, request);
  EXPECT_EQ(std::get<Written>(ended.end).version, 2U);
  EXPECT_EQ(names_of(ended.next.value().claimed), std::vector<std::string>{"next"});
  // The same for a cancel.
  const auto created = enqueue(*direct, "q:t");
  PutRecord cancel{.key = record_key("q:t"), .data = record_data(final_text(0ms)), .leaves_queue = true};
  cancel.expected = {.version = created.version, .incarnation = created.incarnation};
  lose_the_next_answer();
  EXPECT_EQ(std::get<Written>(outcome(*proxied, cancel)).version, 2U);
}

TEST_F(RedisQueue, AnOutcomeWhoseAnswerIsLostIsUnknownIfTheTaskWasRemovedSince) {
  enqueue(*direct, "q:t");
  const auto request = end_of(claim_one(*direct), LeaseEnd::finished, "{}");
  proxy->hold(TcpProxy::Way::to_client);
  std::optional<Result<EndedLease>> ended;
  std::thread ending([&] { ended = call(*proxied, request); });
  EXPECT_TRUE(eventually([&] { return count_queue(*direct).leased == 0; }));
  EXPECT_TRUE(remove(*direct, "q:t"));
  proxy->cut();
  proxy->forward();
  ending.join();
  ASSERT_FALSE(*ended);
  EXPECT_TRUE(is_unknown(ended->error())) << ended->error().what();
}

TEST_F(RedisQueue, AnOutcomeThatIsSentAgainForATaskThatIsGoneMayHaveBeenAccepted) {
  const auto holdfast = open("redis://127.0.0.1:" + std::to_string(proxy->port()) + "?command_timeout=200ms");
  const auto queue = holdfast.queue("work");
  const auto task = queue.add({});
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  proxy->swallow(TcpProxy::Way::to_client);
  EXPECT_THROW(job->complete(), Error);
  EXPECT_TRUE(remove(*direct, "%queue%25work:" + task.id));
  proxy->cut();
  proxy->forward();
  try {
    job->complete();
    FAIL() << "it is gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotFound) << error.what();
    EXPECT_NE(error.message().find("may have been accepted"), std::string::npos) << error.what();
  }
}

TEST_F(RedisQueue, ARetryThatIsSentAgainAfterAnotherClaimMayHaveBeenAccepted) {
  const auto holdfast = open("redis://127.0.0.1:" + std::to_string(proxy->port()) + "?command_timeout=200ms");
  const auto queue = holdfast.queue("work");
  const std::string owner = "%queue%25work";
  for (const bool gives_back : {false, true}) {
    const auto task = queue.add({});
    auto job = queue.claim_next();
    ASSERT_TRUE(job);
    const auto end = [&] { gives_back ? job->give_back() : job->retry({.delay = 0ms}); };
    proxy->swallow(TcpProxy::Way::to_client);
    EXPECT_THROW(end(), Error);
    EXPECT_TRUE(eventually([&] { return count_queue(*direct, owner).ready == 1; }));
    finish(*direct, claim_one(*direct, claim_terms(), owner));
    proxy->cut();
    proxy->forward();
    try {
      end();
      FAIL() << "another worker has claimed it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::StaleFence) << error.what();
      EXPECT_NE(error.message().find("may have been accepted"), std::string::npos) << error.what();
    }
  }
}

TEST_F(RedisQueue, ProcessesThatAreGoneDoNotStayRegistered) {
  auto raw = server->raw();
  const auto now = now_ms(*direct);
  const std::string waiters = "pmcp:queue:waiters:q";
  for (int i = 0; i < 150; ++i) {
    raw.text({"ZADD", waiters, std::to_string(-(now - 301'000)), "gone" + std::to_string(i)});
  }
  raw.text({"ZADD", waiters, std::to_string(-(now - 1000)), "alive"});
  const auto watch = call(*direct, WatchQueue{.owner = "q"}).value_or_throw();
  EXPECT_TRUE(claim_next(*direct).claimed.empty());
  EXPECT_TRUE(claim_next(*direct).claimed.empty()) << "a bounded number each time";
  EXPECT_EQ(raw.text({"ZCARD", waiters}), "2");
}

}  // namespace
}  // namespace holdfast::test
