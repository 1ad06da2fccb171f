// Versions, incarnations, creation and quotas.

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "contract/storage_contract.hpp"

namespace holdfast::test {
namespace {

class StorageVersions : public StorageContract {};

TEST_P(StorageVersions, AnAbsentRecordIsNothing) {
  EXPECT_FALSE(get(*mine, "o:t"));
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
}

TEST_P(StorageVersions, StartAtOneAndRiseByOneWithEachWrite) {
  const auto created = create(*mine, "o:t", "first");
  EXPECT_EQ(created.version, 1U);
  EXPECT_FALSE(created.incarnation.empty());
  for (std::uint64_t version = 2; version < 12; ++version) {
    const auto written = put(version % 2 == 0 ? *theirs : *mine, "o:t", "write " + std::to_string(version));
    EXPECT_EQ(written.version, version);
    EXPECT_EQ(written.incarnation, created.incarnation);
  }
  expect_record("o:t", {.data = "write 11", .version = 11, .incarnation = created.incarnation});
}

TEST_P(StorageVersions, APutCreatesWhatIsAbsent) {
  const auto written = put(*mine, "o:t", "data");
  EXPECT_EQ(written.version, 1U);
  expect_record("o:t", {.data = "data", .version = 1, .incarnation = written.incarnation});
  EXPECT_EQ(tasks_of(*theirs, "o"), std::vector<std::string>{"t"});
}

// Where answers get lost a copy of a request may come twice; here every number would show it.
TEST_P(StorageVersions, EveryWriteHappensOnce) {
  for (std::uint64_t version = 1; version <= 100; ++version) {
    ASSERT_EQ(put(*mine, "o:put", std::to_string(version)).version, version);
  }
  create(*mine, "o:cas");
  for (std::uint64_t version = 1; version <= 100; ++version) {
    const auto answer = outcome(*theirs, PutRecord{.key = record_key("o:cas"),
                                                   .data = record_data("{}"),
                                                   .expected = ExpectedVersion{version, {}}});
    ASSERT_TRUE(std::holds_alternative<Written>(answer)) << version << ": " << answer.index();
    ASSERT_EQ(std::get<Written>(answer).version, version + 1);
  }
  for (int i = 0; i < 50; ++i) {
    create(*mine, "o:again");
    ASSERT_TRUE(remove(*theirs, "o:again")) << i;
  }
}

TEST_P(StorageVersions, DataIsKeptAsItIsWhetherOrNotItIsJson) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("null"), std::string("  { }  "), std::string("1e400"),
        std::string("a\0b", 3), std::string("\r\n"), std::string("é鍵🔒"), std::string("e\xCC\x81"),
        std::string(R"({"a":1,"a":2})"), std::string("0123456789012345678901234567890")}) {
    put(*mine, "o:t", text);
    EXPECT_EQ(get(*theirs, "o:t")->data, text);
    EXPECT_EQ(outcome(*theirs, ListRecords{.prefix = "o:"}).records.at(0).record.data, text);
  }
}

TEST_P(StorageVersions, AConditionalPutOfTheRightVersionWrites) {
  const auto created = create(*mine, "o:t");
  const auto by_number = outcome(
      *theirs,
      PutRecord{.key = record_key("o:t"), .data = record_data("two"), .expected = ExpectedVersion{1}});
  EXPECT_EQ(std::get<Written>(by_number).version, 2U);
  const auto by_both = outcome(*theirs, PutRecord{.key = record_key("o:t"),
                                                  .data = record_data("three"),
                                                  .expected = ExpectedVersion{2, created.incarnation}});
  EXPECT_EQ(std::get<Written>(by_both).version, 3U);
  expect_record("o:t", {.data = "three", .version = 3, .incarnation = created.incarnation});
}

TEST_P(StorageVersions, AMismatchSaysWhatWasExpectedAndWhatIsThere) {
  const auto created = create(*mine, "o:t", "one");
  put(*mine, "o:t", "two");
  for (const std::uint64_t expected : std::initializer_list<std::uint64_t>{
           0, 1, 3, (1ULL << 53) + 1, (1ULL << 63), std::numeric_limits<std::uint64_t>::max()}) {
    for (const auto& incarnation : {std::string(), created.incarnation}) {
      const auto answer = outcome(*theirs, PutRecord{.key = record_key("o:t"),
                                                     .data = record_data("late"),
                                                     .expected = ExpectedVersion{expected, incarnation}});
      const auto* conflict = std::get_if<VersionConflict>(&answer);
      ASSERT_NE(conflict, nullptr) << answer.index();
      EXPECT_EQ(conflict->expected, expected);
      EXPECT_EQ(conflict->actual, 2U);
      EXPECT_FALSE(conflict->replaced);
    }
  }
  expect_record("o:t", {.data = "two", .version = 2, .incarnation = created.incarnation});
}

TEST_P(StorageVersions, AConditionalPutDoesNotCreate) {
  for (const std::uint64_t expected : {0U, 1U}) {
    const auto answer = outcome(*mine, PutRecord{.key = record_key("o:t"),
                                                 .data = record_data("data"),
                                                 .expected = ExpectedVersion{expected}});
    EXPECT_TRUE(std::holds_alternative<NoRecord>(answer)) << answer.index();
  }
  EXPECT_FALSE(get(*mine, "o:t"));
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
}

TEST_P(StorageVersions, ARecordThatWasRemovedAndCreatedAgainIsAnother) {
  const auto old = create(*mine, "o:t", "old");
  ASSERT_TRUE(remove(*theirs, "o:t"));
  const auto renewed = create(*theirs, "o:t", "new");
  EXPECT_EQ(renewed.version, 1U);
  EXPECT_NE(renewed.incarnation, old.incarnation);
  const ExpectedVersion prepared{1, old.incarnation};
  const auto late =
      outcome(*mine, PutRecord{.key = record_key("o:t"), .data = record_data("late"), .expected = prepared});
  const auto* conflict = std::get_if<VersionConflict>(&late);
  ASSERT_NE(conflict, nullptr) << late.index();
  EXPECT_EQ(conflict->expected, 1U);
  EXPECT_EQ(conflict->actual, 1U);
  EXPECT_TRUE(conflict->replaced);
  const auto removal = outcome(*mine, RemoveRecord{.key = record_key("o:t"), .expected = prepared});
  ASSERT_TRUE(std::holds_alternative<VersionConflict>(removal)) << removal.index();
  EXPECT_TRUE(std::get<VersionConflict>(removal).replaced);
  expect_record("o:t", {.data = "new", .version = 1, .incarnation = renewed.incarnation});
}

TEST_P(StorageVersions, ARecordThatAPutCreatedAgainIsAnother) {
  const auto old = put(*mine, "o:t", "old");
  ASSERT_TRUE(remove(*mine, "o:t"));
  const auto renewed = put(*mine, "o:t", "new");
  EXPECT_EQ(renewed.version, 1U);
  EXPECT_NE(renewed.incarnation, old.incarnation);
}

TEST_P(StorageVersions, AReplacedRecordIsToldAsSuchWhateverTheNumbers) {
  const auto old = create(*mine, "o:t");
  ASSERT_TRUE(remove(*mine, "o:t"));
  create(*mine, "o:t");
  put(*mine, "o:t");
  const auto answer = outcome(*mine, PutRecord{.key = record_key("o:t"),
                                               .data = record_data("late"),
                                               .expected = ExpectedVersion{1, old.incarnation}});
  const auto* conflict = std::get_if<VersionConflict>(&answer);
  ASSERT_NE(conflict, nullptr) << answer.index();
  EXPECT_EQ(conflict->actual, 2U);
  EXPECT_TRUE(conflict->replaced);
}

TEST_P(StorageVersions, ARemoveTakesTheRecordAway) {
  create(*mine, "o:t");
  EXPECT_TRUE(remove(*theirs, "o:t"));
  EXPECT_FALSE(get(*mine, "o:t"));
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
  expect_nothing_removed(outcome(*mine, RemoveRecord{.key = record_key("o:t")}));
}

TEST_P(StorageVersions, AConditionalRemoveTakesOnlyTheVersionItMeans) {
  const auto created = create(*mine, "o:t", "data");
  const auto refused =
      outcome(*theirs, RemoveRecord{.key = record_key("o:t"), .expected = ExpectedVersion{2}});
  const auto* conflict = std::get_if<VersionConflict>(&refused);
  ASSERT_NE(conflict, nullptr) << refused.index();
  EXPECT_EQ(conflict->expected, 2U);
  EXPECT_EQ(conflict->actual, 1U);
  expect_record("o:t", {.data = "data", .version = 1, .incarnation = created.incarnation});
  EXPECT_TRUE(std::holds_alternative<Removed>(outcome(
      *theirs, RemoveRecord{.key = record_key("o:t"), .expected = ExpectedVersion{1, created.incarnation}})));
  EXPECT_FALSE(get(*mine, "o:t"));
}

TEST_P(StorageVersions, OfConcurrentConditionalWritersEachWinsItsOwnVersions) {
  create(*mine, "o:t", "0");
  constexpr int writers = 4, writes = 15;
  std::vector<std::jthread> threads;
  for (int i = 0; i < writers; ++i) {
    threads.emplace_back([client = i % 2 == 0 ? mine : theirs] {
      for (int done = 0; done < writes;) {
        const auto seen = get(*client, "o:t");
        const auto answer =
            call(*client, PutRecord{.key = record_key("o:t"),
                                    .data = record_data(std::to_string(std::stoi(seen->data) + 1)),
                                    .expected = ExpectedVersion{seen->version, seen->incarnation}});
        if (!answer) {
          // Where a reply may get lost while others write on, the engine may not find out whether this
          // write succeeded, and says so. Then the writer reads, and writes once more.
          ASSERT_TRUE(GetParam().asks_again && answer.error().code() == ErrorCode::NetworkTimeout)
              << answer.error().what();
        } else if (std::holds_alternative<Written>(*answer)) {
          ++done;
        }
      }
    });
  }
  threads.clear();
  const auto last = get(*mine, "o:t");
  if (!GetParam().asks_again) {
    EXPECT_EQ(last->version, 1U + writers * writes);
  }
  EXPECT_EQ(std::to_string(last->version - 1), last->data) << "an update was lost";
}

class StorageCreation : public StorageContract {};

TEST_P(StorageCreation, NeverReplacesAndShowsWhatIsThere) {
  const auto created = std::get<Written>(outcome(
      *mine, CreateRecord{.key = record_key("o:t"), .data = record_data("first"), .origin = "request 1"}));
  const auto answer = outcome(
      *theirs, CreateRecord{.key = record_key("o:t"), .data = record_data("second"), .origin = "request 2"});
  const auto* there = std::get_if<AlreadyThere>(&answer);
  ASSERT_NE(there, nullptr) << answer.index();
  EXPECT_EQ(there->record.data, "first");
  EXPECT_EQ(there->record.version, 1U);
  EXPECT_EQ(there->record.incarnation, created.incarnation);
  EXPECT_EQ(there->record.origin, "request 1");
  expect_record("o:t", {.data = "first",
                        .version = 1,
                        .incarnation = created.incarnation,
                        .bound_to = {},
                        .origin = "request 1"});
}

TEST_P(StorageCreation, TheOriginStaysThroughWritesAndGoesWithTheRecord) {
  outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = record_data("{}"), .origin = "request"});
  put(*theirs, "o:t");
  outcome(*mine, BindRecord{.key = record_key("o:t"), .fence = token(1)});
  EXPECT_EQ(get(*mine, "o:t")->origin, "request");
  remove(*mine, "o:t");
  put(*mine, "o:t");
  EXPECT_EQ(get(*mine, "o:t")->origin, "");
}

TEST_P(StorageCreation, AnOriginIsUpTo256BytesOfUtf8) {
  std::string longest("\"{}\n\0é", 7);
  longest.resize(256, 'x');
  ASSERT_TRUE(std::holds_alternative<Written>(
      outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = record_data("{}"), .origin = longest})));
  EXPECT_EQ(get(*theirs, "o:t")->origin, longest);
  for (const auto& bad : {longest + "x", std::string("\xFF")}) {
    const auto refused =
        call(*mine, CreateRecord{.key = record_key("o:u"), .data = record_data("{}"), .origin = bad});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
    EXPECT_FALSE(get(*mine, "o:u"));
  }
}

TEST_P(StorageCreation, OfSeveralCreatorsOfOneRecordOneSucceeds) {
  std::atomic<int> written{0}, already{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i, client = i % 2 == 0 ? mine : theirs] {
      const auto answer =
          outcome(*client, CreateRecord{.key = record_key("o:t"), .data = record_data(std::to_string(i))});
      if (std::holds_alternative<Written>(answer)) ++written;
      if (std::holds_alternative<AlreadyThere>(answer)) ++already;
    });
  }
  threads.clear();
  EXPECT_EQ(written, 1);
  EXPECT_EQ(already, 7);
}

class StorageQuota : public StorageContract {
 protected:
  CreateOutcome create_within(std::size_t quota, std::string_view key, std::string text = "{}") const {
    return outcome(
        *mine, CreateRecord{.key = record_key(key), .data = record_data(std::move(text)), .quota = quota});
  }
};

TEST_P(StorageQuota, AnOwnerHasAsManyRecordsAsItMayAndNoMore) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::holds_alternative<Written>(create_within(3, "o:" + std::to_string(i)))) << i;
  }
  const auto refused = create_within(3, "o:one more");
  ASSERT_TRUE(std::holds_alternative<QuotaReached>(refused)) << refused.index();
  EXPECT_EQ(std::get<QuotaReached>(refused).records, 3U);
  EXPECT_FALSE(get(*theirs, "o:one more"));
  EXPECT_EQ(tasks_of(*theirs, "o").size(), 3U);
}

TEST_P(StorageQuota, NoneMeansNoLimitAndZeroMeansNothing) {
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(0, "o:0")));
  for (int i = 0; i < 5; ++i) create(*mine, "o:" + std::to_string(i));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(3, "o:x")));
  create(*mine, "o:x");
}

TEST_P(StorageQuota, IsOfOneOwnerAlone) {
  EXPECT_TRUE(std::holds_alternative<Written>(create_within(1, "a:1")));
  EXPECT_TRUE(std::holds_alternative<Written>(create_within(1, "ab:1")));
  EXPECT_TRUE(std::holds_alternative<Written>(create_within(1, "a%3Ab:1")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(1, "a:2")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(1, "a:b:1")));
}

TEST_P(StorageQuota, ARecordThatIsThereIsToldBeforeAFullQuota) {
  create_within(1, "o:t");
  EXPECT_TRUE(std::holds_alternative<AlreadyThere>(create_within(1, "o:t")));
}

TEST_P(StorageQuota, ARemovedRecordMakesRoom) {
  create_within(1, "o:1");
  remove(*theirs, "o:1");
  EXPECT_TRUE(std::holds_alternative<Written>(create_within(1, "o:2")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(1, "o:3")));
}

TEST_P(StorageQuota, RecordsThatAPutCreatedCountAndPutsAreNotRefused) {
  put(*mine, "o:1");
  put(*mine, "o:1");
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(1, "o:2")));
  EXPECT_EQ(put(*mine, "o:2").version, 1U);
  EXPECT_TRUE(std::holds_alternative<Written>(create_within(3, "o:3")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(create_within(3, "o:4")));
}

TEST_P(StorageQuota, ExpiredRecordsDoNotCount) {
  const auto soon = now_ms(*mine) + 400;
  for (int i = 0; i < 4; ++i) {
    create_within(5, "o:brief" + std::to_string(i), record_text({.expires_at = soon}));
  }
  create_within(5, "o:lasting");
  world->reach(soon);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::holds_alternative<Written>(create_within(5, "o:new" + std::to_string(i)))) << i;
  }
  const auto refused = create_within(5, "o:one more");
  ASSERT_TRUE(std::holds_alternative<QuotaReached>(refused)) << refused.index();
  EXPECT_EQ(std::get<QuotaReached>(refused).records, 5U);
}

TEST_P(StorageQuota, IsExactWithMoreExpiredRecordsThanOneCreateDeletes) {
  constexpr int brief = 45;
  const auto soon = now_ms(*mine) + 400;
  for (int i = 0; i < brief; ++i) {
    put(*mine, "o:brief" + std::to_string(i), record_text({.expires_at = soon}));
  }
  create(*mine, "o:lasting");
  world->reach(soon);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::holds_alternative<Written>(create_within(3, "o:new" + std::to_string(i)))) << i;
    EXPECT_EQ(tasks_of(*theirs, "o").size(), static_cast<std::size_t>(i) + 2);
  }
  const auto refused = create_within(3, "o:one more");
  ASSERT_TRUE(std::holds_alternative<QuotaReached>(refused)) << refused.index();
  EXPECT_EQ(std::get<QuotaReached>(refused).records, 3U);
}

TEST_P(StorageQuota, IsExactWithManyCreatorsAtOnce) {
  constexpr std::size_t quota = 25;
  std::atomic<int> written{0}, refused{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i, client = i % 2 == 0 ? mine : theirs] {
      for (int j = 0; j < 6; ++j) {
        const auto answer =
            outcome(*client, CreateRecord{.key = record_key("o:" + std::to_string(i * 100 + j)),
                                          .data = record_data("{}"),
                                          .quota = quota});
        if (std::holds_alternative<Written>(answer)) ++written;
        if (std::holds_alternative<QuotaReached>(answer)) ++refused;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(written, 25);
  EXPECT_EQ(refused, 48 - 25);
  EXPECT_EQ(tasks_of(*mine, "o").size(), quota);
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageVersions, testing::ValuesIn(storage_engines()), engine_name);
INSTANTIATE_TEST_SUITE_P(Engines, StorageCreation, testing::ValuesIn(storage_engines()), engine_name);
INSTANTIATE_TEST_SUITE_P(Engines, StorageQuota, testing::ValuesIn(storage_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
