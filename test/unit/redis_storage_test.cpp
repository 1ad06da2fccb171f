// The pure parts of records in Redis: names, commands, answers, the estimate of the server's clock.

#include <gtest/gtest.h>

#include <holdfast/redis.hpp>

#include "embedded/scripts.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/server_clock.hpp"
#include "support/redis_locks.hpp"
#include "support/replies.hpp"
#include "support/storage_calls.hpp"
#include "support/times.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;
using test::arguments_of;
using test::record_data;
using test::record_key;
using test::record_text;
using test::reply_of;
using test::token;
using Words = std::vector<std::string>;

const StorageLayout& layout() {
  static const auto made = StorageLayout::make("p", 2).value_or_throw();
  return made;
}

TEST(RedisStorageLayout, NamesAreTheDocumentedOnes) {
  const auto key = record_key("owner:task:with:colons");
  EXPECT_EQ(layout().record(key), "p:tasks:owner:task:with:colons");
  EXPECT_EQ(layout().record_prefix("owner"), "p:tasks:owner:");
  EXPECT_EQ(layout().index("owner"), "p:idx:owner");
  EXPECT_EQ(layout().channel(key), "p:changed:2:owner:task:with:colons");
}

TEST(RedisStorageLayout, APrefixThatCannotBeOneIsRefused) {
  for (const std::string& prefix : {std::string(), std::string(257, 'x'), std::string("a\nb"),
                                    std::string("a\x7f"), std::string("\xff")}) {
    const auto made = StorageLayout::make(prefix, 0);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), ErrorCode::InvalidArgument);
  }
  EXPECT_TRUE(StorageLayout::make(std::string(256, 'x'), 0));
  EXPECT_TRUE(StorageLayout::make("caf\u00e9:", 0)) << "it is used as it is";
}

TEST(RedisStorageUrl, TheTaskPrefixIsAParameter) {
  const auto options = parse_redis_url("redis://h?task_prefix=my:tasks%25").value_or_throw();
  EXPECT_EQ(options.task_prefix, "my:tasks%");
  EXPECT_EQ(redis_url(options), "redis://h?task_prefix=my:tasks%25");
  EXPECT_EQ(parse_redis_url("redis://h").value_or_throw().task_prefix, "pmcp");
  EXPECT_EQ(
      make_redis_storage_backend(parse_redis_url("redis://h?task_prefix=").value_or_throw()).error().code(),
      ErrorCode::InvalidArgument);
}

TEST(RedisRecordCommands, CarryKeysAndArgumentsAsTheScriptsWantThem) {
  const auto key = record_key("o:t");
  const auto text = record_text({.created_at = 5, .expires_at = 1'700'000'000'001});
  const auto data = record_data(text);
  const std::string id = "AAAAAAAAAAAAAAAAAAAAAA";
  const auto sha = [](std::string_view lua) { return Script(lua).sha1; };
  EXPECT_EQ(arguments_of(get_command(layout(), {.key = key}, By::sha)),
            (Words{"EVALSHA", sha(embedded::task_get_lua), "1", "p:tasks:o:t"}));
  EXPECT_EQ(arguments_of(put_command(layout(), {.key = key, .data = data}, id, By::sha)),
            (Words{"EVALSHA", sha(embedded::task_put_lua), "2", "p:tasks:o:t", "p:idx:o", text, "1700000001",
                   "t", "5", "1700000000000", id, "p:changed:2:o:t", "1", "", "", ""}));
  const PutRecord conditional{.key = key,
                              .data = record_data("{}"),
                              .expected = ExpectedVersion{.version = 7, .incarnation = "inc"},
                              .fence = token(3, "lock", "authority")};
  EXPECT_EQ(
      arguments_of(put_command(layout(), conditional, id, By::sha)),
      (Words{"EVALSHA", sha(embedded::task_put_if_version_lua), "2", "p:tasks:o:t", "p:idx:o", "{}", "7", "",
             "t", "0", "inc", "", id, "p:changed:2:o:t", "authority", "lock", "000000000000003"}));
  EXPECT_EQ(
      arguments_of(create_command(
          layout(), {.key = key, .data = record_data("{}"), .quota = 9, .origin = "from"}, id, {}, By::sha)),
      (Words{"EVALSHA", sha(embedded::task_create_lua), "2", "p:tasks:o:t", "p:idx:o", "{}", "", "t", "0", "",
             id, "p:changed:2:o:t", "9", "", "from", "", "", ""}));
  EXPECT_EQ(arguments_of(create_command(layout(), {.key = key, .data = record_data("{}"), .quota = 9}, id,
                                        {.checked = "=x", .tasks = {"a", ""}}, By::sha)),
            (Words{"EVALSHA",    sha(embedded::task_create_lua),
                   "4",          "p:tasks:o:t",
                   "p:idx:o",    "p:tasks:o:a",
                   "p:tasks:o:", "{}",
                   "",           "t",
                   "0",          "",
                   id,           "p:changed:2:o:t",
                   "9",          "=x",
                   "",           "",
                   "",           "",
                   "a",          ""}));
  EXPECT_EQ(arguments_of(remove_command(layout(), {.key = key}, "c", By::sha)),
            (Words{"EVALSHA",
                   sha(embedded::task_remove_lua),
                   "9",
                   "p:queue:ready:o",
                   "p:queue:delayed:o",
                   "p:queue:leases:o",
                   "p:queue:exhausted:o",
                   "p:queue:finished:o",
                   "p:queue:settings:o",
                   "p:idx:o",
                   "p:queue:waiters:o",
                   "p:tasks:o:t",
                   "t",
                   "",
                   "",
                   "p:changed:2:o:t",
                   "",
                   "",
                   "",
                   "p:tasks:o:",
                   "p:changed:work:2:o:",
                   "c"}));
}

/// An answer of task_list: `more`, the position, and live records of these tasks.
std::string page_reply(int more, const std::string& score, const std::string& task, const Words& tasks) {
  const auto bulk = [](const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  };
  auto reply = "*" + std::to_string(3 + 10 * tasks.size()) + "\r\n:" + std::to_string(more) + "\r\n" +
               bulk(score) + bulk(task);
  for (const auto& name : tasks) {
    reply += bulk(name) + bulk("7") + ":1\r\n" + bulk("{}") + bulk("inc") + bulk("");
    for (int i = 0; i < 4; ++i) reply += "$-1\r\n";
  }
  return reply;
}

TEST(RedisRecordListing, ReadsTheIndexAndThenTheRecordsOfItsMembersAsDeclaredKeys) {
  const auto sha = [](std::string_view lua) { return Script(lua).sha1; };
  RecordListing listing({.prefix = "o:",
                         .after = ListPosition{.created_at = test::from_ms(4), .task = "a"},
                         .limit = 5000,
                         .order = ListOrder::newest_first});
  EXPECT_EQ(arguments_of(listing.command(layout(), By::sha)),
            (Words{"EVALSHA", sha(embedded::task_members_lua), "1", "p:idx:o", "1", "1001", "4", "a"}));
  ASSERT_TRUE(listing.take(*reply_of("*5\r\n:0\r\n$1\r\n3\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n")));
  EXPECT_EQ(arguments_of(listing.command(layout(), By::sha)),
            (Words{"EVALSHA", sha(embedded::task_list_lua), "3", "p:idx:o", "p:tasks:o:b", "p:tasks:o:c",
                   "1000", "8388608", "1", "0", "3", "b", "2", "c"}));
  ASSERT_TRUE(listing.take(*reply_of(page_reply(0, "2", "c", {"b", "c"}))));
  ASSERT_TRUE(listing.is_done());
  const auto page = std::move(listing).page();
  EXPECT_EQ(page.records.size(), 2U);
  EXPECT_FALSE(page.next);
}

TEST(RedisRecordListing, GoesOnBehindDeadMembersUntilThePageIsFullOrAThousandWereSeen) {
  const std::string two_members = "*5\r\n:1\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\nb\r\n";
  RecordListing listing({.prefix = "o:", .limit = 2});
  ASSERT_TRUE(listing.take(*reply_of(two_members)));
  ASSERT_TRUE(listing.take(*reply_of(page_reply(2, "2", "b", {"a"}))));
  ASSERT_FALSE(listing.is_done()) << "there is room for one more";
  auto words = arguments_of(listing.command(layout(), By::sha));
  EXPECT_EQ(Words(words.begin() + 2, words.end()), (Words{"1", "p:idx:o", "0", "1000", "2", "b"}));
  ASSERT_TRUE(listing.take(*reply_of(two_members)));
  words = arguments_of(listing.command(layout(), By::sha));
  EXPECT_EQ(Words(words.begin() + 6, words.begin() + 10), (Words{"1", "8388606", "0", "1"}));
  ASSERT_TRUE(listing.take(*reply_of(page_reply(1, "3", "c", {"c"}))));
  ASSERT_TRUE(listing.is_done());
  const auto page = std::move(listing).page();
  EXPECT_EQ(page.records.size(), 2U);
  ASSERT_TRUE(page.next);
  EXPECT_EQ(page.next->task, "c");

  // A page with a record ends after a thousand members; an empty one does not.
  for (const Words& found : {Words{"a"}, Words{}}) {
    RecordListing sparse({.prefix = "o:", .limit = 50});
    std::string many = "*2001\r\n:1\r\n";
    for (int i = 0; i < 1000; ++i) many += "$1\r\n1\r\n$1\r\nx\r\n";
    ASSERT_TRUE(sparse.take(*reply_of(many)));
    ASSERT_TRUE(sparse.take(*reply_of(page_reply(2, "1", "x", found))));
    ASSERT_FALSE(sparse.is_done());
    ASSERT_TRUE(sparse.take(*reply_of(many)));
    ASSERT_TRUE(sparse.take(*reply_of(page_reply(2, "1", "x", {}))));
    EXPECT_EQ(sparse.is_done(), !found.empty());
  }
}

TEST(RedisRecordCommands, ExpiresAtIsRoundedUpToTheSecond) {
  const auto seconds = [](std::int64_t ms) {
    const PutRecord request{.key = record_key("o:t"), .data = record_data(record_text({.expires_at = ms}))};
    return arguments_of(put_command(layout(), request, "id", By::sha))[6];
  };
  EXPECT_EQ(seconds(1000), "1");
  EXPECT_EQ(seconds(1001), "2");
  EXPECT_EQ(seconds(1999), "2");
  EXPECT_EQ(seconds(0), "0");
}

TEST(RedisRecordCommands, AnAnswerThatNoScriptGivesIsInternalAndNamesTheRecord) {
  const auto key = record_key("o:t");
  const PutRecord put{.key = key, .data = record_data("{}")};
  const PutRecord conditional{
      .key = key, .data = record_data("{}"), .expected = ExpectedVersion{.version = 1}};
  for (const std::string bytes :
       {"+OK\r\n", ":7\r\n", ":-9\r\n", "*0\r\n", "*1\r\n:1\r\n", "*2\r\n:-2\r\n$1\r\nx\r\n",
        "*2\r\n$1\r\nx\r\n:1\r\n", "*2\r\n:1\r\n$-1\r\n", "*3\r\n:0\r\n:-1\r\n$1\r\nx\r\n",
        "*4\r\n:-4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"}) {
    const auto reply = reply_of(bytes);
    const auto expect = [&](const auto& outcome, std::string_view about) {
      ASSERT_FALSE(outcome) << bytes;
      EXPECT_EQ(outcome.error().code(), ErrorCode::Internal) << bytes;
      EXPECT_EQ(outcome.error().key(), about) << bytes;
    };
    expect(get_outcome(*reply, key.str()), "o:t");
    expect(put_outcome(*reply, put), "o:t");
    expect(put_outcome(*reply, conditional), "o:t");
    expect(remove_outcome(*reply, {.key = key}), "o:t");
    expect(guard_outcome(*reply, {.key = key, .fence = token(1)}), "o:t");
    expect(rebind_outcome(*reply, {.key = key}), "o:t");
    expect(RecordListing({.prefix = "o:"}).take(*reply), "o:");
    RecordListing reading({.prefix = "o:"});
    ASSERT_TRUE(reading.take(*reply_of("*3\r\n:0\r\n$1\r\n1\r\n$1\r\na\r\n")));
    expect(reading.take(*reply), "o:");
  }
}

TEST(RedisServerClock, FollowsAnswersWithinTheirBounds) {
  const auto at = [](int ms) { return BootTime(milliseconds(ms)); };
  const auto ahead = [](const ServerClock& clock) {
    return test::to_ms(clock.now()) -
           std::chrono::floor<milliseconds>(BootClock::now().time_since_epoch()).count();
  };
  ServerClock clock;
  // Sent at 1000 and back at 1010: the server is 5000 ms ahead, 10 ms more or less.
  clock.learn(6'005, at(1000), at(1010));
  const auto first = ahead(clock);
  EXPECT_GE(first, 4'994);
  EXPECT_LE(first, 5'007);
  // A slow answer, that says nothing against it, does not move it.
  clock.learn(6'900, at(1500), at(3500));
  EXPECT_NEAR(static_cast<double>(ahead(clock)), static_cast<double>(first), 1.0);
  // The server's clock was set back: so is the estimate.
  clock.learn(1'000, at(4000), at(4001));
  EXPECT_NEAR(static_cast<double>(ahead(clock)), -3'000, 3.0);
}

}  // namespace
}  // namespace holdfast::redis
