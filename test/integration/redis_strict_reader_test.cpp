// A pmcp-tasks process reads every field of a task's hash as UTF-8, and fails for the whole owner if one is
// not. So each field of every such hash is: of a task with binary output, and of a queued task in every
// place. And what earlier builds stored as bytes is read, and becomes text.

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "core/utf8.hpp"
#include "engine/redis/wire/reply.hpp"
#include "support/queue_calls.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

/// The bytes of a number, big-endian, as earlier builds stored it.
std::string bytes_of(std::uint64_t number, unsigned size) {
  std::string bytes;
  for (unsigned i = size; i-- > 0;) bytes += static_cast<char>(number >> (8 * i) & 0xFFU);
  return bytes;
}

class RedisStrictReader : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    backend = make_redis_storage_backend(server->tcp()).value_or_throw();
    raw.emplace(server->raw());
  }

  /// What such a reader cannot decode: names of hashes and fields.
  [[nodiscard]] std::set<std::string> unreadable() const {
    std::set<std::string> found;
    const auto names = raw->command({"KEYS", "pmcp:tasks:*"});
    for (const auto* name : redis::elements_of(*names)) {
      const std::string hash(redis::text_of(*name));
      const auto reply = raw->command({"HGETALL", hash});
      const auto parts = redis::elements_of(*reply);
      EXPECT_GT(parts.size(), 4U) << hash;
      for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
        const auto field = std::string(redis::text_of(*parts[i]));
        if (!core::is_utf8(field) || !core::is_utf8(redis::text_of(*parts[i + 1])))
          found.insert(hash + " " + field);
      }
    }
    return found;
  }

  [[nodiscard]] OutputRun append(std::uint64_t at, const std::string& bytes,
                                 std::size_t keep = 64 * 1024) const {
    return std::get<OutputRun>(
        outcome(*backend, AppendOutput{.key = record_key("o:t"),
                                       .fence = token(5),
                                       .pieces = {OutputPiece{.at = at, .bytes = bytes}},
                                       .keep = keep}));
  }
  [[nodiscard]] std::string read(std::uint64_t from = 0, std::size_t limit = max_output_read,
                                 std::uint64_t run = 0) const {
    return outcome(*backend,
                   ReadOutput{.key = record_key("o:t"), .run = run, .from = {from, 0}, .limit = limit})
        ->pieces[0]
        .bytes;
  }

  /// Puts the task's state back into the form of earlier builds.
  void make_binary(const std::string& task, char place, const QueueTerms& terms, std::uint32_t attempts,
                   std::uint64_t sequence, std::uint64_t lease_end, std::uint64_t fence) const {
    const auto due = static_cast<std::uint64_t>(now_ms(*backend));
    const auto none = std::uint64_t{1} << 63U;
    auto field = std::string(1, place) + bytes_of(attempts, 4) + bytes_of(0, 4) + bytes_of(due, 7) +
                 bytes_of((std::uint64_t{1} << 53U) - 1, 7) + bytes_of(sequence, 7) + bytes_of(due, 7) +
                 bytes_of(lease_end, 7) + bytes_of(fence, 7) +
                 bytes_of(static_cast<std::uint64_t>(terms.priority), 2) + bytes_of(terms.max_attempts, 4) +
                 bytes_of(0, 8) + bytes_of(static_cast<std::uint64_t>(terms.max_age.count()), 8) +
                 bytes_of(3'600'000, 8) + bytes_of(none, 8) + bytes_of(terms.limit_key.empty() ? 0 : 2, 1) +
                 bytes_of(1'209'600'000, 8);
    if (!terms.limit_key.empty()) {
      field += bytes_of(terms.limit, 4) + bytes_of(terms.limit_key.size(), 2) + terms.limit_key;
    }
    raw->text({"HSET", "pmcp:tasks:q:" + task, "queue", field + "worker"});
  }
  [[nodiscard]] QueueState state(const std::string& task) const { return *get(*backend, "q:" + task)->queue; }

  std::optional<RedisServer> server;
  std::shared_ptr<StorageBackend> backend;
  mutable std::optional<RawRedis> raw;
};

TEST_F(RedisStrictReader, SeesATaskWithBinaryOutputCutAnywhere) {
  create(*backend, "o:t");
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    all += static_cast<char>(i * 37);
    all += "\u20ac\U0001F512\uF780\uF7FF";
  }
  // Pieces that cut characters, and each other: the second half of each piece is sent twice.
  std::uint64_t end = 0;
  for (std::size_t at = 0; end < all.size(); at += 701) {
    end = append(at, all.substr(at, 1402 + at % 5)).streams[0].end;
    ASSERT_EQ(unreadable(), std::set<std::string>()) << at;
  }
  EXPECT_EQ(read(), all.substr(0, max_output_read));
  for (const std::uint64_t from : {1U, 4095U, 4096U, 4097U, 20'000U}) {
    EXPECT_EQ(read(from, 100), all.substr(from, 100));
  }
  // Behind a gap, and more than is kept.
  std::ignore = append(all.size() + 1000, all, 8192);
  EXPECT_EQ(unreadable(), std::set<std::string>());
  const auto run = append(2 * all.size() + 1000, "\xE2\x82", 8192).streams[0];
  EXPECT_EQ(run.end, 2 * all.size() + 1002);
  EXPECT_EQ(read(run.begin), all.substr(run.begin - all.size() - 1000) + "\xE2\x82");
}

TEST_F(RedisStrictReader, TextIsKeptAsItIs) {
  create(*backend, "o:t");
  std::ignore = append(0, "gr\u00fc\u00df dich \u20ac\n");
  EXPECT_EQ(raw->text({"HGET", "pmcp:tasks:o:t", "output:1:0:0"}), "gr\u00fc\u00df dich \u20ac\n");
}

TEST_F(RedisStrictReader, ReadsOutputOfEarlierBuildsAsBytes) {
  create(*backend, "o:t");
  const std::string bytes("\xFF\xEF\x9E\x80 a", 6);
  raw->text({"HSET", "pmcp:tasks:o:t", "output", "1,000000000000005,0,0,0,6,0,0," + std::string(40, 'a'),
             "output:1:0:0", bytes});
  EXPECT_EQ(read(), bytes);
  EXPECT_EQ(append(0, "\xFF").number, 2U) << "another run";
  EXPECT_EQ(read(0, 100, 1), bytes);
  EXPECT_EQ(read(), "\xFF");
}

TEST_F(RedisStrictReader, SeesAQueuedTaskInEveryPlace) {
  const QueueTerms keyed{.priority = -300, .limit_key = "\u043a\u043b\u044e\u0447"};
  const auto terms = claim_terms(1, "w\u00f6rker");
  const auto later = backend->now() + 1h;
  enqueue(*backend, "q:delayed", {.priority = -1, .not_before = later});
  enqueue(*backend, "q:leased", keyed);
  const auto leased = claim_one(*backend, terms);
  EXPECT_EQ(leased.record.queue->worker, "w\u00f6rker");
  EXPECT_EQ(leased.record.queue->terms.limit_key, keyed.limit_key);
  EXPECT_EQ(leased.record.queue->terms.priority, -300);
  EXPECT_TRUE(renew(*backend, leased, 90s).is_held);
  enqueue(*backend, "q:parked", keyed);
  enqueue(*backend, "q:exhausted", {.max_attempts = 1});
  retry(*backend, claim_one(*backend, terms));
  enqueue(*backend, "q:finished");
  finish(*backend, claim_one(*backend, terms), record_text({.expires_at = now_ms(*backend) + 60'000}));
  enqueue(*backend, "q:dead");
  auto dies = end_of(claim_one(*backend, terms), LeaseEnd::finished,
                     record_text({.expires_at = now_ms(*backend) + 60'000}));
  dies.max_dead = 10;
  outcome(*backend, dies);
  enqueue(*backend, "q:retried");
  retry(*backend, claim_one(*backend, terms), 1h);
  enqueue(*backend, "q:ready");
  give_back(*backend, claim_one(*backend, terms));
  std::set<QueuePlace> places;
  for (const auto* task :
       {"delayed", "leased", "parked", "exhausted", "finished", "dead", "retried", "ready"}) {
    places.insert(state(task).place);
  }
  EXPECT_EQ(places.size(), 7U);
  EXPECT_EQ(state("delayed").terms.not_before, later);
  EXPECT_EQ(unreadable(), std::set<std::string>());
}

TEST_F(RedisStrictReader, AStateOfAnEarlierBuildIsReadAndBecomesTextWithTheFirstChange) {
  const QueueTerms terms{
      .priority = -7, .max_attempts = 3, .max_age = milliseconds::max(), .limit_key = "k", .limit = 2};
  enqueue(*backend, "q:t", terms);
  make_binary("t", '\1', terms, 0, 1, 0, 41);
  EXPECT_EQ(unreadable(), std::set<std::string>{"pmcp:tasks:q:t queue"});
  const auto before = state("t");
  EXPECT_EQ(before.place, QueuePlace::ready);
  EXPECT_EQ(before.terms.priority, -7);
  EXPECT_EQ(before.worker, "worker");
  const auto claimed = claim_one(*backend, claim_terms(1, "new"));
  EXPECT_EQ(claimed.record.bound_to->fence.value(), 42U) << "above those of earlier claims";
  EXPECT_EQ(claimed.record.queue->terms, before.terms);
  EXPECT_EQ(claimed.record.queue->worker, "new");
  EXPECT_EQ(claimed.record.queue->attempts, 1U);
  EXPECT_EQ(unreadable(), std::set<std::string>());
  EXPECT_EQ(count_queue(*backend).leased, 1U);
}

TEST_F(RedisStrictReader, EveryStepTakesAStateOfAnEarlierBuild) {
  const QueueTerms keyed{.limit_key = "k"};
  // Leased: renewed, retried, given back, finished.
  for (const std::string how : {"renew", "retry", "give_back", "finish"}) {
    enqueue(*backend, "q:" + how);
    const auto claimed = claim_one(*backend);
    const auto fence = claimed.record.bound_to->fence.value();
    make_binary(how, '\2', {}, 1, 1, static_cast<std::uint64_t>(now_ms(*backend) + 60'000), fence);
    if (how == "renew") {
      EXPECT_TRUE(renew(*backend, claimed).is_held);
      finish(*backend, claimed);
    } else if (how == "retry") {
      retry(*backend, claimed, 1h);
      EXPECT_EQ(state(how).place, QueuePlace::delayed);
    } else if (how == "give_back") {
      give_back(*backend, claimed);
      EXPECT_EQ(state(how).place, QueuePlace::ready);
      finish(*backend, claim_one(*backend));
    } else {
      finish(*backend, claimed);
      EXPECT_EQ(state(how).place, QueuePlace::finished);
    }
  }
  EXPECT_EQ(unreadable(), std::set<std::string>());
  // Expired: another claim counts the death.
  enqueue(*backend, "q:expired");
  std::ignore = claim_one(*backend);
  make_binary("expired", '\2', {}, 1, 1, 1, 1);
  raw->text({"ZADD", "pmcp:queue:leases:q", "1", "expired"});
  raw->text({"HDEL", "pmcp:queue:settings:q", "look"});
  const auto again = claim_one(*backend);
  EXPECT_EQ(again.record.queue->deaths, 1U);
  // Parked: let go by the end of another one of its key.
  enqueue(*backend, "q:first", keyed);
  const auto first = claim_one(*backend);
  enqueue(*backend, "q:second", keyed);
  EXPECT_EQ(state("second").place, QueuePlace::parked);
  make_binary("second", '\5', keyed, 0, 100, 0, 0);
  finish(*backend, first);
  EXPECT_EQ(claim_one(*backend).key.task(), "second");
  // Removed, and replaced.
  enqueue(*backend, "q:removed");
  make_binary("removed", '\1', {}, 0, 200, 0, 0);
  EXPECT_TRUE(remove(*backend, "q:removed"));
  enqueue(*backend, "q:put");
  make_binary("put", '\1', {}, 0, 300, 0, 0);
  outcome(*backend, PutRecord{.key = record_key("q:put"), .data = record_data("{}"), .leaves_queue = true});
  EXPECT_EQ(state("put").place, QueuePlace::finished);
  EXPECT_EQ(unreadable(), std::set<std::string>());
}

TEST_F(RedisStrictReader, ADamagedStateLosesNoOtherTask) {
  const QueueTerms keyed{.limit_key = "k"};
  enqueue(*backend, "q:whole", keyed);
  const auto whole = raw->text({"HGET", "pmcp:tasks:q:whole", "queue"});
  finish(*backend, claim_one(*backend));
  std::vector<std::string> damaged{"", "1", whole.substr(0, 150), whole.substr(0, 170),
                                   std::string(98, '\2')};
  for (std::size_t at = 1; at < 173; ++at) {
    auto one = whole;
    one[at] = 'x';
    damaged.push_back(one);
  }
  for (const auto& field : damaged) {
    enqueue(*backend, "q:bad", keyed);
    enqueue(*backend, "q:good");
    raw->text({"HSET", "pmcp:tasks:q:bad", "queue", field});
    const auto claimed = claim_one(*backend, claim_terms(5));
    EXPECT_EQ(claimed.key.task(), "good") << field;
    finish(*backend, claimed);
    EXPECT_TRUE(remove(*backend, "q:bad"));
    EXPECT_TRUE(remove(*backend, "q:good"));
  }
}

}  // namespace
}  // namespace holdfast::test
