#include "integration/sqlite_fixture.hpp"

namespace holdfast::sqlite {
namespace {

class SqliteLock : public SqliteTest {};

TEST_F(SqliteLock, IsHeldUntilReleasedAndSeenByEveryConnection) {
  auto one = open(), two = open();
  const auto id = LockId::generate(), other = LockId::generate();
  const auto grant = one.grant(id, "k");
  EXPECT_EQ(grant.fence.value(), 1U);
  EXPECT_TRUE(refused(two.acquire(other, "k")));
  EXPECT_TRUE(*two.is_locked("k"));
  EXPECT_EQ(absence(two.release(other, "k")), Absence::other_owner);
  EXPECT_EQ(absence(two.release(other)), Absence::not_found);
  EXPECT_TRUE(released(two.release(id)));  // by id alone, from elsewhere
  EXPECT_FALSE(*one.is_locked("k"));
  EXPECT_GT(two.grant(other, "k").fence, grant.fence);
}

TEST_F(SqliteLock, AnswersARepeatedAcquireAsTheFirstTime) {
  auto client = open();
  const auto id = LockId::generate();
  const auto first = client.grant(id, "k");
  for (const auto durability : {Durability::process, Durability::machine}) {
    const auto again = client.grant(id, "k", 1s, durability);
    EXPECT_EQ(again.fence, first.fence);
    EXPECT_EQ(again.expires_at, first.expires_at);
  }
  EXPECT_EQ(client.acquire(id, "another").error().code(), ErrorCode::InvalidArgument);
  EXPECT_FALSE(*client.is_locked("another"));
}

TEST_F(SqliteLock, SaysWhenAHeldLockWillBeFree) {
  FakeClock time;
  auto client = open(time);
  client.grant(LockId::generate(), "k", 5s);
  time.pass(2s);
  const auto outcome = client.acquire(LockId::generate(), "k");
  EXPECT_EQ(std::get<Refused>(*outcome).free_in, 3000ms);
}

TEST_F(SqliteLock, EndsAtItsDeadlineToTheMillisecond) {
  FakeClock time;
  auto client = open(time);
  const auto id = LockId::generate(), other = LockId::generate();
  const auto grant = client.grant(id, "k", 5s);
  EXPECT_EQ(test::to_ms(grant.expires_at), time.wall_ms + 5000);
  time.pass(4999ms);
  EXPECT_TRUE(refused(client.acquire(other, "k")));
  time.pass(1ms);
  EXPECT_FALSE(*client.is_locked("k"));
  EXPECT_FALSE(client.lookup("k")->has_value());
  EXPECT_FALSE(client.lookup(id)->has_value());
  EXPECT_TRUE(client.list()->locks.empty());
  EXPECT_EQ(absence(client.extend(id, "k", 5s)), Absence::expired);
  EXPECT_EQ(absence(client.extend(id, "k", 5s)), Absence::not_found);  // it was deleted on the way
  EXPECT_GT(client.grant(other, "k").fence, grant.fence);
}

TEST_F(SqliteLock, TakesOverAnExpiredRowAndForgetsItsOwner) {
  FakeClock time;
  auto client = open(time);
  const auto id = LockId::generate(), other = LockId::generate();
  client.grant(id, "k", 5s);
  time.pass(5s);
  client.grant(other, "k");
  EXPECT_EQ(absence(client.release(id)), Absence::not_found);
  EXPECT_EQ(absence(client.release(id, "k")), Absence::other_owner);
  EXPECT_TRUE(*client.is_locked("k"));
}

TEST_F(SqliteLock, LetsAnExpiredIdTakeAnotherKey) {
  FakeClock time;
  auto client = open(time);
  const auto id = LockId::generate();
  client.grant(id, "k", 5s);
  time.pass(5s);
  client.grant(id, "another");
  EXPECT_EQ((*client.lookup(id))->key.str(), "another");
  EXPECT_FALSE(client.lookup("k")->has_value());
}

TEST_F(SqliteLock, ExtendReplacesWhatWasLeft) {
  FakeClock time;
  auto client = open(time);
  const auto id = LockId::generate();
  const auto grant = client.grant(id, "k", 30s);
  time.pass(1s);
  ASSERT_TRUE(extended(client.extend(id, "k", 2s)));
  EXPECT_EQ(test::to_ms((*client.lookup("k"))->expires_at), time.wall_ms + 2000);
  EXPECT_EQ((*client.lookup("k"))->fence, grant.fence);
  time.pass(2s);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteLock, ListsInTheOrderOfKeysAPageAtATime) {
  FakeClock time;
  auto client = open(time);
  client.grant(LockId::generate(), "expired", 1s);
  for (const auto* key : {"c", "a", "e", "b", "d"}) client.grant(LockId::generate(), key);
  time.pass(1s);
  std::string seen, cursor;
  do {
    const auto page = client.list(cursor, 2);
    ASSERT_TRUE(page.ok());
    EXPECT_LE(page->locks.size(), 2U);
    for (const auto& lock : page->locks) seen += lock.key.str();
    cursor = page->cursor;
  } while (!cursor.empty());
  EXPECT_EQ(seen, "abcde");
  EXPECT_EQ(client.list({}, 0)->locks.size(), 1U);
  EXPECT_EQ(client.list("\xFF").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(client.list("e\u0301").error().code(), ErrorCode::InvalidArgument) << "not normalised: not ours";
}

TEST_F(SqliteLock, KeepsKeysThatContainAZeroByteApart) {
  auto client = open();
  using namespace std::string_literals;
  client.grant(LockId::generate(), "a\0b"s);
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "a\0c"s)));
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "a"s)));
  EXPECT_EQ((*client.lookup("a\0b"s))->key.str(), "a\0b"s);
}

TEST_F(SqliteLock, HoldsTheLongestKeys) {
  auto client = open();
  const std::string one(LockKey::max_bytes, 'x');
  std::string two = one;
  two.back() = 'y';
  client.grant(LockId::generate(), one);
  client.grant(LockId::generate(), two);
  EXPECT_EQ(client.list()->locks.size(), 2U);
}

TEST_F(SqliteLock, AContendedAcquireWritesNothing) {
  auto client = open();
  client.grant(LockId::generate(), "k");
  const auto log = file.string() + "-wal";
  const auto before = std::filesystem::file_size(log);
  const auto version = sql(file, "PRAGMA data_version; SELECT fence_last FROM meta");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(refused(client.acquire(LockId::generate(), "k")));
  EXPECT_EQ(std::filesystem::file_size(log), before);
  EXPECT_EQ(sql(file, "PRAGMA data_version; SELECT fence_last FROM meta"), version);
}

TEST_F(SqliteLock, ErrorsSayWhatTheyWereAbout) {
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "k");
  const auto error = client.acquire(id, "another").error();
  EXPECT_EQ(error.key(), "another");
  EXPECT_EQ(error.lock_id(), id.str());
  EXPECT_EQ(std::string(error.what()).find(id.str()), std::string::npos);
}

TEST_F(SqliteLock, AStopRequestedBeforeItBeganAborts) {
  auto client = open();
  std::stop_source stop;
  stop.request_stop();
  const auto outcome =
      client.acquire(LockId::generate(), "k", 1s, Durability::process, never, stop.get_token());
  EXPECT_EQ(outcome.error().code(), ErrorCode::Aborted);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteLock, ThatNobodyAsksForAgainLeavesNoRowForEver) {
  FakeClock time;
  auto client = open(time);
  const auto rows = [&] { return std::stoul(sql(file, "SELECT count(*) FROM locks")); };
  const auto kept = LockId::generate();
  client.grant(kept, "kept", 1h);
  for (int i = 0; i < 2000; ++i) {
    client.grant(LockId::generate(), "once" + std::to_string(i), 10ms);
    time.pass(10ms);
  }
  EXPECT_LT(rows(), 45U);
  // What piled up before, too: here held by nobody, since all of it expired at once.
  for (int i = 0; i < 300; ++i) client.grant(LockId::generate(), "together" + std::to_string(i), 1s);
  EXPECT_GE(rows(), 300U);
  time.pass(1s);
  for (int i = 0; i < 500; ++i) {
    const auto id = LockId::generate();
    client.grant(id, "k");
    EXPECT_TRUE(released(client.release(id, "k")));
  }
  EXPECT_LT(rows(), 45U);
  EXPECT_EQ((*client.lookup("kept"))->id, kept);
}

TEST_F(SqliteLock, HasAnAuthorityOfItsOwnThatStays) {
  const auto first = open().backend().authority();
  EXPECT_EQ(first.size(), 36U);
  EXPECT_EQ(first[14], '4');
  EXPECT_EQ(open().backend().authority(), first);
  file = directory.path() / "another.db";
  EXPECT_NE(open().backend().authority(), first);
}

}  // namespace
}  // namespace holdfast::sqlite
