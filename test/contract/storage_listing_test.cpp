// Lists: order, pages, and whose records they show.

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "contract/storage_contract.hpp"

namespace holdfast::test {
namespace {

using Names = std::vector<std::string>;

class StorageListing : public StorageContract {
 protected:
  void create_at(std::int64_t created_at, const std::string& task, const std::string& owner = "o") const {
    create(*mine, owner + ":" + task, record_text({.created_at = created_at, .note = task}));
  }
  RecordPage page(std::size_t limit, std::optional<ListPosition> after = {},
                  ListOrder order = ListOrder::oldest_first) const {
    return outcome(*theirs,
                   ListRecords{.prefix = "o:", .after = std::move(after), .limit = limit, .order = order});
  }
  static Names names(const RecordPage& page) {
    Names found;
    for (const auto& listed : page.records) found.emplace_back(listed.key.task());
    return found;
  }
};

TEST_P(StorageListing, IsByTimeOfCreationThenByNameByteByByte) {
  create_at(3000, "a");
  create_at(1000, "z");
  create_at(2000, "b");
  create_at(2000, "é");
  create_at(2000, "B");
  create_at(2000, "ba");
  create_at(2000, "");
  create_at(2000, std::string("b\0", 2));
  create_at(2000, "10");
  create_at(2000, "9");
  const Names ascending = {"z", "", "10", "9", "B", "b", std::string("b\0", 2), "ba", "é", "a"};
  const Names descending(ascending.rbegin(), ascending.rend());
  for (const std::size_t page_size : {1U, 3U, 50U}) {
    EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::oldest_first, page_size), ascending) << page_size;
    EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::newest_first, page_size), descending) << page_size;
  }
}

TEST_P(StorageListing, ShowsTheWholeRecord) {
  const auto text = record_text({.created_at = 1'700'000'000'123, .note = "\"\n\\é"});
  const auto created = std::get<Written>(outcome(
      *mine,
      CreateRecord{
          .key = record_key("o:t"), .data = record_data(text), .origin = "request", .fence = token(4)}));
  const auto found = page(10);
  ASSERT_EQ(found.records.size(), 1U);
  EXPECT_EQ(found.next, std::nullopt);
  const auto& listed = found.records[0];
  EXPECT_EQ(listed.key, record_key("o:t"));
  EXPECT_EQ(to_ms(listed.created_at), 1'700'000'000'123);
  EXPECT_EQ(listed.record.data, text);
  EXPECT_EQ(listed.record.version, 1U);
  EXPECT_EQ(listed.record.incarnation, created.incarnation);
  EXPECT_EQ(listed.record.bound_to, token(4));
  EXPECT_EQ(listed.record.origin, "request");
}

TEST_P(StorageListing, ARecordWithoutATimeOfCreationComesFirst) {
  create_at(1, "early");
  put(*mine, "o:unknown", "no JSON");
  put(*mine, "o:another", "{}");
  EXPECT_EQ(tasks_of(*theirs, "o"), (Names{"another", "unknown", "early"}));
  EXPECT_EQ(to_ms(page(1).records.at(0).created_at), 0);
}

TEST_P(StorageListing, AWriteDoesNotMoveARecord) {
  create_at(1000, "a");
  create_at(2000, "b");
  put(*mine, "o:a", record_text({.created_at = 9000}));
  put(*mine, "o:b", "no JSON");
  EXPECT_EQ(tasks_of(*theirs, "o"), (Names{"a", "b"}));
  EXPECT_EQ(to_ms(page(1).records.at(0).created_at), 1000);
}

TEST_P(StorageListing, ARecordThatWasRemovedAndCreatedAgainHasItsNewPlace) {
  create_at(1000, "a");
  create_at(2000, "b");
  remove(*mine, "o:a");
  create_at(3000, "a");
  EXPECT_EQ(tasks_of(*theirs, "o"), (Names{"b", "a"}));
}

TEST_P(StorageListing, APageHoldsAsManyAsAskedAndSaysWhereTheNextGoesOn) {
  for (int i = 0; i < 5; ++i) create_at(1000 + i, std::to_string(i));
  const auto first = page(2);
  EXPECT_EQ(names(first), (Names{"0", "1"}));
  ASSERT_EQ(first.next, (ListPosition{.created_at = from_ms(1001), .task = "1"}));
  const auto second = page(2, first.next);
  EXPECT_EQ(names(second), (Names{"2", "3"}));
  const auto third = page(2, second.next);
  EXPECT_EQ(names(third), (Names{"4"}));
  EXPECT_EQ(third.next, std::nullopt);
}

TEST_P(StorageListing, TheLimitIsClamped) {
  for (int i = 0; i < 3; ++i) create_at(1000 + i, std::to_string(i));
  EXPECT_EQ(names(page(0)), Names{"0"});
  EXPECT_EQ(page(max_record_page + 1).records.size(), 3U);
  EXPECT_EQ(page(std::numeric_limits<std::size_t>::max()).records.size(), 3U);
}

TEST_P(StorageListing, PagesNeitherRepeatNorSkipWhileRecordsComeAndGo) {
  for (const auto order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    for (int i = 10; i < 30; ++i)
      put(*mine, "o:" + std::to_string(i), record_text({.created_at = 1000 + i / 3}));
    std::set<std::string> removed;
    Names listed;
    std::optional<ListPosition> after;
    int pages = 0;
    do {
      const auto found = page(3, after, order);
      const auto shown = names(found);
      listed.insert(listed.end(), shown.begin(), shown.end());
      after = found.next;
      ++pages;
      ASSERT_LE(pages, 40);
      if (!after) break;
      // The very record at which the next page goes on, one that was listed and one that was not (maybe).
      for (const auto& task : {after->task, shown.front(), std::to_string(10 + pages * 2)}) {
        remove(*mine, "o:" + task);
        removed.insert(task);
      }
      // Behind us, ahead of us, and right where we are.
      create_at(1, "behind " + std::to_string(pages));
      create_at(9000, "ahead " + std::to_string(pages));
      create_at(to_ms(after->created_at), after->task + "+");
    } while (after);
    for (int i = 10; i < 30; ++i) {
      const auto task = std::to_string(i);
      const auto times = std::count(listed.begin(), listed.end(), task);
      if (removed.contains(task)) {
        EXPECT_LE(times, 1) << task;
      } else {
        EXPECT_EQ(times, 1) << task;
      }
    }
    EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()).size(), listed.size()) << "none twice";
    for (const auto& task : tasks_of(*mine, "o")) remove(*mine, "o:" + task);
  }
}

TEST_P(StorageListing, ARecordThatIsThereThroughoutIsListedOnceWhileOthersComeAndGo) {
  Names lasting;
  for (int i = 10; i < 30; ++i) {
    lasting.push_back(std::to_string(i));
    create_at(1000 + i / 5, lasting.back());
  }
  std::jthread churn([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      put(*mine, "o:" + std::to_string(10 + i % 20) + "+", record_text({.created_at = 1000 + i % 7}));
      remove(*mine, "o:" + std::to_string(10 + i * 3 % 20) + "+");
    }
  });
  for (int round = 0; round < 15; ++round) {
    const auto order = round % 2 == 0 ? ListOrder::oldest_first : ListOrder::newest_first;
    auto listed = tasks_of(*theirs, "o", order, 3);
    std::erase_if(listed, [](const std::string& task) { return task.ends_with('+'); });
    std::sort(listed.begin(), listed.end());
    EXPECT_EQ(listed, lasting) << round;
  }
}

TEST_P(StorageListing, GoesOnBehindAPlaceWhereNoRecordEverWas) {
  create_at(1000, "a");
  create_at(2000, "b");
  create_at(3000, "c");
  EXPECT_EQ(names(page(9, ListPosition{from_ms(1500), "zzz"})), (Names{"b", "c"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "a"})), (Names{"b", "c"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "b"})), (Names{"c"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "c"})), (Names{"c"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(9000), ""})), Names{});
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "a"}, ListOrder::newest_first)), (Names{"a"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "b"}, ListOrder::newest_first)), (Names{"a"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(2000), "c"}, ListOrder::newest_first)), (Names{"b", "a"}));
  EXPECT_EQ(names(page(9, ListPosition{from_ms(0), ""}, ListOrder::newest_first)), Names{});
}

TEST_P(StorageListing, ManyRecordsOfOneMillisecondAreListedPageByPage) {
  Names all;
  for (int i = 100; i < 220; ++i) {
    all.push_back(std::to_string(i));
    create_at(5000, all.back());
  }
  EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::oldest_first, 7), all);
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::newest_first, 7), all);
}

TEST_P(StorageListing, ExpiredRecordsLeaveNoHoles) {
  const auto soon = now_ms(*mine) + 700;
  for (int i = 10; i < 30; ++i) {
    const bool brief = i % 2 == 0 || i < 20;
    create(*mine, "o:" + std::to_string(i),
           record_text({.created_at = i, .expires_at = brief ? std::optional(soon) : std::nullopt}));
  }
  world->reach(soon);
  EXPECT_EQ(names(page(3)), (Names{"21", "23", "25"}));
  EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::oldest_first, 2), (Names{"21", "23", "25", "27", "29"}));
  EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::newest_first, 2), (Names{"29", "27", "25", "23", "21"}));
}

TEST_P(StorageListing, OwnersDoNotSeeEachOther) {
  const Names owners = {"a",
                        "a%3Ab",
                        "ab",
                        "A",
                        "",
                        "a*",
                        "a?",
                        "[ab]",
                        "{a}",
                        "*",
                        "a b",
                        "a\n",
                        "a\"",
                        "a'b",
                        "a_b",
                        "a\\b",
                        "é",
                        "e\xCC\x81",
                        std::string("a\0b", 3),
                        "idx",
                        "tasks"};
  for (const auto& owner : owners) {
    create(*mine, owner + ":t", "of " + owner);
    create(*mine, owner + ":b:t", "of " + owner);
  }
  for (const auto& owner : owners) {
    const auto found = outcome(*theirs, ListRecords{.prefix = owner + ":"});
    EXPECT_EQ(names(found), (Names{"b:t", "t"})) << owner;
    for (const auto& listed : found.records) {
      EXPECT_EQ(listed.key.owner(), owner);
      EXPECT_EQ(listed.record.data, "of " + owner);
    }
  }
  EXPECT_TRUE(tasks_of(*theirs, "nobody").empty());
}

TEST_P(StorageListing, TasksMayHaveAnyName) {
  const Names tasks = {"",
                       "a",
                       "a:b",
                       ":",
                       "::",
                       "a%3Ab",
                       "%",
                       "*",
                       "?",
                       "[a-z]",
                       "{",
                       "}",
                       "{a}",
                       "\"",
                       "'",
                       "\\",
                       "\n",
                       "\r\n",
                       "\t",
                       " ",
                       "é鍵🔒",
                       "e\xCC\x81",
                       "\xC3\xA9",
                       std::string("\0", 1),
                       std::string("a\0b", 3),
                       "-inf",
                       "+inf",
                       "(1",
                       "[a",
                       "idx",
                       "1e5",
                       "0",
                       "00",
                       std::string(1000, 'x')};
  for (const auto& task : tasks) create(*mine, "o:" + task, "data of " + task);
  for (const auto& task : tasks) {
    ASSERT_TRUE(get(*theirs, "o:" + task)) << task;
    EXPECT_EQ(get(*theirs, "o:" + task)->data, "data of " + task);
  }
  auto sorted = tasks;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(tasks_of(*theirs, "o", ListOrder::oldest_first, 4), sorted);
  for (const auto& task : tasks) EXPECT_TRUE(remove(*theirs, "o:" + task)) << task;
  EXPECT_TRUE(tasks_of(*mine, "o").empty());
}

TEST_P(StorageListing, AnOwnerAndATaskTogetherMayBeAsLongAsTheLimit) {
  const std::string owner(RecordKey::max_bytes - 2, 'o');
  create(*mine, owner + ":t", "data");
  EXPECT_EQ(get(*theirs, owner + ":t")->data, "data");
  EXPECT_EQ(tasks_of(*theirs, owner), Names{"t"});
}

TEST_P(StorageListing, APrefixThatIsNoOwnerAndAColonIsInvalidArgument) {
  create(*mine, "o:t:u");
  for (const char* prefix : {"", "o", "o:t", "o:t:", "\xFF:"}) {
    const auto refused = call(*mine, ListRecords{.prefix = prefix});
    ASSERT_FALSE(refused) << prefix;
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument) << prefix;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageListing, testing::ValuesIn(storage_engines()), engine_name);

/// Much of something: too much for a connection that does not live long.
class StorageLargeRecords : public StorageContract {};

TEST_P(StorageLargeRecords, AMegabyteComesBackByteForByte) {
  std::string text;
  while (text.size() < std::size_t{1024} * 1024)
    text += "\"\\\n\r\t\x01{}[]*?é鍵🔒" + std::to_string(text.size());
  text[8] = '\0';
  create(*mine, "o:t", text);
  EXPECT_TRUE(get(*theirs, "o:t")->data == text);
  EXPECT_TRUE(outcome(*theirs, ListRecords{.prefix = "o:"}).records.at(0).record.data == text);
  text += "more";
  put(*theirs, "o:t", text);
  EXPECT_TRUE(get(*mine, "o:t")->data == text);
}

TEST_P(StorageLargeRecords, TheLargestIsKept) {
  const std::string text(RecordData::max_bytes, 'x');
  create(*mine, "o:t", text);
  EXPECT_TRUE(get(*theirs, "o:t")->data == text);
}

TEST_P(StorageLargeRecords, APageHoldsAThousandAtMost) {
  for (std::size_t i = 0; i <= max_record_page; ++i) create(*mine, "o:" + std::to_string(i));
  const auto first = outcome(*theirs, ListRecords{.prefix = "o:", .limit = 5 * max_record_page});
  EXPECT_EQ(first.records.size(), max_record_page);
  const auto second =
      outcome(*theirs, ListRecords{.prefix = "o:", .after = first.next, .limit = 5 * max_record_page});
  EXPECT_EQ(second.records.size(), 1U);
  EXPECT_EQ(second.next, std::nullopt);
}

TEST_P(StorageLargeRecords, APageEndsEarlyRatherThanHoldTooMuch) {
  constexpr std::size_t each = std::size_t{3} * 1024 * 1024;
  for (int i = 0; i < 5; ++i) create(*mine, "o:" + std::to_string(i), std::string(each, 'x'));
  const auto first = outcome(*theirs, ListRecords{.prefix = "o:", .limit = 50});
  EXPECT_EQ(first.records.size(), max_record_page_bytes / each);
  ASSERT_TRUE(first.next);
  for (const auto order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    auto all = tasks_of(*theirs, "o", order);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (Names{"0", "1", "2", "3", "4"}));
  }
}

TEST_P(StorageLargeRecords, APageHoldsOneAtLeast) {
  constexpr std::size_t each = max_record_page_bytes + 1;
  for (int i = 0; i < 2; ++i) create(*mine, "o:" + std::to_string(i), std::string(each, 'x'));
  const auto first = outcome(*theirs, ListRecords{.prefix = "o:", .limit = 50});
  EXPECT_EQ(first.records.size(), 1U);
  EXPECT_EQ(tasks_of(*theirs, "o"), (Names{"0", "1"}));
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageLargeRecords, testing::ValuesIn(undisturbed_storage_engines()),
                         engine_name);

}  // namespace
}  // namespace holdfast::test
