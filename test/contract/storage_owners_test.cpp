// The list of owners: everybody who has records, once.

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "contract/storage_contract.hpp"

namespace holdfast::test {
namespace {

using Names = std::vector<std::string>;

class StorageOwners : public StorageContract {
 protected:
  OwnerPage page(std::size_t limit, std::string cursor = {}) const {
    return outcome(*theirs, ListOwners{.cursor = std::move(cursor), .limit = limit});
  }
  /// All of them, sorted: their order is the engine's affair.
  Names owners(std::size_t page_size = 100) const {
    auto all = owners_of(*theirs, page_size);
    std::ranges::sort(all);
    return all;
  }
};

TEST_P(StorageOwners, AnEmptyStoreHasNone) {
  const auto only = page(10);
  EXPECT_EQ(only.owners, Names{});
  EXPECT_EQ(only.cursor, "");
}

TEST_P(StorageOwners, OneIsListedOnceHoweverManyRecordsItHas) {
  for (const char* key : {"alice:1", "alice:2", "alice:2:3", "alice:"}) create(*mine, key);
  const auto only = page(1);
  EXPECT_EQ(only.owners, Names{"alice"});
  EXPECT_EQ(only.cursor, "");
}

TEST_P(StorageOwners, PagesOfAnySizeListEverybodyOnce) {
  Names everybody;
  for (int i = 100; i < 130; ++i) {
    everybody.push_back("owner-" + std::to_string(i));
    create(*mine, everybody.back() + ":t");
  }
  for (const std::size_t limit : {1U, 7U, 29U, 30U, 31U}) {
    EXPECT_EQ(owners(limit), everybody) << limit;
    const auto first = page(limit);
    EXPECT_EQ(first.owners.size(), std::min(limit, everybody.size()));
    EXPECT_EQ(first.cursor.empty(), limit >= everybody.size()) << limit;
  }
}

TEST_P(StorageOwners, MayHaveAnyNameThatAKeyCanHold) {
  Names names = {"",
                 "a",
                 "ab",
                 "A",
                 "a%3Ab",
                 "*",
                 "?",
                 "[ab]",
                 "{a}",
                 "\\",
                 " ",
                 "a b",
                 "\n",
                 "\"",
                 "'",
                 ">",
                 "é",
                 "e\xCC\x81",
                 "鍵🔒",
                 std::string("\0", 1),
                 std::string("a\0b", 3),
                 "idx",
                 "tasks",
                 std::string(RecordKey::max_bytes - 1, 'x')};
  for (const auto& name : names) create(*mine, name + ":");
  std::ranges::sort(names);
  for (const std::size_t limit : {1U, 5U, 100U}) EXPECT_EQ(owners(limit), names) << limit;
}

TEST_P(StorageOwners, WhoHasNoRecordsLeftMayBeListedAndOthersAre) {
  create(*mine, "gone:t");
  create(*mine, "here:t");
  ASSERT_TRUE(remove(*mine, "gone:t"));
  const auto end = now_ms(*mine) + 300;
  create(*mine, "expired:t", record_text({.expires_at = end}));
  world->reach(end);
  auto found = owners();
  std::erase_if(found, [](const std::string& owner) { return owner == "gone" || owner == "expired"; });
  EXPECT_EQ(found, Names{"here"});
}

TEST_P(StorageOwners, PagesNeitherRepeatNorSkipWhileOthersComeAndGo) {
  std::set<std::string> lasting;
  for (int i = 10; i < 50; ++i) {
    const auto owner = std::to_string(i);
    create(*mine, owner + ":t");
    lasting.insert(owner);
  }
  Names listed;
  std::string cursor;
  int pages = 0;
  do {
    const auto found = page(3, cursor);
    listed.insert(listed.end(), found.owners.begin(), found.owners.end());
    cursor = found.cursor;
    ASSERT_LE(++pages, 200);
    if (cursor.empty()) break;
    // The very owner at which the next page goes on, and one that may be anywhere.
    for (const auto& owner : {found.owners.back(), std::to_string(10 + pages * 2)}) {
      remove(*mine, owner + ":t");
      lasting.erase(owner);
    }
    if (pages < 20) create(*mine, found.owners.back() + "+:t");
    if (pages < 20) create(*mine, std::to_string(pages) + ".new:t");
  } while (!cursor.empty());
  const std::set<std::string> seen(listed.begin(), listed.end());
  EXPECT_EQ(seen.size(), listed.size()) << "none twice";
  EXPECT_TRUE(std::ranges::includes(seen, lasting)) << "all that were there throughout";
}

TEST_P(StorageOwners, OneThatIsThereThroughoutIsListedOnceWhileItsRecordsAndOthersComeAndGo) {
  Names lasting;
  for (int i = 10; i < 30; ++i) {
    lasting.push_back(std::to_string(i));
    create(*mine, lasting.back() + ":t");
  }
  std::jthread churn([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      put(*mine, std::to_string(10 + i % 20) + ":another");
      put(*mine, std::to_string(10 + i % 20) + "+:t");
      remove(*mine, std::to_string(10 + i * 3 % 20) + "+:t");
      remove(*mine, std::to_string(10 + i * 3 % 20) + ":another");
    }
  });
  for (int round = 0; round < 10; ++round) {
    auto listed = owners(3);
    std::erase_if(listed, [](const std::string& owner) { return owner.ends_with('+'); });
    EXPECT_EQ(listed, lasting) << round;
  }
}

TEST_P(StorageOwners, TheLimitIsClamped) {
  for (const char* key : {"a:t", "b:t", "c:t"}) create(*mine, key);
  EXPECT_EQ(page(0).owners.size(), 1U);
  EXPECT_EQ(page(max_record_page + 1).owners.size(), 3U);
  EXPECT_EQ(page(std::numeric_limits<std::size_t>::max()).owners.size(), 3U);
}

TEST_P(StorageOwners, GoOnBehindOneWhoIsGone) {
  for (const char* key : {"a:t", "b:t", "c:t", "d:t"}) create(*mine, key);
  const auto first = page(2);
  ASSERT_EQ(first.owners.size(), 2U);
  remove(*mine, first.owners.back() + ":t");
  auto all = page(9, first.cursor).owners;
  all.push_back(first.owners.front());
  all.push_back(first.owners.back());
  std::ranges::sort(all);
  EXPECT_EQ(all, (Names{"a", "b", "c", "d"}));
}

TEST_P(StorageOwners, ACursorThatIsNoneIsInvalidArgument) {
  create(*mine, "o:t");
  for (const auto& cursor :
       Names{"o", "0", "o:", ">o:", ">\xFF", "\xFF", ">" + std::string(RecordKey::max_bytes, 'x')}) {
    const auto refused = call(*mine, ListOwners{.cursor = cursor});
    ASSERT_FALSE(refused) << cursor;
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument) << cursor;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageOwners, testing::ValuesIn(storage_engines()), engine_name);

/// As many as an operator may have: too many to make where every other answer gets lost.
class StorageManyOwners : public StorageContract {};

TEST_P(StorageManyOwners, APageHoldsAThousandAtMost) {
  std::set<std::string> everybody;
  for (std::size_t i = 0; i < max_record_page + 2; ++i) {
    everybody.insert(std::to_string(i));
    create(*mine, std::to_string(i) + ":t");
  }
  const auto first = outcome(*theirs, ListOwners{.limit = 5 * max_record_page});
  EXPECT_EQ(first.owners.size(), max_record_page);
  const auto second = outcome(*theirs, ListOwners{.cursor = first.cursor, .limit = 5 * max_record_page});
  EXPECT_EQ(second.owners.size(), 2U);
  EXPECT_EQ(second.cursor, "");
  std::set<std::string> seen(first.owners.begin(), first.owners.end());
  seen.insert(second.owners.begin(), second.owners.end());
  EXPECT_EQ(seen, everybody);
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageManyOwners, testing::ValuesIn(undisturbed_storage_engines()),
                         engine_name);

}  // namespace
}  // namespace holdfast::test
