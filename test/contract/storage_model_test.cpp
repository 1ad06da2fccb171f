// Random operations on every engine, compared with the simplest thing that could be right.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "support/engines.hpp"
#include "support/seeded.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

bool before(const ListPosition& a, const ListPosition& b, ListOrder order) {
  const auto ascending = [](const ListPosition& x, const ListPosition& y) {
    return std::tie(x.created_at, x.task) < std::tie(y.created_at, y.task);
  };
  return order == ListOrder::oldest_first ? ascending(a, b) : ascending(b, a);
}

/// What the records of one store should be. Expiries are far off, past, or waited for at once, so that no
/// answer depends on how fast the machine is.
class StorageModel {
 public:
  struct Record {
    StoredRecord stored;
    std::int64_t created_at = 0;
  };
  using Owner = std::map<std::string, Record, std::less<>>;
  std::map<std::string, Owner, std::less<>> owners;

  Record* find(const RecordKey& key) {
    auto& owner = owners[std::string(key.owner())];
    const auto at = owner.find(key.task());
    return at == owner.end() ? nullptr : &at->second;
  }
  Record& insert(const RecordKey& key) { return owners[std::string(key.owner())][std::string(key.task())]; }
  void erase(const RecordKey& key) { owners[std::string(key.owner())].erase(std::string(key.task())); }

  /// What a write is told if it must be refused.
  static std::optional<std::variant<VersionConflict, FenceRefused>> refusal(
      const Record& there, const std::optional<ExpectedVersion>& expected,
      const std::optional<FencingToken>& fence) {
    const auto& guard = there.stored.bound_to;
    if (fence && guard) {
      if (guard->authority != fence->authority || guard->lock_key != fence->lock_key)
        return FenceRefused{ErrorCode::WrongLock, fence->fence, *guard};
      if (fence->fence < guard->fence) return FenceRefused{ErrorCode::StaleFence, fence->fence, *guard};
    }
    if (expected) {
      const bool replaced =
          !expected->incarnation.empty() && expected->incarnation != there.stored.incarnation;
      if (replaced || expected->version != there.stored.version)
        return VersionConflict{expected->version, there.stored.version, replaced};
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<ListPosition> list(const std::string& owner, ListOrder order) {
    std::vector<ListPosition> places;
    for (const auto& [task, record] : owners[owner]) places.push_back({from_ms(record.created_at), task});
    std::sort(places.begin(), places.end(),
              [&](const ListPosition& a, const ListPosition& b) { return before(a, b, order); });
    return places;
  }
};

void expect_same(const StoredRecord& found, const StoredRecord& expected) {
  EXPECT_EQ(found.data, expected.data);
  EXPECT_EQ(found.version, expected.version);
  EXPECT_EQ(found.incarnation, expected.incarnation);
  EXPECT_EQ(found.bound_to, expected.bound_to);
  EXPECT_EQ(found.origin, expected.origin);
}

template <class Outcome>
void expect_refused(const Outcome& answer, const std::variant<VersionConflict, FenceRefused>& why) {
  if (const auto* conflict = std::get_if<VersionConflict>(&why)) {
    if constexpr (!std::is_same_v<Outcome, BindOutcome>) {
      const auto* told = std::get_if<VersionConflict>(&answer);
      ASSERT_NE(told, nullptr) << answer.index();
      EXPECT_EQ(told->expected, conflict->expected);
      EXPECT_EQ(told->actual, conflict->actual);
      EXPECT_EQ(told->replaced, conflict->replaced);
    } else {
      ADD_FAILURE() << "the model expects a version where none is compared";
    }
  } else {
    const auto& refused = std::get<FenceRefused>(why);
    const auto* told = std::get_if<FenceRefused>(&answer);
    ASSERT_NE(told, nullptr) << answer.index();
    EXPECT_EQ(told->why, refused.why);
    EXPECT_EQ(told->given, refused.given);
    EXPECT_EQ(told->bound_to, refused.bound_to);
  }
}

class EveryStorageEngine : public testing::TestWithParam<StorageEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    for (int i = 0; i < 3; ++i) clients.push_back(world->open());
  }

  StorageBackend& client() { return *random.pick(clients); }
  RecordKey any_key() { return record_key(random.pick(owners) + ":" + random.pick(tasks)); }
  FencingToken any_token() {
    return token(1 + random.below(6), random.below(6) == 0 ? "other lock" : "lock",
                 random.below(8) == 0 ? "elsewhere" : "here");
  }
  std::optional<FencingToken> maybe_token() {
    return random.below(2) == 0 ? std::optional(any_token()) : std::nullopt;
  }
  std::optional<ExpectedVersion> maybe_expected(const StorageModel::Record* there) {
    const auto version = there != nullptr ? there->stored.version : 1;
    const auto incarnation = there != nullptr ? there->stored.incarnation : std::string("another's");
    switch (random.below(6)) {
      case 0:
        return ExpectedVersion{version, {}};
      case 1:
        return ExpectedVersion{version, incarnation};
      case 2:
        return ExpectedVersion{version + random.below(3) - 1, incarnation};
      case 3:
        return ExpectedVersion{version, last_removed};
      default:
        return std::nullopt;
    }
  }

  enum class Life : std::uint8_t { lasting, brief, over };
  struct Text {
    RecordData data;
    std::int64_t created_at;
    Life life;
    std::int64_t expires_at;
  };
  Text any_text(bool may_end = true) {
    const auto chance = may_end ? random.below(100) : 99;
    const Life life = chance == 0 ? Life::brief : chance < 8 ? Life::over : Life::lasting;
    const auto now = now_ms(*clients[0]);
    RecordParts parts{.created_at = static_cast<std::int64_t>(random.below(4) * 1000),
                      .expires_at = {},
                      .note = "\"\n鍵" + std::to_string(++texts)};
    if (life == Life::brief) parts.expires_at = now + 300;
    if (life == Life::over) parts.expires_at = now - 60'000;
    if (life == Life::lasting && random.below(2) == 0) parts.expires_at = now + 3'600'000;
    return {record_data(record_text(parts)), parts.created_at, life, parts.expires_at.value_or(0)};
  }

  /// The record was written for the first time.
  void begin(const RecordKey& key, const Text& text, const Written& written, std::string origin,
             std::optional<FencingToken> guard) {
    EXPECT_EQ(written.version, 1U);
    EXPECT_TRUE(incarnations.insert(written.incarnation).second) << "an incarnation came again";
    model.insert(key) = {.stored = {.data = text.data.text(),
                                    .version = 1,
                                    .incarnation = written.incarnation,
                                    .bound_to = std::move(guard),
                                    .origin = std::move(origin)},
                         .created_at = text.created_at};
    live_out(key, text);
  }
  void live_out(const RecordKey& key, const Text& text) {
    if (text.life == Life::lasting) return;
    if (text.life == Life::brief) world->reach(text.expires_at);
    last_removed = model.find(key)->stored.incarnation;
    model.erase(key);
  }

  void try_create() {
    const auto key = any_key();
    const auto text = any_text();
    const auto guard = maybe_token();
    const auto origin = "origin " + std::to_string(random.below(100));
    const auto quota = random.below(2) == 0 ? std::optional(random.below(8)) : std::nullopt;
    const auto answer = outcome(
        client(),
        CreateRecord{.key = key, .data = text.data, .quota = quota, .origin = origin, .fence = guard});
    const auto count = model.owners[std::string(key.owner())].size();
    if (const auto* there = model.find(key)) {
      ASSERT_TRUE(std::holds_alternative<AlreadyThere>(answer)) << answer.index();
      expect_same(std::get<AlreadyThere>(answer).record, there->stored);
    } else if (quota && count >= *quota) {
      ASSERT_TRUE(std::holds_alternative<QuotaReached>(answer)) << answer.index();
      EXPECT_EQ(std::get<QuotaReached>(answer).records, count);
    } else {
      ASSERT_TRUE(std::holds_alternative<Written>(answer)) << answer.index();
      begin(key, text, std::get<Written>(answer), origin, guard);
    }
  }

  void try_put() {
    const auto key = any_key();
    auto* there = model.find(key);
    // Asked again, a write that has ended its record finds none, and its answer says so.
    const auto text = any_text(there == nullptr || !GetParam().asks_again);
    const auto expected = maybe_expected(there);
    const auto fence = maybe_token();
    const bool may_create = random.below(4) == 0;
    const auto answer = outcome(client(), PutRecord{.key = key,
                                                    .data = text.data,
                                                    .expected = expected,
                                                    .fence = fence,
                                                    .fenced_may_create = may_create});
    if (there == nullptr) {
      if (expected || (fence && !may_create)) {
        ASSERT_TRUE(std::holds_alternative<NoRecord>(answer)) << answer.index();
      } else {
        ASSERT_TRUE(std::holds_alternative<Written>(answer)) << answer.index();
        begin(key, text, std::get<Written>(answer), {}, fence);
      }
    } else if (const auto why = StorageModel::refusal(*there, expected, fence)) {
      expect_refused(answer, *why);
    } else {
      ASSERT_TRUE(std::holds_alternative<Written>(answer)) << answer.index();
      EXPECT_EQ(std::get<Written>(answer).version, ++there->stored.version);
      EXPECT_EQ(std::get<Written>(answer).incarnation, there->stored.incarnation);
      there->stored.data = text.data.text();
      if (fence) there->stored.bound_to = fence;
      live_out(key, text);
    }
  }

  void try_remove() {
    const auto key = any_key();
    const auto* there = model.find(key);
    const auto expected = maybe_expected(there);
    const auto fence = maybe_token();
    const auto answer = outcome(client(), RemoveRecord{.key = key, .expected = expected, .fence = fence});
    if (there == nullptr) {
      EXPECT_TRUE(std::holds_alternative<NoRecord>(answer) ||
                  (std::holds_alternative<Removed>(answer) && GetParam().asks_again))
          << answer.index();
    } else if (const auto why = StorageModel::refusal(*there, expected, fence)) {
      expect_refused(answer, *why);
    } else {
      ASSERT_TRUE(std::holds_alternative<Removed>(answer)) << answer.index();
      last_removed = there->stored.incarnation;
      model.erase(key);
    }
  }

  void try_guard() {
    const auto key = any_key();
    auto* there = model.find(key);
    const auto fence = any_token();
    const auto answer = outcome(client(), BindRecord{.key = key, .fence = fence});
    if (there == nullptr) {
      EXPECT_TRUE(std::holds_alternative<NoRecord>(answer)) << answer.index();
    } else if (const auto why = StorageModel::refusal(*there, {}, fence)) {
      expect_refused(answer, *why);
    } else {
      there->stored.bound_to = fence;
      ASSERT_TRUE(std::holds_alternative<StoredRecord>(answer)) << answer.index();
      expect_same(std::get<StoredRecord>(answer), there->stored);
    }
  }

  void try_rebind() {
    const auto key = any_key();
    auto* there = model.find(key);
    const auto fence = maybe_token();
    std::optional<std::string> from;
    if (const auto of = maybe_token(); of && random.below(2) == 0) from = of->authority;
    const auto answer = outcome(client(), RebindRecord{.key = key, .fence = fence, .from_authority = from});
    if (there == nullptr) {
      EXPECT_TRUE(std::holds_alternative<NoRecord>(answer)) << answer.index();
    } else {
      const auto& guard = there->stored.bound_to;
      if (!from || (guard && guard->authority == *from)) there->stored.bound_to = fence;
      ASSERT_TRUE(std::holds_alternative<StoredRecord>(answer)) << answer.index();
      expect_same(std::get<StoredRecord>(answer), there->stored);
    }
  }

  void try_get() {
    const auto key = any_key();
    const auto found = outcome(client(), GetRecord{.key = key});
    const auto* there = model.find(key);
    ASSERT_EQ(found.has_value(), there != nullptr);
    if (found) expect_same(*found, there->stored);
  }

  void try_list() {
    const auto& owner = random.pick(owners);
    const auto order = random.below(2) == 0 ? ListOrder::oldest_first : ListOrder::newest_first;
    auto places = model.list(owner, order);
    std::optional<ListPosition> after;
    if (random.below(2) == 0) {  // behind any place, of a record or not
      after = {from_ms(static_cast<std::int64_t>(random.below(4) * 1000)), random.pick(tasks)};
      const auto skipped = [&](const ListPosition& place) { return !before(*after, place, order); };
      places.erase(places.begin(), std::find_if_not(places.begin(), places.end(), skipped));
    }
    const std::size_t limit = 1 + random.below(6);
    const auto page =
        outcome(client(), ListRecords{.prefix = owner + ":", .after = after, .limit = limit, .order = order});
    ASSERT_EQ(page.records.size(), std::min(limit, places.size()));
    for (std::size_t i = 0; i < page.records.size(); ++i) {
      EXPECT_EQ(page.records[i].key.task(), places[i].task);
      EXPECT_EQ(page.records[i].created_at, places[i].created_at);
      expect_same(page.records[i].record, model.owners[owner].at(places[i].task).stored);
    }
    // The next page goes on at the last record or behind it, where the engine may have passed dead ones, but
    // before the next record. A page that is full by chance may or may not know that it is the last one.
    if (places.size() > limit) {
      ASSERT_TRUE(page.next);
      EXPECT_FALSE(before(*page.next, places[limit - 1], order));
      EXPECT_TRUE(before(*page.next, places[limit], order));
    } else if (page.next) {
      EXPECT_EQ(page.records.size(), limit);
    }
  }

  Seeded random;
  std::unique_ptr<StorageWorld> world;
  std::vector<std::shared_ptr<StorageBackend>> clients;
  StorageModel model;
  std::set<std::string> incarnations;
  std::string last_removed = "nobody's";
  int texts = 0;
  const std::vector<std::string> owners = {"a", "ab", "鍵"};
  const std::vector<std::string> tasks = {"t", "b:t", "", "*", std::string("n\0n", 3), "鍵", "T"};
};

TEST_P(EveryStorageEngine, AgreesWithAPlainModelUnderRandomOperations) {
  SCOPED_TRACE(random.seed());
  for (int step = 0; step < 1200 && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
        try_create();
        break;
      case 3:
      case 4:
      case 5:
        try_put();
        break;
      case 6:
        try_remove();
        break;
      case 7:
        try_guard();
        break;
      case 8:
        try_rebind();
        break;
      case 9:
        try_get();
        break;
      case 10:
        outcome(client(), CleanupRecords{});
        break;
      default:
        try_list();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryStorageEngine, testing::ValuesIn(storage_engines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
