#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "engine/redis/listings.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/replies.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using Names = std::vector<std::string>;

class RedisListing : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }

  /// What every page lists; the first one begins without a cursor, the last one ends without.
  static std::vector<Names> pages(RedisLocks& locks, std::size_t limit) {
    std::vector<Names> all;
    std::string cursor;
    do {
      const auto page = locks.page(cursor, limit);
      all.emplace_back();
      for (const auto& lock : page.locks) all.back().push_back(lock.key.str());
      cursor = page.cursor;
    } while (!cursor.empty() && all.size() < 1000);
    return all;
  }
  static Names listed(RedisLocks& locks, std::size_t limit = 100) {
    Names all;
    for (const auto& page : pages(locks, limit)) all.insert(all.end(), page.begin(), page.end());
    return all;
  }

  std::optional<RedisServer> server;
};

TEST_F(RedisListing, NothingIsOneEmptyPage) {
  RedisLocks locks(server->unix_socket(), "p");
  EXPECT_EQ(pages(locks, 10), std::vector<Names>{{}});
}

TEST_F(RedisListing, OwnersAreScannedInBoundedStepsWhichADeadlineOrAStopRequestEnds) {
  // It has names without end, all of one owner.
  FakeRedis endless([](const FakeRedis::Words& command) -> FakeRedis::Answer {
    if (command[0] == "TIME") return {"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"};
    if (command[0] == "GET") return {"$-1\r\n"};
    if (command[0] != "SCAN") return FakeRedis::politely(command);
    return {"*2\r\n$1\r\n7\r\n*1\r\n" + FakeRedis::bulk("pmcp:idx:o")};
  });
  RedisOptions options;
  options.host = "127.0.0.1";
  options.port = endless.port();
  const auto backend = make_redis_storage_backend(options).value_or_throw();
  const auto in_time = call(*backend, ListOwners{.deadline = BootClock::now() + 200ms});
  ASSERT_FALSE(in_time);
  EXPECT_EQ(in_time.error().code(), ErrorCode::NetworkTimeout);

  std::stop_source stop;
  std::jthread stopper([&] {
    const auto scans = [&] {
      return std::ranges::count_if(endless.heard(), [](const auto& words) { return words[0] == "SCAN"; });
    };
    const auto before = scans();
    EXPECT_TRUE(eventually([&] { return scans() > before + 2; }));
    stop.request_stop();
  });
  const auto stopped = call(*backend, ListOwners{}, stop.get_token());
  ASSERT_FALSE(stopped);
  // Whether the last step was carried out does not matter.
  EXPECT_TRUE(stopped.error().code() == ErrorCode::Aborted || stopped.error().transient());
  for (const auto& command : endless.heard()) {
    if (command[0] != "SCAN") continue;
    EXPECT_EQ(command.at(4), "COUNT");
    EXPECT_LE(std::stoi(command.at(5)), 1000);
  }
}

TEST_F(RedisListing, EveryLockIsListedOnceOverPagesOfAnySize) {
  RedisLocks locks(server->unix_socket(), "p");
  Names expected;
  for (int i = 0; i < 50; ++i) {
    expected.push_back("key-" + std::to_string(i));
    ASSERT_TRUE(locks.acquire(LockId::generate(), expected.back()));
  }
  std::ranges::sort(expected);
  for (const std::size_t limit : {1U, 7U, 49U, 50U, 51U, 1000U}) {
    const auto all = pages(locks, limit);
    EXPECT_EQ(listed(locks, limit), expected);
    EXPECT_EQ(all.size(), (expected.size() + limit - 1) / limit);
  }
  EXPECT_EQ(locks.page("", 0).locks.size(), 1U) << "a limit of none is taken for one";
}

TEST_F(RedisListing, MoreKeysThanOneScanFindsAreAllFound) {
  RedisLocks locks(server->unix_socket(), "p");
  std::set<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    locks.raw.send({"SET", "elsewhere:" + std::to_string(i), "x"});
    static_cast<void>(locks.raw.receive());
    if (i % 3 != 0) continue;
    expected.insert("key-" + std::to_string(i));
    ASSERT_TRUE(locks.acquire(LockId::generate(), "key-" + std::to_string(i)));
  }
  const auto found = listed(locks, 300);
  EXPECT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::set(found.begin(), found.end()), expected);
}

TEST_F(RedisListing, WhatIsNoLockOfThisPrefixIsPassedOver) {
  RedisLocks locks(server->unix_socket(), "p");
  RedisLocks nested(server->unix_socket(), "p:inner");
  RedisLocks longer(server->unix_socket(), "pp");
  ASSERT_TRUE(locks.acquire(LockId::generate(), "mine"));
  ASSERT_TRUE(nested.acquire(LockId::generate(), "theirs"));
  ASSERT_TRUE(longer.acquire(LockId::generate(), "other"));
  ASSERT_TRUE(locks.acquire(LockId::generate(), "id:x"));
  ASSERT_TRUE(locks.acquire(LockId::generate(), "fence:x"));
  locks.raw.text({"SET", "p:text", "text"});
  locks.raw.text({"SET", "p:\xff", "text"});
  locks.raw.text({"SET", locks.layout.authority_key(), "text"});
  locks.raw.text({"RPUSH", "p:list", "x"});
  const auto done_with = LockId::generate();
  ASSERT_TRUE(locks.acquire(done_with, "done"));
  ASSERT_FALSE(locks.release(done_with, "done", redis::Release::for_good));
  for (const std::size_t limit : {1U, 2U, 100U}) {
    EXPECT_EQ(listed(locks, limit), (Names{"fence:x", "id:x", "mine"})) << limit;
  }
  EXPECT_EQ(listed(nested), Names{"theirs"});
}

TEST_F(RedisListing, ANameThatBecameSomethingElseMeanwhileIsPassedOver) {
  RedisLocks locks(server->unix_socket(), "p");
  const auto holder = LockId::generate();
  ASSERT_TRUE(locks.acquire(holder, "k"));
  locks.raw.text({"RPUSH", "p:list", "x"});
  const Names names = {"p:gone", "p:list", "p:k"};
  const auto reply = locks.ask(locks.locks->records(names, redis::By::text));
  const auto found = locks.locks->listed(*reply, names).value_or_throw();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().id, holder);
}

TEST_F(RedisListing, APrefixIsNotAPattern) {
  for (const std::string& prefix : Names{"*", "a?c", "[ab]", "\\", "^x-z"}) {
    RedisLocks locks(server->unix_socket(), prefix);
    EXPECT_TRUE(listed(locks).empty()) << prefix;
    ASSERT_TRUE(locks.acquire(LockId::generate(), "k"));
    EXPECT_EQ(listed(locks), Names{"k"}) << prefix;
  }
}

TEST_F(RedisListing, HashedKeysAreListedUnderTheirOwnNames) {
  RedisLocks locks(server->unix_socket(), std::string(900, 'x'));
  const Names names = {"short", std::string(400, 'k'), std::string(401, 'k')};
  for (const auto& name : names) ASSERT_TRUE(locks.acquire(LockId::generate(), name));
  for (const std::size_t limit : {1U, 100U}) {
    const auto found = listed(locks, limit);
    EXPECT_EQ(std::multiset(found.begin(), found.end()), std::multiset(names.begin(), names.end()));
  }
}

TEST_F(RedisListing, ALockHeldThroughoutIsListedOnceWhileOthersComeAndGo) {
  RedisLocks locks(server->unix_socket(), "p");
  Names expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back("stays-" + std::to_string(100 + i));
    ASSERT_TRUE(locks.acquire(LockId::generate(), expected.back()));
  }
  Names found;
  std::string cursor;
  int round = 0;
  do {
    const auto page = locks.page(cursor, 7);
    for (const auto& lock : page.locks) {
      if (lock.key.str().starts_with("stays")) found.push_back(lock.key.str());
    }
    cursor = page.cursor;
    // The table grows, so that SCAN's own order changes between pages.
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(
          locks.acquire(LockId::generate(), "comes-" + std::to_string(round) + "-" + std::to_string(i)));
    }
    ++round;
  } while (!cursor.empty());
  EXPECT_EQ(found, expected);
}

TEST_F(RedisListing, AForeignCursorIsInvalidArgument) {
  const auto layout = redis::documented_layout(redis::Layout::make("p", 0).value_or_throw());
  for (const auto& cursor : Names{"\xff\xfe", "e\u0301", std::string(513, 'x')}) {
    const auto listing = redis::LockListing::start(*layout, {.cursor = cursor});
    ASSERT_FALSE(listing);
    EXPECT_EQ(listing.error().code(), ErrorCode::InvalidArgument);
  }
}

class RedisOwnerListing : public RedisListing {
 protected:
  static void give_records_to(RawRedis& raw, const std::string& owner, const std::string& prefix = "p") {
    raw.text({"ZADD", prefix + ":idx:" + owner, "0", "t"});
  }
  static Status take(redis::OwnerListing& listing, RawRedis& raw, std::uint64_t connection) {
    return listing.take(*raw.command(arguments_of(*listing.command(redis::By::sha))), connection);
  }
  static redis::OwnerListing start(const redis::StorageLayout& layout, std::size_t limit = 100) {
    return redis::OwnerListing::start(layout, {.limit = limit}).value_or_throw();
  }
  static Names listed(RawRedis& raw, const std::string& prefix) {
    const auto layout = redis::StorageLayout::make(prefix, 0).value_or_throw();
    auto listing = start(layout);
    while (listing.command(redis::By::sha)) static_cast<void>(take(listing, raw, 1).value_or_throw());
    return std::move(listing).page().owners;
  }
};

TEST_F(RedisOwnerListing, WhatIsNoIndexOfThisPrefixIsPassedOver) {
  auto raw = server->raw();
  give_records_to(raw, "mine");
  give_records_to(raw, "theirs", "p:idx:x");
  give_records_to(raw, "other", "pp");
  give_records_to(raw, "\xff");
  give_records_to(raw, std::string(RecordKey::max_bytes, 'x'));
  raw.text({"SET", "p:idx:text", "x"});
  raw.text({"SET", "p:tasks:mine:t", "x"});
  EXPECT_EQ(listed(raw, "p"), Names{"mine"});
  EXPECT_EQ(listed(raw, "p:idx:x"), Names{"theirs"});
}

TEST_F(RedisOwnerListing, APrefixIsNotAPattern) {
  auto raw = server->raw();
  for (const std::string& prefix : Names{"*", "a?c", "[ab]", "\\", "^x-z"}) {
    EXPECT_TRUE(listed(raw, prefix).empty()) << prefix;
    give_records_to(raw, "o", prefix);
    EXPECT_EQ(listed(raw, prefix), Names{"o"}) << prefix;
  }
}

/// The order of a server's table is drawn when it starts, so half a scan before and half a scan after are not
/// a whole one.
TEST_F(RedisOwnerListing, AScanThatARestartCutInTwoBeginsAgain) {
  server.emplace(RedisServer::Options{.persistent = true});
  Names everybody;
  {
    auto raw = server->raw();
    for (int i = 1000; i < 4000; ++i) {
      everybody.push_back(std::to_string(i));
      raw.send({"ZADD", "p:idx:" + everybody.back(), "0", "t"});
    }
    for (const auto& owner : everybody) ASSERT_EQ(raw.receive()->integer, 1) << owner;
  }
  const auto layout = redis::StorageLayout::make("p", 0).value_or_throw();
  Names found;
  std::string cursor;
  std::uint64_t connection = 1;
  do {
    auto listing = redis::OwnerListing::start(layout, {.cursor = cursor, .limit = 1000}).value_or_throw();
    auto before = server->raw();
    ASSERT_TRUE(take(listing, before, connection));
    ASSERT_TRUE(take(listing, before, connection));
    ASSERT_TRUE(listing.command(redis::By::sha)) << "not done yet";
    server->restart();
    ++connection;
    auto after = server->raw();
    while (listing.command(redis::By::sha)) ASSERT_TRUE(take(listing, after, connection));
    const auto page = std::move(listing).page();
    found.insert(found.end(), page.owners.begin(), page.owners.end());
    cursor = page.cursor;
  } while (!cursor.empty());
  EXPECT_EQ(found, everybody);
}

TEST_F(RedisOwnerListing, ARepeatedNameIsListedOnceAndAForeignAnswerIsAnError) {
  const auto layout = redis::StorageLayout::make("p", 0).value_or_throw();
  auto listing = start(layout, 2);
  const auto answer = [&](const std::string& bytes) { return listing.take(*reply_of(bytes), 1); };
  EXPECT_TRUE(answer("*2\r\n$1\r\n5\r\n*3\r\n$7\r\np:idx:b\r\n$7\r\np:idx:a\r\n$7\r\np:idx:b\r\n"));
  EXPECT_FALSE(answer("*1\r\n$1\r\n0\r\n"));
  EXPECT_FALSE(answer("-NOPERM this user has no permissions to run the 'scan' command\r\n"));
  ASSERT_EQ(arguments_of(*listing.command(redis::By::sha)).at(1), "5") << "as if they had not come";
  EXPECT_TRUE(answer("*2\r\n$1\r\n0\r\n*2\r\n$7\r\np:idx:a\r\n$7\r\np:idx:c\r\n"));
  EXPECT_FALSE(listing.command(redis::By::sha));
  const auto page = std::move(listing).page();
  EXPECT_EQ(page.owners, (Names{"a", "b"}));
  EXPECT_EQ(page.cursor, ">b");
}

}  // namespace
}  // namespace holdfast::test
