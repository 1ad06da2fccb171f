// A record whose expiry has come is absent, to the millisecond.

#include "contract/storage_contract.hpp"

namespace holdfast::test {
namespace {

class StorageExpiry : public StorageContract {
 protected:
  /// Far enough off that a busy machine gets done what a test does before it.
  std::int64_t soon() const { return now_ms(*mine) + 700; }

  /// The record is there now; nothing is said if its time came while we looked.
  void expect_there_before(std::int64_t expiry, std::string_view key) const {
    const bool found = get(*theirs, key).has_value();
    EXPECT_TRUE(found || now_ms(*mine) >= expiry) << "gone before its time";
  }
  void expect_gone(std::string_view key) const {
    EXPECT_FALSE(get(*mine, key));
    EXPECT_FALSE(get(*theirs, key));
    const auto name = record_key(key);
    EXPECT_TRUE(tasks_of(*mine, name.owner()).empty());
  }
};

TEST_P(StorageExpiry, TheClockIsTheEnginesWallClock) {
  const auto now = now_ms(*mine);
  if (GetParam().hand_clock) {
    world->reach(now + 5);
    EXPECT_EQ(now_ms(*mine), now + 5);
  } else {
    const auto wall =
        std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    EXPECT_NEAR(static_cast<double>(now), static_cast<double>(wall), 2000);
  }
}

TEST_P(StorageExpiry, ARecordIsThereUntilItsTimeAndGoneAtIt) {
  const auto expiry = soon();
  create(*mine, "o:t", record_text({.expires_at = expiry}));
  expect_there_before(expiry, "o:t");
  if (GetParam().hand_clock) {
    world->reach(expiry - 1);
    EXPECT_TRUE(get(*mine, "o:t"));
    EXPECT_EQ(tasks_of(*mine, "o").size(), 1U);
  }
  world->reach(expiry);
  expect_gone("o:t");
}

TEST_P(StorageExpiry, DataWithoutATimeNeverExpires) {
  create(*mine, "o:t", record_text({}));
  put(*mine, "o:u", "no JSON");
  world->reach(now_ms(*mine) + 50);
  EXPECT_TRUE(get(*mine, "o:t"));
  EXPECT_TRUE(get(*mine, "o:u"));
}

TEST_P(StorageExpiry, ATimeThatIsPastAtCreationMeansAbsentAtOnce) {
  const auto past = record_text({.expires_at = now_ms(*mine) - 60'000});
  EXPECT_EQ(create(*mine, "o:t", past).version, 1U);
  expect_gone("o:t");
  EXPECT_EQ(create(*mine, "o:t", past).version, 1U);
  EXPECT_EQ(put(*mine, "o:u", past).version, 1U);
  expect_gone("o:u");
  EXPECT_TRUE(std::holds_alternative<Written>(
      outcome(*mine, CreateRecord{.key = record_key("o:v"), .data = record_data("{}"), .quota = 1})))
      << "they take no room";
}

TEST_P(StorageExpiry, AWriteWithAPastTimeEndsTheRecord) {
  create(*mine, "o:t");
  const auto version = put(*mine, "o:t", record_text({.expires_at = 1'000})).version;
  EXPECT_TRUE(version == 2 || (version == 1 && GetParam().asks_again)) << version;
  expect_gone("o:t");
}

TEST_P(StorageExpiry, TimesFarAwayAreFar) {
  for (const char* when : {"9999-12-31T23:59:59.999Z", "2038-01-19T03:14:08Z", "2200-01-01T00:00:00+14:00"}) {
    const std::string text = std::string(R"({"expiresAt":")") + when + "\"}";
    EXPECT_EQ(put(*mine, "o:" + std::string(when), text).version, 1U);
    EXPECT_EQ(get(*theirs, "o:" + std::string(when))->data, text);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageExpiry, testing::ValuesIn(storage_engines()), engine_name);

/// What each of these waits for has come for all of them once the one case above has seen it come. So they
/// run on hand clocks, which cost no time, and on Redis, whose clock no test can set: on one plain server and
/// on those that lose replies. A transport, a facade or a decorator does not know what time it is.
class AfterStorageExpiry : public StorageExpiry {};

TEST_P(AfterStorageExpiry, LessThanASecondIsNotRoundedAway) {
  // Just behind a full second there is nothing left of it for one who counts whole ones.
  auto expiry = soon();
  expiry += 1'030 - expiry % 1'000;
  create(*mine, "o:t", record_text({.expires_at = expiry}));
  world->reach(expiry - 30 - 25);
  expect_there_before(expiry, "o:t");
  world->reach(expiry);
  expect_gone("o:t");
}

TEST_P(AfterStorageExpiry, AWriteWithoutATimeMakesTheRecordStay) {
  const auto expiry = soon();
  create(*mine, "o:t", record_text({.expires_at = expiry}));
  put(*theirs, "o:t", record_text({.note = "stays"}));
  world->reach(expiry);
  ASSERT_TRUE(get(*mine, "o:t"));
  EXPECT_EQ(get(*mine, "o:t")->version, 2U);
  EXPECT_EQ(tasks_of(*mine, "o").size(), 1U);
}

TEST_P(AfterStorageExpiry, AWriteSetsItAnewToLaterOrSooner) {
  const auto expiry = soon();
  create(*mine, "o:prolonged", record_text({.expires_at = expiry}));
  put(*mine, "o:prolonged", record_text({.expires_at = expiry + 60'000}));
  create(*mine, "o:shortened", record_text({.expires_at = expiry + 60'000}));
  put(*mine, "o:shortened", record_text({.expires_at = expiry}));
  create(*mine, "o:begun", record_text({}));
  put(*mine, "o:begun", record_text({.expires_at = expiry}));
  world->reach(expiry);
  EXPECT_TRUE(get(*mine, "o:prolonged"));
  EXPECT_FALSE(get(*mine, "o:shortened"));
  EXPECT_FALSE(get(*mine, "o:begun"));
  EXPECT_EQ(tasks_of(*mine, "o"), std::vector<std::string>{"prolonged"});
}

TEST_P(AfterStorageExpiry, ARefusedWriteLeavesIt) {
  const auto expiry = soon();
  create(*mine, "o:t", record_text({.expires_at = expiry}));
  outcome(*mine, BindRecord{.key = record_key("o:t"), .fence = token(7)});
  const auto late = record_data(record_text({}));
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(
      outcome(*mine, PutRecord{.key = record_key("o:t"), .data = late, .expected = ExpectedVersion{9}})));
  EXPECT_NE(
      refused_with(ErrorCode::StaleFence,
                   outcome(*mine, PutRecord{.key = record_key("o:t"), .data = late, .fence = token(6)})),
      nullptr);
  EXPECT_TRUE(std::holds_alternative<AlreadyThere>(
      outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = late})));
  world->reach(expiry);
  expect_gone("o:t");
}

TEST_P(AfterStorageExpiry, AnExpiredRecordIsAbsentForEveryChange) {
  const auto expiry = soon();
  const auto old = create(*mine, "o:t", record_text({.expires_at = expiry}));
  const auto key = record_key("o:t");
  world->reach(expiry);
  const auto data = record_data("{}");
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*mine, PutRecord{.key = key, .data = data, .expected = ExpectedVersion{1}})));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*mine, PutRecord{.key = key, .data = data, .expected = ExpectedVersion{1, old.incarnation}})));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*mine, PutRecord{.key = key, .data = data, .fence = token(1)})));
  expect_nothing_removed(outcome(*mine, RemoveRecord{.key = key}));
  expect_nothing_removed(outcome(*mine, RemoveRecord{.key = key, .expected = ExpectedVersion{1}}));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(outcome(*mine, BindRecord{.key = key, .fence = token(1)})));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(outcome(*mine, RebindRecord{.key = key})));
  expect_gone("o:t");
}

TEST_P(AfterStorageExpiry, ARecordCreatedInTheExpiredOnesPlaceIsAnother) {
  const auto expiry = soon();
  const auto parts = RecordParts{.created_at = 5000, .expires_at = expiry};
  const auto old = std::get<Written>(outcome(*mine, CreateRecord{.key = record_key("o:t"),
                                                                 .data = record_data(record_text(parts)),
                                                                 .origin = "old",
                                                                 .fence = token(9)}));
  put(*mine, "o:t", record_text(parts));
  const auto put_old = put(*mine, "o:u", record_text(parts));
  world->reach(expiry);
  const auto renewed = create(*theirs, "o:t", record_text({.created_at = 9000}));
  EXPECT_EQ(renewed.version, 1U);
  EXPECT_NE(renewed.incarnation, old.incarnation);
  const auto put_again = put(*theirs, "o:u", record_text({.created_at = 8000}));
  EXPECT_EQ(put_again.version, 1U);
  EXPECT_NE(put_again.incarnation, put_old.incarnation);
  expect_record(
      "o:t", {.data = record_text({.created_at = 9000}), .version = 1, .incarnation = renewed.incarnation});
  const auto late = outcome(*mine, PutRecord{.key = record_key("o:t"),
                                             .data = record_data("{}"),
                                             .expected = ExpectedVersion{1, old.incarnation}});
  ASSERT_TRUE(std::holds_alternative<VersionConflict>(late)) << late.index();
  EXPECT_TRUE(std::get<VersionConflict>(late).replaced);
  EXPECT_EQ(tasks_of(*mine, "o"), (std::vector<std::string>{"u", "t"})) << "by their own creation times";
}

TEST_P(AfterStorageExpiry, CleaningUpDeletesWhatHasExpiredAndSaysHowMuch) {
  const auto expiry = soon();
  for (const char* key : {"a:1", "a:2", "b:1"}) create(*mine, key, record_text({.expires_at = expiry}));
  create(*mine, "a:3", record_text({.expires_at = expiry + 600'000}));
  create(*mine, "b:2", record_text({}));
  if (GetParam().hand_clock) {
    world->reach(expiry - 1);
    EXPECT_EQ(outcome(*theirs, CleanupRecords{}), 0U);
  }
  world->reach(expiry);
  EXPECT_EQ(outcome(*theirs, CleanupRecords{}), GetParam().cleans_up_by_itself ? 0U : 3U);
  EXPECT_EQ(outcome(*mine, CleanupRecords{}), 0U);
  EXPECT_TRUE(get(*mine, "a:3"));
  EXPECT_TRUE(get(*mine, "b:2"));
}

INSTANTIATE_TEST_SUITE_P(Engines, AfterStorageExpiry,
                         testing::ValuesIn(storage_engines({"memory_hand_clock", "sqlite_hand_clock",
                                                            "redis_tcp", "redis_disturbed",
                                                            "redis_restarting"})),
                         engine_name);

}  // namespace
}  // namespace holdfast::test
