// Records in Redis beside pmcp-tasks: its scripts and ours give the same answers and leave the same data,
// what it writes is read, and what we write satisfies its reader.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/redis/record_commands.hpp"
#include "support/paths.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/seeded.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using redis::By;

std::string documented(const std::string& name) {
  std::ifstream file(vectors_dir() + "/pmcp/" + name + ".lua");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) throw std::runtime_error("no documented script " + name);
  return text.str();
}

class RedisStorageDocumented : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    raw.emplace(server->unix_socket());
    backend = make_redis_storage_backend(server->tcp()).value_or_throw();
  }

  std::map<std::string, std::string> hash(const std::string& name) {
    std::map<std::string, std::string> fields;
    const auto reply = raw->command({"HGETALL", name});
    const auto parts = redis::elements_of(*reply);
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      fields[std::string(redis::text_of(*parts[i]))] = std::string(redis::text_of(*parts[i + 1]));
    }
    return fields;
  }
  /// What pmcp-tasks knows of one.
  std::map<std::string, std::string> documented_fields(const std::string& name) {
    auto fields = hash(name);
    std::erase_if(fields, [](const auto& field) {
      return field.first != "version" && field.first != "data" && field.first != "expires_at";
    });
    return fields;
  }
  /// As another writer creates one.
  void write_by_hand(const std::string& task, const std::string& version, const std::string& data,
                     const std::string& score = "0") {
    raw->text({"HSET", "pmcp:tasks:o:" + task, "version", version, "data", data});
    raw->text({"ZADD", "pmcp:idx:o", score, task});
  }
  std::int64_t now_s() { return now_ms(*backend) / 1000; }

  std::optional<RedisServer> server;
  std::optional<RawRedis> raw;
  std::shared_ptr<StorageBackend> backend;
};

/// Numbers of an answer: the first two, which are all that the documented ones have.
std::vector<std::int64_t> codes(const redis::Reply& reply) {
  if (const auto code = redis::integer_of(*reply)) return {*code};
  std::vector<std::int64_t> numbers;
  for (const auto* part : redis::elements_of(*reply).first(std::min<std::size_t>(2, reply->elements))) {
    if (const auto number = redis::integer_of(*part)) numbers.push_back(*number);
  }
  return numbers;
}

TEST_F(RedisStorageDocumented, OnTheSameInputsOurScriptsAnswerAndLeaveWhatTheDocumentedOnesDo) {
  const auto layout = redis::StorageLayout::make("ours", 0).value_or_throw();
  const std::string put = documented("put"), put_if = documented("put_if_version"),
                    remove = documented("delete");
  Seeded random;
  SCOPED_TRACE(random.seed());
  std::map<std::string, int> met;
  for (int step = 0; step < 600; ++step) {
    const std::string task = "t" + std::to_string(random.below(3));
    const auto key = record_key("o:" + task);
    RecordParts parts{.created_at = static_cast<std::int64_t>(random.below(2'000'000'000'000)),
                      .note = std::string(random.below(40), 'x') + "\"';{}\n"};
    std::string expires_at;
    if (random.below(2) == 0) {
      const auto seconds = now_s() + 1000 + static_cast<std::int64_t>(random.below(1000));
      parts.expires_at = seconds * 1000;
      expires_at = std::to_string(seconds);
    }
    const auto data = record_data(record_text(parts));
    const auto score = std::to_string(parts.created_at);
    const std::string their_hash = "theirs:tasks:o:" + task, their_index = "theirs:idx:o";
    const auto id = std::string(LockId::generate().str());
    redis::Reply theirs, ours;
    std::string what;
    switch (random.below(4)) {
      case 0:
        what = "put";
        theirs =
            raw->command({"EVAL", put, "2", their_hash, their_index, data.text(), expires_at, task, score});
        ours = raw->command(arguments_of(put_command(layout, {.key = key, .data = data}, id, By::text)));
        ASSERT_EQ(codes(ours)[0], codes(theirs)[0]) << "step " << step;
        break;
      case 1:
      case 2: {
        const auto there = documented_fields(their_hash);
        const auto version = there.contains("version") ? std::stoull(there.at("version")) : 1;
        const auto expected = version + (random.below(3) == 0 ? random.below(3) : 0);
        theirs = raw->command({"EVAL", put_if, "2", their_hash, their_index, data.text(),
                               std::to_string(expected), expires_at, task, score});
        ours = raw->command(arguments_of(
            put_command(layout, {.key = key, .data = data, .expected = ExpectedVersion{.version = expected}},
                        id, By::text)));
        ASSERT_EQ(codes(ours), codes(theirs)) << "step " << step;
        what = "put_if_version " + std::to_string(codes(theirs)[0]);
        break;
      }
      default:
        theirs = raw->command({"EVAL", remove, "2", their_hash, their_index, task});
        ours = raw->command(arguments_of(remove_command(layout, {.key = key}, "g", By::text)));
        ASSERT_EQ(codes(ours), codes(theirs)) << "step " << step;
        what = "delete " + std::to_string(codes(theirs)[0]);
    }
    ++met[what];
    for (const std::string name : {"t0", "t1", "t2"}) {
      ASSERT_EQ(documented_fields("ours:tasks:o:" + name), documented_fields("theirs:tasks:o:" + name))
          << "step " << step << ": " << what;
      const auto end = raw->integer({"PEXPIRETIME", "theirs:tasks:o:" + name});
      const auto our_end = raw->integer({"PEXPIRETIME", "ours:tasks:o:" + name});
      // Redis drops a key after the millisecond it was told: ours is told the one before.
      ASSERT_EQ(our_end, end > 0 ? end - 1 : end) << "step " << step << ": " << what;
    }
    ASSERT_EQ(raw->text({"ZRANGE", "ours:idx:o", "0", "-1", "WITHSCORES"}),
              raw->text({"ZRANGE", "theirs:idx:o", "0", "-1", "WITHSCORES"}))
        << "step " << step << ": " << what;
  }
  for (const std::string kind :
       {"put", "put_if_version 1", "put_if_version 0", "put_if_version -1", "delete 1", "delete 0"}) {
    EXPECT_GT(met[kind], 0) << kind;
  }
}

TEST_F(RedisStorageDocumented, WhatAnotherWritesIsRead) {
  write_by_hand("plain", "7", "{\"a\":1}");
  write_by_hand("ends", "1", "text", "1700000000000");
  raw->text({"HSET", "pmcp:tasks:o:ends", "expires_at", std::to_string(now_s() + 100)});
  raw->text({"EXPIREAT", "pmcp:tasks:o:ends", std::to_string(now_s() + 100)});
  const auto plain = get(*backend, "o:plain");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->data, "{\"a\":1}");
  EXPECT_EQ(plain->version, 7U);
  EXPECT_FALSE(plain->bound_to);
  EXPECT_EQ(plain->origin, "");
  EXPECT_NE(plain->incarnation, get(*backend, "o:ends")->incarnation);
  const auto page = outcome(*backend, ListRecords{.prefix = "o:"});
  ASSERT_EQ(page.records.size(), 2U);
  EXPECT_EQ(page.records[0].key.str(), "o:plain");
  EXPECT_EQ(to_ms(page.records[0].created_at), 0);
  EXPECT_EQ(to_ms(page.records[1].created_at), 1'700'000'000'000);
  EXPECT_EQ(page.records[1].record.data, "text");
}

TEST_F(RedisStorageDocumented, ARecordPastItsExpiresAtIsAbsentThoughItIsThere) {
  write_by_hand("late", "3", "{}");
  raw->text({"HSET", "pmcp:tasks:o:late", "expires_at", std::to_string(now_s() - 1), "fence",
             "000000000000009", "origin", "old"});
  EXPECT_FALSE(get(*backend, "o:late"));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*backend, PutRecord{.key = record_key("o:late"),
                                  .data = record_data("{}"),
                                  .expected = ExpectedVersion{.version = 3}})));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(
      outcome(*backend, BindRecord{.key = record_key("o:late"), .fence = token(1)})));
  EXPECT_FALSE(remove(*backend, "o:late"));
  write_by_hand("late", "3", "{}");
  raw->text({"HSET", "pmcp:tasks:o:late", "expires_at", std::to_string(now_s() - 1), "fence",
             "000000000000009", "origin", "old"});
  EXPECT_TRUE(tasks_of(*backend, "o").empty());
  EXPECT_EQ(raw->text({"ZCARD", "pmcp:idx:o"}), "0") << "a list cleans up";
  EXPECT_EQ(put(*backend, "o:late").version, 1U);
  auto fields = hash("pmcp:tasks:o:late");
  EXPECT_EQ(fields.size(), 4U) << "nothing of the old one is left: version, data, incarnation, write";
  EXPECT_FALSE(fields.contains("origin"));
}

TEST_F(RedisStorageDocumented, ChangesByAnotherWriterKeepTheRecordAndCountOn) {
  const auto created = create(*backend, "o:t");
  raw->text({"EVAL", documented("put"), "2", "pmcp:tasks:o:t", "pmcp:idx:o", "theirs", "", "t", "0"});
  const auto seen = get(*backend, "o:t");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->version, 2U);
  EXPECT_EQ(seen->data, "theirs");
  EXPECT_EQ(seen->incarnation, created.incarnation) << "it is the same record";
  const auto written = outcome(
      *backend, PutRecord{.key = record_key("o:t"),
                          .data = record_data("ours"),
                          .expected = ExpectedVersion{.version = 2, .incarnation = created.incarnation}});
  EXPECT_EQ(std::get<Written>(written).version, 3U);
}

TEST_F(RedisStorageDocumented, ARecordThatAnotherDeletedAndCreatedAgainIsNotTheOneExpected) {
  const auto created = create(*backend, "o:t", "{\"a\":1}");
  ASSERT_EQ(raw->integer({"EVAL", documented("delete"), "2", "pmcp:tasks:o:t", "pmcp:idx:o", "t"}), 1);
  raw->text({"EVAL", documented("put"), "2", "pmcp:tasks:o:t", "pmcp:idx:o", "{\"a\":1}", "", "t", "0"});
  const auto refused = outcome(
      *backend, PutRecord{.key = record_key("o:t"),
                          .data = record_data("{}"),
                          .expected = ExpectedVersion{.version = 1, .incarnation = created.incarnation}});
  ASSERT_TRUE(std::holds_alternative<VersionConflict>(refused));
  EXPECT_TRUE(std::get<VersionConflict>(refused).replaced);
  // What was read of a record of another writer can be expected too, until that one changes it.
  const auto theirs = get(*backend, "o:t");
  ASSERT_TRUE(theirs);
  raw->text({"EVAL", documented("delete"), "2", "pmcp:tasks:o:t", "pmcp:idx:o", "t"});
  raw->text({"EVAL", documented("put"), "2", "pmcp:tasks:o:t", "pmcp:idx:o", "{\"b\":1}", "", "t", "0"});
  const ExpectedVersion as_read{.version = 1, .incarnation = theirs->incarnation};
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(outcome(
      *backend, PutRecord{.key = record_key("o:t"), .data = record_data("{}"), .expected = as_read})));
  const auto now = get(*backend, "o:t");
  const auto written = outcome(
      *backend, PutRecord{.key = record_key("o:t"),
                          .data = record_data("{}"),
                          .expected = ExpectedVersion{.version = 1, .incarnation = now->incarnation}});
  ASSERT_TRUE(std::holds_alternative<Written>(written));
  EXPECT_EQ(std::get<Written>(written).version, 2U);
  EXPECT_EQ(get(*backend, "o:t")->incarnation, std::get<Written>(written).incarnation) << "now it has one";
}

TEST_F(RedisStorageDocumented, WhatWeWriteSatisfiesTheDocumentedReader) {
  const auto ends_ms = now_ms(*backend) + 100'500;
  const auto text = record_text({.created_at = 1'700'000'000'123, .expires_at = ends_ms, .note = "n"});
  outcome(*backend, CreateRecord{.key = record_key("o:a:b"),
                                 .data = record_data(text),
                                 .quota = 5,
                                 .origin = "origin",
                                 .fence = token(3)});
  auto fields = hash("pmcp:tasks:o:a:b");
  EXPECT_EQ(fields["version"], "1");
  EXPECT_EQ(fields["data"], text);
  const auto expires_at = std::stoll(fields["expires_at"]);
  EXPECT_GE(expires_at * 1000, ends_ms);
  EXPECT_LT(expires_at * 1000, ends_ms + 1000);
  EXPECT_EQ(raw->integer({"PEXPIRETIME", "pmcp:tasks:o:a:b"}), ends_ms - 1);
  EXPECT_EQ(raw->text({"ZRANGE", "pmcp:idx:o", "0", "-1", "WITHSCORES"}), "a:b\n1700000000123");
  // Without a TTL the field goes, and so does Redis' own.
  put(*backend, "o:a:b", "{}");
  fields = hash("pmcp:tasks:o:a:b");
  EXPECT_FALSE(fields.contains("expires_at"));
  EXPECT_EQ(fields["version"], "2");
  EXPECT_EQ(raw->integer({"PTTL", "pmcp:tasks:o:a:b"}), -1);
  EXPECT_EQ(raw->text({"ZSCORE", "pmcp:idx:o", "a:b"}), "1700000000123") << "its place stays";
  EXPECT_EQ(fields["fence"], "000000000000003");
}

TEST_F(RedisStorageDocumented, StoredDataThatIsNoRecordIsInternalAndLeftAlone) {
  const std::vector<std::vector<std::string>> broken = {
      {"data", "{}"},
      {"version", "1"},
      {"version", "x", "data", "{}"},
      {"version", "-1", "data", "{}"},
      {"version", "1.5", "data", "{}"},
      {"version", "", "data", "{}"},
      {"version", "9007199254740993", "data", "{}"},
      {"version", "1", "data", "{}", "expires_at", "soon"},
      {"version", "1", "data", "{}", "fence", "000000000000001"},
      {"version", "1", "data", "{}", "fence", "1", "fence_authority", "a", "fence_key", "k"},
      {"other", "field"},
  };
  for (const auto& fields : broken) {
    std::vector<std::string> command{"HSET", "pmcp:tasks:o:t"};
    command.insert(command.end(), fields.begin(), fields.end());
    raw->text({"DEL", "pmcp:tasks:o:t"});
    raw->text(command);
    raw->text({"ZADD", "pmcp:idx:o", "0", "t"});
    const auto before = hash("pmcp:tasks:o:t");
    const auto key = record_key("o:t");
    const auto data = record_data("{}");
    const auto expect_internal = [&](const auto& result, std::string_view what) {
      ASSERT_FALSE(result) << what << ' ' << fields[0];
      EXPECT_EQ(result.error().code(), ErrorCode::Internal) << what;
      EXPECT_EQ(result.error().key(), "o:t") << what;
    };
    expect_internal(call(*backend, GetRecord{.key = key}), "get");
    expect_internal(call(*backend, CreateRecord{.key = key, .data = data}), "create");
    expect_internal(call(*backend, PutRecord{.key = key, .data = data}), "put");
    expect_internal(
        call(*backend, PutRecord{.key = key, .data = data, .expected = ExpectedVersion{.version = 1}}),
        "put_if_version");
    expect_internal(call(*backend, BindRecord{.key = key, .fence = token(5)}), "guard");
    expect_internal(call(*backend, RemoveRecord{.key = key, .fence = token(5)}), "fenced remove");
    const auto page = call(*backend, ListRecords{.prefix = "o:"}).value_or_throw();
    EXPECT_TRUE(page.records.empty());
    ASSERT_EQ(page.unreadable.size(), 1U) << fields[0];
    EXPECT_EQ(page.unreadable[0].task, "t");
    EXPECT_EQ(page.unreadable[0].why.code(), ErrorCode::Internal);
    EXPECT_EQ(hash("pmcp:tasks:o:t"), before);
    EXPECT_TRUE(remove(*backend, "o:t")) << "that is how one gets rid of it";
  }
}

TEST_F(RedisStorageDocumented, AListNamesWhatItCannotReadAndGivesTheRest) {
  write_by_hand("good1", "1", "{}", "1");
  write_by_hand("bad2", "x", "{}", "2");
  raw->text({"SET", "pmcp:tasks:o:text3", "text"});
  raw->text({"ZADD", "pmcp:idx:o", "3", "text3"});
  raw->text({"ZADD", "pmcp:idx:o", "4", "gone4"});
  write_by_hand("nowhere5", "1", "{}", "5.5");
  write_by_hand("nowhere6", "1", "{}", "6.5");
  write_by_hand("good7", "1", "{}", "7");
  write_by_hand(
      "\xFF"
      "8",
      "1", "{}", "8");
  write_by_hand("nowhere9", "x", "{}", "9.5");
  write_by_hand(std::string(1030, 'l'), "1", "{}", "10");

  std::vector<std::string> expected{"good1",
                                    "!bad2",
                                    "!text3",
                                    "!nowhere5",
                                    "!nowhere6",
                                    "good7",
                                    "!\xFF"
                                    "8",
                                    "!nowhere9",
                                    '!' + std::string(1030, 'l')};
  for (const auto order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    for (const std::size_t limit : {1U, 2U, 3U, 50U}) {
      std::vector<std::string> seen;
      ListRecords request{.prefix = "o:", .limit = limit, .order = order};
      for (int pages = 0; pages < 20; ++pages) {
        const auto page = call(*backend, request).value_or_throw();
        for (std::size_t i = 0; i <= page.records.size(); ++i) {
          for (const auto& unreadable : page.unreadable) {
            if (unreadable.follows == i) seen.push_back('!' + unreadable.task);
          }
          if (i < page.records.size()) seen.emplace_back(page.records[i].key.task());
        }
        EXPECT_LE(page.records.size(), limit);
        if (!page.next) break;
        request.after = page.next;
      }
      EXPECT_EQ(seen, expected) << limit;
    }
    std::ranges::reverse(expected);
  }
  EXPECT_EQ(raw->integer({"ZCARD", "pmcp:idx:o"}), 9) << "only the dead one is removed";
}

TEST_F(RedisStorageDocumented, AnOwnerWhoseKeysAreTooLongIsToldSo) {
  const std::string owner(1000, 'o');
  const std::string task = "0123456789012345678901234567890123456";
  raw->text({"HSET", "pmcp:tasks:" + owner + ":" + task, "version", "1", "data", "{}"});
  raw->text({"ZADD", "pmcp:idx:" + owner, "0", task});
  const auto page = call(*backend, ListRecords{.prefix = owner + ":"}).value_or_throw();
  ASSERT_EQ(page.unreadable.size(), 1U);
  EXPECT_EQ(page.unreadable[0].task, task);
  EXPECT_NE(page.unreadable[0].why.message().find("1038 bytes"), std::string::npos)
      << page.unreadable[0].why.message();
}

TEST_F(RedisStorageDocumented, MembersWithoutAPlaceEndAListOnlyByTheThousand) {
  std::vector<std::string> command{"ZADD", "pmcp:idx:o"};
  for (int i = 0; i < 1200; ++i) {
    const auto task = "t" + std::to_string(i);
    raw->text({"HSET", "pmcp:tasks:o:" + task, "version", "1", "data", "{}"});
    command.insert(command.end(), {"0.5", task});
  }
  raw->text(command);
  const auto page = call(*backend, ListRecords{.prefix = "o:", .limit = 10});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), ErrorCode::Internal);
}

TEST_F(RedisStorageDocumented, AValueOfAnotherTypeIsRefusedBeforeAnythingIsChanged) {
  raw->text({"SET", "pmcp:tasks:o:t", "text"});
  EXPECT_EQ(call(*backend, GetRecord{.key = record_key("o:t")}).error().code(), ErrorCode::InvalidArgument);
  raw->text({"SET", "pmcp:idx:p", "text"});
  const auto refused = call(*backend, CreateRecord{.key = record_key("p:t"), .data = record_data("{}")});
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(raw->integer({"EXISTS", "pmcp:tasks:p:t"}), 0);
}

}  // namespace
}  // namespace holdfast::test
