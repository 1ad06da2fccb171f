// Fences: what the store refuses to a former holder of the lock.

#include <atomic>
#include <thread>

#include "contract/storage_contract.hpp"

namespace holdfast::test {
namespace {

class StorageFences : public StorageContract {
 protected:
  PutOutcome put_with(std::optional<FencingToken> fence, std::string text = "{}",
                      std::optional<ExpectedVersion> expected = {}) const {
    return outcome(*theirs, PutRecord{.key = record_key("o:t"),
                                      .data = record_data(std::move(text)),
                                      .expected = std::move(expected),
                                      .fence = std::move(fence)});
  }
  BindOutcome guard_with(FencingToken fence) const {
    return outcome(*theirs, BindRecord{.key = record_key("o:t"), .fence = std::move(fence)});
  }
  RemoveOutcome remove_with(std::optional<FencingToken> fence,
                            std::optional<ExpectedVersion> expected = {}) const {
    return outcome(
        *theirs,
        RemoveRecord{.key = record_key("o:t"), .expected = std::move(expected), .fence = std::move(fence)});
  }
  std::optional<FencingToken> guard() const { return get(*mine, "o:t").value().bound_to; }

  template <class Outcome>
  static void expect_stale(const Outcome& answer, std::uint64_t given, std::uint64_t highest) {
    const auto* stale = refused_with(ErrorCode::StaleFence, answer);
    ASSERT_NE(stale, nullptr) << answer.index();
    EXPECT_EQ(stale->given.value(), given);
    EXPECT_EQ(stale->bound_to.fence.value(), highest);
  }
  template <class Outcome>
  static void expect_wrong_lock(const Outcome& answer, const FencingToken& bound_to) {
    const auto* wrong = refused_with(ErrorCode::WrongLock, answer);
    ASSERT_NE(wrong, nullptr) << answer.index();
    EXPECT_EQ(wrong->bound_to, bound_to);
  }
};

TEST_P(StorageFences, ARecordIsGuardedByNothingAtFirst) {
  create(*mine, "o:t");
  EXPECT_EQ(guard(), std::nullopt);
  put(*mine, "o:t");
  EXPECT_EQ(guard(), std::nullopt);
}

TEST_P(StorageFences, TheFirstOneBinds) {
  create(*mine, "o:t");
  EXPECT_EQ(std::get<Written>(put_with(token(5))).version, 2U);
  EXPECT_EQ(guard(), token(5));
}

TEST_P(StorageFences, AnEqualOneIsAllowed) {
  create(*mine, "o:t");
  put_with(token(5));
  EXPECT_EQ(std::get<Written>(put_with(token(5))).version, 3U);
  EXPECT_EQ(guard(), token(5));
}

TEST_P(StorageFences, AHigherOneIsRemembered) {
  create(*mine, "o:t");
  put_with(token(5));
  EXPECT_EQ(std::get<Written>(put_with(token(7))).version, 3U);
  EXPECT_EQ(guard(), token(7));
}

TEST_P(StorageFences, ALowerOneIsRefusedWithBothNumbersAndChangesNothing) {
  const auto created = create(*mine, "o:t");
  put_with(token(7), "seven");
  expect_stale(put_with(token(6), "late"), 6, 7);
  expect_stale(put_with(token(0), "late"), 0, 7);
  expect_stale(guard_with(token(6)), 6, 7);
  expect_stale(remove_with(token(6)), 6, 7);
  expect_record("o:t",
                {.data = "seven", .version = 2, .incarnation = created.incarnation, .bound_to = token(7)});
}

TEST_P(StorageFences, AreComparedByValueUpToTheHighest) {
  create(*mine, "o:t");
  put_with(token(9));
  EXPECT_TRUE(std::holds_alternative<Written>(put_with(token(10))));
  expect_stale(put_with(token(9)), 9, 10);
  put_with(token(Fence::max_value - 1));
  EXPECT_TRUE(std::holds_alternative<Written>(put_with(token(Fence::max_value))));
  expect_stale(put_with(token(Fence::max_value - 1)), Fence::max_value - 1, Fence::max_value);
}

TEST_P(StorageFences, OfAnotherLockAreRefusedNamingTheBinding) {
  const auto created = create(*mine, "o:t");
  put_with(token(7), "seven");
  expect_wrong_lock(put_with(token(8, "other lock"), "late"), token(7));
  expect_wrong_lock(put_with(token(6, "other lock"), "late"), token(7));
  expect_wrong_lock(guard_with(token(8, "other lock")), token(7));
  expect_wrong_lock(remove_with(token(8, "other lock")), token(7));
  expect_record("o:t",
                {.data = "seven", .version = 2, .incarnation = created.incarnation, .bound_to = token(7)});
}

TEST_P(StorageFences, OfAnotherAuthorityAreRefusedNamingTheBinding) {
  const auto created = create(*mine, "o:t");
  put_with(token(7), "seven");
  expect_wrong_lock(put_with(token(8, "lock", "elsewhere"), "late"), token(7));
  expect_wrong_lock(guard_with(token(8, "lock", "elsewhere")), token(7));
  expect_wrong_lock(remove_with(token(8, "lock", "elsewhere")), token(7));
  expect_record("o:t",
                {.data = "seven", .version = 2, .incarnation = created.incarnation, .bound_to = token(7)});
}

TEST_P(StorageFences, ThePartsOfABindingAreNotRunTogether) {
  create(*mine, "o:t");
  put_with(token(1, "b:c", "a"));
  expect_wrong_lock(put_with(token(2, "c", "a:b")), token(1, "b:c", "a"));
}

TEST_P(StorageFences, ALockMayHaveAnyName) {
  for (const std::string& name :
       {std::string("a\0b", 3), std::string("\"'{}[]*?\\\n"), std::string("é鍵🔒"), std::string(512, 'x')}) {
    remove(*mine, "o:t");
    create(*mine, "o:t");
    put_with(token(3, name));
    EXPECT_EQ(guard(), token(3, name));
    EXPECT_TRUE(std::holds_alternative<Written>(put_with(token(3, name))));
    expect_wrong_lock(put_with(token(4, name + "x")), token(3, name));
  }
}

TEST_P(StorageFences, AWriteWithoutOneIsNotCheckedAndLeavesTheGuard) {
  create(*mine, "o:t");
  put_with(token(7));
  EXPECT_EQ(std::get<Written>(put_with(std::nullopt)).version, 3U);
  EXPECT_EQ(std::get<Written>(put_with(std::nullopt, "{}", ExpectedVersion{3})).version, 4U);
  EXPECT_EQ(guard(), token(7));
  expect_stale(put_with(token(6)), 6, 7);
  EXPECT_TRUE(std::holds_alternative<Removed>(remove_with(std::nullopt)));
}

TEST_P(StorageFences, AreCheckedBeforeVersions) {
  create(*mine, "o:t");
  put_with(token(7));
  expect_stale(put_with(token(6), "{}", ExpectedVersion{1}), 6, 7);
  expect_wrong_lock(put_with(token(8, "other"), "{}", ExpectedVersion{1}), token(7));
  expect_stale(remove_with(token(6), ExpectedVersion{1}), 6, 7);
  expect_wrong_lock(remove_with(token(8, "other"), ExpectedVersion{1}), token(7));
}

TEST_P(StorageFences, AWriteRefusedForItsVersionNeitherBindsNorRaises) {
  create(*mine, "o:t");
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(put_with(token(5), "{}", ExpectedVersion{9})));
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(remove_with(token(5), ExpectedVersion{9})));
  EXPECT_EQ(guard(), std::nullopt);
  put_with(token(5));
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(put_with(token(8), "{}", ExpectedVersion{9})));
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(remove_with(token(8), ExpectedVersion{9})));
  EXPECT_EQ(guard(), token(5));
}

TEST_P(StorageFences, AFencedPutDoesNotCreate) {
  EXPECT_TRUE(std::holds_alternative<NoRecord>(put_with(token(5))));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(put_with(token(5), "{}", ExpectedVersion{1})));
  EXPECT_FALSE(get(*mine, "o:t"));
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
}

TEST_P(StorageFences, AFencedPutThatMayCreateDoes) {
  const auto put_register = [&](std::uint64_t fence, std::optional<ExpectedVersion> expected = {}) {
    return outcome(*theirs, PutRecord{.key = record_key("o:t"),
                                      .data = record_data("data"),
                                      .expected = std::move(expected),
                                      .fence = token(fence),
                                      .fenced_may_create = true});
  };
  EXPECT_TRUE(std::holds_alternative<NoRecord>(put_register(5, ExpectedVersion{1})));
  const auto written = std::get<Written>(put_register(5));
  EXPECT_EQ(written.version, 1U);
  expect_record("o:t",
                {.data = "data", .version = 1, .incarnation = written.incarnation, .bound_to = token(5)});
  EXPECT_EQ(std::get<Written>(put_register(6)).version, 2U);
  expect_stale(put_register(5), 5, 6);
}

TEST_P(StorageFences, ACreatedRecordMayBeGuardedFromItsBeginning) {
  const auto created = std::get<Written>(
      outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = record_data("data"), .fence = token(5)}));
  expect_record("o:t",
                {.data = "data", .version = 1, .incarnation = created.incarnation, .bound_to = token(5)});
  expect_stale(put_with(token(4)), 4, 5);
}

TEST_P(StorageFences, ACreateThatFindsARecordLeavesItsGuard) {
  create(*mine, "o:t");
  const auto again =
      outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = record_data("data"), .fence = token(5)});
  ASSERT_TRUE(std::holds_alternative<AlreadyThere>(again)) << again.index();
  EXPECT_EQ(std::get<AlreadyThere>(again).record.bound_to, std::nullopt);
  EXPECT_EQ(guard(), std::nullopt);
  put_with(token(5));
  const auto guarded =
      outcome(*mine, CreateRecord{.key = record_key("o:t"), .data = record_data("data"), .fence = token(9)});
  ASSERT_TRUE(std::holds_alternative<AlreadyThere>(guarded)) << guarded.index();
  EXPECT_EQ(std::get<AlreadyThere>(guarded).record.bound_to, token(5));
  EXPECT_EQ(guard(), token(5));
}

TEST_P(StorageFences, TheGuardGoesWithTheRecord) {
  create(*mine, "o:t");
  put_with(token(7));
  remove(*mine, "o:t");
  create(*mine, "o:t");
  EXPECT_EQ(guard(), std::nullopt);
  EXPECT_TRUE(std::holds_alternative<Written>(put_with(token(1, "other"))));
}

TEST_P(StorageFences, AFencedRemoveOfTheHolderRemoves) {
  create(*mine, "o:t");
  put_with(token(7));
  EXPECT_TRUE(std::holds_alternative<Removed>(remove_with(token(7))));
  EXPECT_FALSE(get(*mine, "o:t"));
  expect_nothing_removed(remove_with(token(7)));
  create(*mine, "o:t");
  EXPECT_TRUE(std::holds_alternative<Removed>(remove_with(token(1)))) << "nothing guards it";
}

TEST_P(StorageFences, TakingARecordUnderALockRaisesItsFenceAndShowsItInOneStep) {
  const auto created = std::get<Written>(outcome(
      *mine, CreateRecord{.key = record_key("o:t"), .data = record_data("data"), .origin = "request"}));
  for (const std::uint64_t fence : {5U, 5U, 8U}) {
    const auto answer = guard_with(token(fence));
    const auto* taken = std::get_if<StoredRecord>(&answer);
    ASSERT_NE(taken, nullptr) << answer.index();
    EXPECT_EQ(taken->data, "data");
    EXPECT_EQ(taken->version, 1U);
    EXPECT_EQ(taken->incarnation, created.incarnation);
    EXPECT_EQ(taken->bound_to, token(fence));
    EXPECT_EQ(taken->origin, "request");
  }
  expect_stale(put_with(token(7)), 7, 8);
  expect_record("o:t", {.data = "data",
                        .version = 1,
                        .incarnation = created.incarnation,
                        .bound_to = token(8),
                        .origin = "request"});
}

TEST_P(StorageFences, ARecordOfAnotherIncarnationIsAbsentForWhoeverTakesTheOneThatIsGone) {
  const auto first = create(*mine, "o:t", "first");
  const auto take = [&](const std::string& incarnation, std::uint64_t fence) {
    return outcome(*theirs,
                   BindRecord{.key = record_key("o:t"), .fence = token(fence), .incarnation = incarnation});
  };
  EXPECT_EQ(std::get<StoredRecord>(take(first.incarnation, 5)).bound_to, token(5));
  expect_stale(take(first.incarnation, 4), 4, 5);
  ASSERT_TRUE(remove(*mine, "o:t"));
  const auto second = create(*mine, "o:t", "second");
  EXPECT_TRUE(std::holds_alternative<NoRecord>(take(first.incarnation, 9)));
  expect_record("o:t", {.data = "second", .version = 1, .incarnation = second.incarnation});
  EXPECT_EQ(std::get<StoredRecord>(take(second.incarnation, 1)).bound_to, token(1));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(take(first.incarnation, 1))) << "whatever the fence";
  EXPECT_TRUE(std::holds_alternative<NoRecord>(take(first.incarnation, 9)));
  EXPECT_EQ(guard(), token(1));
}

TEST_P(StorageFences, AnAbsentRecordCannotBeTakenNorRebound) {
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard_with(token(5))));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*mine, RebindRecord{.key = record_key("o:t"), .fence = token(5)})));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(outcome(*mine, RebindRecord{.key = record_key("o:t")})));
  EXPECT_FALSE(get(*mine, "o:t"));
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
}

TEST_P(StorageFences, ARecordIsReboundToAnythingOrNothingWhateverGuardedIt) {
  const auto created = create(*mine, "o:t", "data");
  put_with(token(7), "data");
  for (const auto& guard_now :
       {std::optional(token(3, "other", "elsewhere")), std::optional(token(2, "other", "elsewhere")),
        std::optional<FencingToken>(), std::optional(token(1)), std::optional<FencingToken>()}) {
    const auto answer = outcome(*mine, RebindRecord{.key = record_key("o:t"), .fence = guard_now});
    const auto* rebound = std::get_if<StoredRecord>(&answer);
    ASSERT_NE(rebound, nullptr) << answer.index();
    EXPECT_EQ(rebound->bound_to, guard_now);
    EXPECT_EQ(rebound->data, "data");
    EXPECT_EQ(rebound->version, 2U);
    expect_record("o:t",
                  {.data = "data", .version = 2, .incarnation = created.incarnation, .bound_to = guard_now});
  }
  EXPECT_TRUE(std::holds_alternative<Written>(put_with(token(1, "third"))));
}

TEST_P(StorageFences, ARebindForALostAuthorityLeavesEveryOtherGuardAlone) {
  const auto created = create(*mine, "o:t", "data");
  const auto rebind = [&](const std::optional<FencingToken>& fence) {
    const auto answer =
        outcome(*mine, RebindRecord{.key = record_key("o:t"), .fence = fence, .from_authority = "lost"});
    EXPECT_TRUE(std::holds_alternative<StoredRecord>(answer)) << answer.index();
    return std::get<StoredRecord>(answer);
  };
  const auto expect_guard = [&](const StoredRecord& answer, const std::optional<FencingToken>& expected) {
    EXPECT_EQ(answer.bound_to, expected);
    EXPECT_EQ(answer.data, "data");
    expect_record("o:t",
                  {.data = "data", .version = 1, .incarnation = created.incarnation, .bound_to = expected});
  };
  EXPECT_TRUE(std::holds_alternative<NoRecord>(outcome(
      *mine, RebindRecord{.key = record_key("o:absent"), .fence = token(1), .from_authority = "lost"})));
  expect_guard(rebind(token(1)), std::nullopt);  // no lock at all
  guard_with(token(7, "k", "lost"));
  expect_guard(rebind(token(1, "k", "new")), token(1, "k", "new"));
  expect_guard(rebind(token(1, "k", "new")), token(1, "k", "new"));
  guard_with(token(5, "k", "new"));  // the next holder came: a repeat of the request must not undo that
  expect_guard(rebind(token(1, "k", "new")), token(5, "k", "new"));
  expect_guard(rebind(std::nullopt), token(5, "k", "new"));
  outcome(*mine, RebindRecord{.key = record_key("o:t"), .fence = token(7, "k", "lost")});
  expect_guard(rebind(std::nullopt), std::nullopt);
}

TEST_P(StorageFences, TheGuardDoesNotOutliveTheExpiryOfTheRecord) {
  const auto soon = now_ms(*mine) + 400;
  create(*mine, "o:t", record_text({.expires_at = soon}));
  guard_with(token(7));
  world->reach(soon);
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard_with(token(8))));
  create(*mine, "o:t");
  EXPECT_EQ(guard(), std::nullopt);
}

TEST_P(StorageFences, TakingARecordDoesNotChangeItsExpiry) {
  const auto soon = now_ms(*mine) + 500;
  create(*mine, "o:t", record_text({.expires_at = soon}));
  guard_with(token(1));
  outcome(*mine, RebindRecord{.key = record_key("o:t"), .fence = token(2)});
  world->reach(soon);
  EXPECT_FALSE(get(*mine, "o:t"));
}

TEST_P(StorageFences, AreListedWithTheRecord) {
  create(*mine, "o:t");
  put_with(token(7));
  const auto page = outcome(*mine, ListRecords{.prefix = "o:"});
  ASSERT_EQ(page.records.size(), 1U);
  EXPECT_EQ(page.records[0].record.bound_to, token(7));
}

TEST_P(StorageFences, NoWriteOfAFormerHolderComesAfterOneOfTheNext) {
  create(*mine, "o:t", "0");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i, client = i % 2 == 0 ? mine : theirs] {
      for (std::uint64_t fence = static_cast<std::uint64_t>(i) + 1; fence <= 60; fence += 4) {
        outcome(*client, PutRecord{.key = record_key("o:t"),
                                   .data = record_data(std::to_string(fence)),
                                   .fence = token(fence)});
      }
    });
  }
  threads.clear();
  const auto last = get(*mine, "o:t");
  EXPECT_EQ(last->data, "60");
  EXPECT_EQ(last->bound_to, token(60));
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageFences, testing::ValuesIn(storage_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
