// Random operations on a queue against a plain model of it.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/storage_contract.hpp"
#include "support/queue_calls.hpp"
#include "support/seeded.hpp"

namespace holdfast::test {
namespace {

/// One record of the model. The order is that of a vector: no sequence numbers.
struct ModelRecord {
  std::string name;
  std::uint64_t version = 1;
  std::string incarnation, data;
  QueueTerms terms;
  QueuePlace place = QueuePlace::ready;
  std::uint32_t attempts = 0, deaths = 0;
  std::int64_t due_at = 0, fails_at = 0, lease_ends = 0, attempt_ends = 0, died_at = 0;
  std::optional<FencingToken> token;
  std::string worker;
};

/// What a queue should be. Where a record stands among those of its priority is its place in `line`, which
/// grows at its end; a record that is leased keeps its place there, in case it is given back.
class QueueModel {
 public:
  std::map<std::string, ModelRecord> records;
  std::vector<std::string> line;
  bool paused = false;
  std::size_t max_leased = 0;

  ModelRecord* find(const std::string& name) {
    const auto at = records.find(name);
    return at == records.end() ? nullptr : &at->second;
  }
  void leave_line(const std::string& name) { std::erase(line, name); }
  void go_behind(ModelRecord& record, std::int64_t now) {
    leave_line(record.name);
    const bool is_exhausted = record.attempts >= record.terms.max_attempts || now >= record.fails_at;
    if (!is_exhausted) line.push_back(record.name);
    move(record, is_exhausted ? QueuePlace::exhausted : QueuePlace::ready);
  }
  [[nodiscard]] std::size_t leased_of(const std::string& key) const {
    return static_cast<std::size_t>(std::ranges::count_if(records, [&](const auto& entry) {
      return entry.second.place == QueuePlace::leased && entry.second.terms.limit_key == key;
    }));
  }
  [[nodiscard]] bool is_over_limit(const ModelRecord& record) const {
    return !record.terms.limit_key.empty() && leased_of(record.terms.limit_key) >= record.terms.limit;
  }
  /// A record that would be ready is parked if its key is at its limit. Where one stops being leased, or
  /// ready without being claimed, the first parked one of its key is ready.
  void move(ModelRecord& record, QueuePlace to) {
    const auto from = std::exchange(record.place, QueuePlace::finished);
    record.place = to == QueuePlace::ready && is_over_limit(record) ? QueuePlace::parked : to;
    const bool was_ready = from == QueuePlace::ready && to != QueuePlace::ready;
    if (from == QueuePlace::leased || was_ready) release(record.terms.limit_key);
  }
  void release(const std::string& key) {
    if (key.empty()) return;
    ModelRecord* first = nullptr;
    for (const auto& name : line) {
      auto& record = records.at(name);
      if (record.place != QueuePlace::parked || record.terms.limit_key != key) continue;
      if (first == nullptr || record.terms.priority > first->terms.priority) first = &record;
    }
    if (first != nullptr) first->place = QueuePlace::ready;
  }
  void remove(const std::string& name) {
    const auto at = records.find(name);
    if (at == records.end()) return;
    leave_line(name);
    const auto gone = at->second;
    records.erase(at);
    if (gone.place == QueuePlace::ready || gone.place == QueuePlace::leased) release(gone.terms.limit_key);
  }
  /// It leaves the queue, as one of so many dead letters if a number is given.
  void leave(ModelRecord& record, std::optional<std::size_t> max_dead, std::int64_t now) {
    if (has_left_queue(record.place)) return;
    leave_line(record.name);
    move(record, max_dead ? QueuePlace::dead : QueuePlace::finished);
    record.died_at = now;
    const auto dead = count(QueuePlace::dead);
    if (!max_dead || *max_dead == 0 || dead <= *max_dead) return;
    auto too_many = dead - *max_dead;
    for (auto* oldest : due(QueuePlace::dead, &ModelRecord::died_at, now)) {
      if (oldest == &record || too_many == 0) continue;
      --too_many;
      remove(std::string(oldest->name));
    }
  }
  [[nodiscard]] std::size_t count(QueuePlace place) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(records, [place](const auto& entry) { return entry.second.place == place; }));
  }
  [[nodiscard]] bool is_full() const { return max_leased != 0 && count(QueuePlace::leased) >= max_leased; }

  /// The records in this place whose time has come, by time and then by name.
  std::vector<ModelRecord*> due(QueuePlace place, std::int64_t ModelRecord::* time, std::int64_t now) {
    std::vector<ModelRecord*> found;
    for (auto& [name, record] : records) {
      if (record.place == place && record.*time <= now) found.push_back(&record);
    }
    std::ranges::sort(found, {},
                      [time](const ModelRecord* record) { return std::pair(record->*time, record->name); });
    return found;
  }
  void expire(std::int64_t now) {
    for (auto* record : due(QueuePlace::leased, &ModelRecord::lease_ends, now)) die(*record, now);
  }
  void die(ModelRecord& record, std::int64_t now) {
    ++record.deaths;
    go_behind(record, now);
  }
  void promote(std::int64_t now) {
    for (auto* record : due(QueuePlace::delayed, &ModelRecord::due_at, now)) go_behind(*record, now);
  }
  /// The ready record that comes next; null if there is none.
  ModelRecord* next() {
    ModelRecord* first = nullptr;
    for (const auto& name : line) {
      auto& record = records.at(name);
      if (record.place != QueuePlace::ready) continue;
      if (first == nullptr || record.terms.priority > first->terms.priority) first = &record;
    }
    return first;
  }
  void lease(ModelRecord& record, const ClaimTerms& terms, std::int64_t now) {
    const auto limit = record.terms.attempt_limit.count();
    record.place = QueuePlace::leased;
    ++record.attempts;
    record.worker = terms.worker;
    record.lease_ends = now + (limit > 0 ? std::min(limit, terms.lease.count()) : terms.lease.count());
    record.attempt_ends = limit > 0 ? now + limit : 0;
    if (!is_over_limit(record)) release(record.terms.limit_key);
  }
};

class EveryQueue : public testing::TestWithParam<StorageEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    for (int i = 0; i < 2; ++i) clients.push_back(world->open());
  }

  StorageBackend& client() { return *random.pick(clients); }
  /// On an engine whose clock is not ours the model has none: no time comes.
  [[nodiscard]] bool knows_time() const { return GetParam().hand_clock; }
  [[nodiscard]] std::int64_t now() const { return knows_time() ? now_ms(*clients[0]) : 1'000'000; }
  milliseconds any_time(std::uint64_t below) {
    return knows_time() ? milliseconds(1 + random.below(below)) : milliseconds(1h);
  }
  RecordKey key_of(const std::string& name) { return record_key("q:" + name); }
  ClaimTerms any_terms() {
    return {.worker = "worker " + std::to_string(random.below(3)),
            .lease = any_time(200),
            .limit = random.below(4)};
  }

  void expect_same(const StoredRecord& found, const ModelRecord& expected) {
    EXPECT_EQ(found.data, expected.data);
    EXPECT_EQ(found.version, expected.version);
    EXPECT_EQ(found.incarnation, expected.incarnation);
    EXPECT_EQ(found.bound_to, expected.token);
    ASSERT_TRUE(found.queue);
    EXPECT_EQ(found.queue->terms, expected.terms);
    EXPECT_EQ(found.queue->place, expected.place) << expected.name;
    EXPECT_EQ(found.queue->attempts, expected.attempts);
    EXPECT_EQ(found.queue->deaths, expected.deaths);
    EXPECT_EQ(found.queue->worker, expected.worker);
    if (!knows_time()) return;
    EXPECT_EQ(to_ms(found.queue->due_at), expected.due_at);
    EXPECT_EQ(to_ms(found.queue->fails_at), expected.fails_at);
    EXPECT_EQ(to_ms(found.queue->lease_expires_at),
              expected.place == QueuePlace::leased ? expected.lease_ends : 0);
  }

  void try_create() {
    const auto name = random.pick(names);
    QueueTerms terms{.priority = static_cast<std::int32_t>(random.below(3)) - 1,
                     .max_attempts = static_cast<std::uint32_t>(1 + random.below(3)),
                     .max_age = any_time(2000) + 100ms,
                     .attempt_limit = milliseconds(knows_time() && random.below(3) == 0 ? 150 : 0)};
    if (random.below(2) == 0) {
      terms.limit_key = random.below(2) == 0 ? "key" : "鍵";
      terms.limit = static_cast<std::uint32_t>(1 + random.below(2));
    }
    if (random.below(3) == 0) {
      terms.not_before = knows_time() ? from_ms(now() + static_cast<std::int64_t>(random.below(300)) - 50)
                                      : from_ms(now_ms(*clients[0])) + 1h;
    }
    const auto data = "data " + std::to_string(++texts);
    const auto answer =
        outcome(client(), CreateRecord{.key = key_of(name), .data = record_data(data), .queue = terms});
    if (const auto* there = model.find(name)) {
      ASSERT_TRUE(std::holds_alternative<AlreadyThere>(answer));
      expect_same(std::get<AlreadyThere>(answer).record, *there);
      return;
    }
    ASSERT_TRUE(std::holds_alternative<Written>(answer));
    ModelRecord record;
    record.name = name;
    record.incarnation = std::get<Written>(answer).incarnation;
    record.data = data;
    record.terms = terms;
    const auto due = terms.not_before ? std::max(to_ms(*terms.not_before), now()) : now();
    record.due_at = due;
    record.fails_at = due + terms.max_age.count();
    record.place = due > now() ? QueuePlace::delayed : QueuePlace::ready;
    if (record.place == QueuePlace::ready) {
      model.line.push_back(name);
      if (model.is_over_limit(record)) record.place = QueuePlace::parked;
    }
    model.records.emplace(name, record);
  }

  /// The claims that the model expects, compared with what was found.
  void expect_claims(const ClaimedRecords& found, const ClaimTerms& terms) {
    model.expire(now());
    model.promote(now());
    EXPECT_EQ(found.paused, model.paused);
    std::size_t claimed = 0;
    const auto limit = std::clamp<std::size_t>(terms.limit, 1, max_claimed_records);
    while (!model.paused && claimed < limit && !model.is_full()) {
      auto* record = model.next();
      if (record == nullptr) break;
      if (now() >= record->fails_at) {
        model.go_behind(*record, now());
        continue;
      }
      if (model.is_over_limit(*record)) {
        record->place = QueuePlace::parked;
        continue;
      }
      ASSERT_LT(claimed, found.claimed.size()) << "too few were claimed";
      const auto& one = found.claimed[claimed++];
      ASSERT_EQ(one.key.task(), record->name) << "another was claimed";
      expect_granted(one, *record, terms);
    }
    EXPECT_EQ(found.claimed.size(), claimed);
    EXPECT_EQ(found.exhausted.size(), std::min(model.count(QueuePlace::exhausted), max_exhausted_records));
    for (const auto& one : found.exhausted)
      expect_same(one.record, model.records.at(std::string(one.key.task())));
    if (!found.claimed.empty() || model.paused) {
      EXPECT_FALSE(found.look_again_after);
      return;
    }
    std::optional<std::int64_t> next;
    for (const auto& [name, record] : model.records) {
      if (record.place != QueuePlace::delayed && record.place != QueuePlace::leased) continue;
      const auto at = record.place == QueuePlace::delayed ? record.due_at : record.lease_ends;
      next = std::min(next.value_or(at), at);
    }
    ASSERT_EQ(found.look_again_after.has_value(), next.has_value());
    if (next && knows_time()) {
      EXPECT_EQ(found.look_again_after->count(), *next - now());
    }
  }
  void expect_granted(const ClaimedRecord& found, ModelRecord& record, const ClaimTerms& terms) {
    ASSERT_TRUE(found.record.bound_to);
    if (record.token) {
      EXPECT_GT(found.record.bound_to->fence, record.token->fence);
      EXPECT_EQ(found.record.bound_to->authority, record.token->authority);
      EXPECT_EQ(found.record.bound_to->lock_key, record.token->lock_key);
    }
    record.token = found.record.bound_to;
    model.lease(record, terms, now());
    expect_same(found.record, record);
    claims.push_back(found);
  }

  void try_claim_next() {
    const auto terms = any_terms();
    expect_claims(outcome(client(), ClaimNext{.owner = "q", .terms = terms}), terms);
  }

  void try_claim() {
    const auto name = random.pick(names);
    const auto terms = any_terms();
    const auto answer = outcome(client(), ClaimRecord{.key = key_of(name), .terms = terms});
    auto* record = model.find(name);
    if (record == nullptr) {
      EXPECT_TRUE(std::holds_alternative<NoRecord>(answer));
      return;
    }
    const auto is_full = [&] { return model.is_full() || model.is_over_limit(*record); };
    if (is_full()) model.expire(now());
    const bool has_expired = record->place == QueuePlace::leased && now() >= record->lease_ends;
    if (has_expired) {
      ++record->deaths;
      model.leave_line(name);
      model.line.push_back(name);
    }
    const bool waits = has_expired || record->place == QueuePlace::ready ||
                       record->place == QueuePlace::delayed || record->place == QueuePlace::parked;
    const bool has_attempts = record->attempts < record->terms.max_attempts;
    if (waits && (now() >= record->fails_at || !has_attempts)) {
      model.go_behind(*record, now());
    } else if (waits && !is_full()) {
      ASSERT_TRUE(std::holds_alternative<ClaimedRecord>(answer)) << answer.index();
      expect_granted(std::get<ClaimedRecord>(answer), *record, terms);
      return;
    }
    ASSERT_TRUE(std::holds_alternative<NotClaimable>(answer)) << answer.index();
    expect_same(std::get<NotClaimable>(answer).record, *record);
  }

  /// A claim of now or of long ago, if there was one.
  std::optional<ClaimedRecord> any_claim() {
    if (claims.empty()) return std::nullopt;
    const auto last = std::min<std::size_t>(claims.size(), 12);
    return claims[claims.size() - 1 - random.below(last)];
  }

  void try_renew() {
    RenewLeases request{.owner = "q", .leases = {}, .lease = any_time(200)};
    for (auto count = random.below(4); count > 0; --count) {
      if (const auto claimed = any_claim()) request.leases.push_back(lease_of(*claimed));
    }
    const auto renewed = outcome(client(), request);
    ASSERT_EQ(renewed.size(), request.leases.size());
    for (std::size_t i = 0; i < renewed.size(); ++i) {
      auto* record = model.find(request.leases[i].task);
      const bool held = record != nullptr && record->incarnation == request.leases[i].incarnation &&
                        record->place == QueuePlace::leased && now() < record->lease_ends &&
                        record->token->fence == request.leases[i].fence;
      EXPECT_EQ(renewed[i].is_held, held);
      if (!held) continue;
      record->lease_ends = now() + request.lease.count();
      if (record->attempt_ends != 0) record->lease_ends = std::min(record->lease_ends, record->attempt_ends);
      EXPECT_EQ(renewed[i].lasts.count(), record->lease_ends - now());
      EXPECT_EQ(renewed[i].version, record->version);
    }
  }

  void try_end() {
    const auto claimed = any_claim();
    if (!claimed) return;
    const auto end = random.pick(std::vector{LeaseEnd::finished, LeaseEnd::retried, LeaseEnd::given_back});
    const auto text = "end " + std::to_string(++texts);
    const bool writes = end == LeaseEnd::finished || random.below(3) == 0;
    auto request = end_of(*claimed, end, writes ? std::optional(text) : std::nullopt,
                          random.below(2) == 0 ? milliseconds() : any_time(200));
    auto* record = model.find(std::string(claimed->key.task()));
    // A worker knows what it wrote itself, mostly.
    if (writes && record != nullptr && random.below(4) != 0) request.write->second.version = record->version;
    if (random.below(2) == 0) request.then = any_terms();
    if (end == LeaseEnd::finished && random.below(2) == 0) request.max_dead = any_max_dead();
    const auto ended = outcome(client(), request);
    if (record == nullptr || record->incarnation != claimed->record.incarnation) {
      EXPECT_TRUE(std::holds_alternative<NoRecord>(ended.end)) << ended.end.index();
      EXPECT_FALSE(ended.next);
      return;
    }
    if (claimed->record.bound_to->fence < record->token->fence) {
      EXPECT_NE(refused_with(ErrorCode::StaleFence, ended.end), nullptr) << ended.end.index();
      EXPECT_FALSE(ended.next);
      return;
    }
    if (writes && request.write->second.version != record->version) {
      ASSERT_TRUE(std::holds_alternative<VersionConflict>(ended.end)) << ended.end.index();
      EXPECT_EQ(std::get<VersionConflict>(ended.end).actual, record->version);
      EXPECT_FALSE(ended.next);
      return;
    }
    if (writes) {
      ASSERT_TRUE(std::holds_alternative<Written>(ended.end)) << ended.end.index();
      EXPECT_EQ(std::get<Written>(ended.end).version, ++record->version);
      record->data = text;
    } else {
      ASSERT_TRUE(std::holds_alternative<LeaseEnded>(ended.end)) << ended.end.index();
    }
    end_in_model(*record, request);
    if (HasFailure()) return;
    ASSERT_EQ(ended.next.has_value(), request.then.has_value());
    if (request.then) expect_claims(*ended.next, *request.then);
  }

  void end_in_model(ModelRecord& record, const EndLease& request) {
    if (has_left_queue(record.place)) return;
    if (request.end == LeaseEnd::finished) {
      model.leave(record, request.max_dead, now());
    } else if (request.end == LeaseEnd::given_back) {
      if (record.place != QueuePlace::leased) return;
      --record.attempts;
      const auto place = record.due_at > now() ? QueuePlace::delayed : QueuePlace::ready;
      const bool has_place = std::ranges::find(model.line, record.name) != model.line.end();
      if (place == QueuePlace::ready && !has_place) model.line.push_back(record.name);
      model.move(record, place);
    } else if (record.place != QueuePlace::exhausted) {
      record.due_at = now() + request.delay.count();
      if (request.delay == 0ms || record.attempts >= record.terms.max_attempts || now() >= record.fails_at) {
        model.go_behind(record, now());
      } else {
        model.leave_line(record.name);
        model.move(record, QueuePlace::delayed);
      }
    }
  }
  /// The oldest dead letters are those that died first: the model must know when.
  std::size_t any_max_dead() { return knows_time() ? random.below(4) : 0; }

  void try_write() {
    const auto name = random.pick(names);
    auto* record = model.find(name);
    if (record == nullptr) return;
    const bool leaves = random.below(2) == 0;
    const auto text = "write " + std::to_string(++texts);
    PutRecord request{.key = key_of(name), .data = record_data(text), .leaves_queue = leaves};
    if (leaves && random.below(2) == 0) request.max_dead = any_max_dead();
    outcome(client(), request);
    ++record->version;
    record->data = text;
    if (leaves) model.leave(*record, request.max_dead, now());
  }
  void try_remove() {
    const auto name = random.pick(names);
    EXPECT_EQ(remove(client(), "q:" + name), model.find(name) != nullptr);
    model.remove(name);
  }
  void try_list_dead() {
    const auto page = outcome(client(), ListRecords{.prefix = "q:", .only_dead = true});
    std::vector<std::string> found, expected;
    for (const auto& listed : page.records) {
      found.emplace_back(listed.key.task());
      expect_same(listed.record, model.records.at(found.back()));
    }
    for (const auto* dead : model.due(QueuePlace::dead, &ModelRecord::died_at, now())) {
      expected.push_back(dead->name);
    }
    if (!knows_time()) {
      std::ranges::sort(found);
      std::ranges::sort(expected);
    }
    EXPECT_EQ(found, expected);
  }
  void try_configure() {
    ConfigureQueue request{.owner = "q"};
    if (random.below(2) == 0) request.paused = random.below(3) == 0;
    if (random.below(2) == 0) request.max_leased = random.below(2) == 0 ? 0 : 1 + random.below(5);
    model.paused = request.paused.value_or(model.paused);
    model.max_leased = request.max_leased.value_or(model.max_leased);
    expect_counts(outcome(client(), request));
  }
  void expect_counts(const QueueCounts& counts) {
    EXPECT_EQ(counts.ready, model.count(QueuePlace::ready));
    EXPECT_EQ(counts.delayed, model.count(QueuePlace::delayed));
    EXPECT_EQ(counts.leased, model.count(QueuePlace::leased));
    EXPECT_EQ(counts.exhausted, model.count(QueuePlace::exhausted));
    EXPECT_EQ(counts.parked, model.count(QueuePlace::parked));
    EXPECT_EQ(counts.dead, model.count(QueuePlace::dead));
    EXPECT_EQ(counts.records, model.records.size());
    EXPECT_EQ(counts.paused, model.paused);
    EXPECT_EQ(counts.max_leased.value_or(0), model.max_leased);
    const auto* first = model.next();
    ASSERT_EQ(counts.oldest_ready.has_value(), first != nullptr);
    if (first != nullptr && knows_time()) {
      EXPECT_EQ(to_ms(*counts.oldest_ready), first->due_at);
    }
    std::optional<std::int64_t> due;
    for (const auto& [name, record] : model.records) {
      if (record.place == QueuePlace::delayed) due = std::min(due.value_or(record.due_at), record.due_at);
    }
    ASSERT_EQ(counts.next_due.has_value(), due.has_value());
    if (due && knows_time()) {
      EXPECT_EQ(to_ms(*counts.next_due), *due);
    }
  }
  void try_get() {
    const auto name = random.pick(names);
    const auto found = get(client(), "q:" + name);
    const auto* record = model.find(name);
    ASSERT_EQ(found.has_value(), record != nullptr);
    if (found) expect_same(*found, *record);
  }

  Seeded random;
  std::unique_ptr<StorageWorld> world;
  std::vector<std::shared_ptr<StorageBackend>> clients;
  QueueModel model;
  std::vector<ClaimedRecord> claims;
  int texts = 0;
  const std::vector<std::string> names = {"a", "b", "c:d", "", "鍵", "e", "f", "g", "h", "T"};
};

TEST_P(EveryQueue, AgreesWithAPlainModelUnderRandomOperations) {
  SCOPED_TRACE(random.seed());
  for (int step = 0; step < 3000 && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    switch (random.below(14)) {
      case 0:
      case 1:
      case 2:
        try_create();
        break;
      case 3:
      case 4:
        try_claim_next();
        break;
      case 5:
        try_claim();
        break;
      case 6:
        try_renew();
        break;
      case 7:
      case 8:
        try_end();
        break;
      case 9:
        random.below(2) == 0 ? try_write() : try_remove();
        break;
      case 10:
        try_configure();
        break;
      case 11:
        random.below(2) == 0 ? try_get() : try_list_dead();
        break;
      case 12:
        expect_counts(count_queue(client()));
        break;
      default:
        if (knows_time()) world->reach(now() + static_cast<std::int64_t>(random.below(120)));
    }
  }
}

/// The model knows the time to the millisecond. The scripts of Redis agree with it where no time comes.
std::vector<StorageEngine> modelled_engines() {
  auto engines = queue_engines();
  std::erase_if(engines, [](const StorageEngine& engine) {
    return !engine.hand_clock && engine.name != "redis_tcp" && engine.name != "redis_cluster_native";
  });
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryQueue, testing::ValuesIn(modelled_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
