#include <gtest/gtest.h>

#include "embedded/scripts.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_record.hpp"
#include "engine/redis/script.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/replies.hpp"
#include "support/times.hpp"

namespace holdfast::redis {
namespace {

using namespace std::string_literals;
using std::chrono::milliseconds;
using test::arguments_of;
using test::key;
using test::reply_of;
using test::ttl;
using Words = std::vector<std::string>;

class RedisCommands : public testing::Test {
 protected:
  const std::shared_ptr<const LockLayout> layout = documented_layout(Layout::make("p", 0).value_or_throw());
  const LockId id = LockId::parse("AAAAAAAAAAAAAAAAAAAAAA").value_or_throw();
  const LockRef by_key{.id = id, .key = key("k")};
  const LockRef by_id{.id = id, .key = {}};
  const AcquireRequest acquire{.id = id, .key = key("k"), .ttl = ttl(milliseconds(500))};
};

std::string sha(std::string_view text) {
  return Script(text).sha1;
}

TEST_F(RedisCommands, AScriptIsNamedByTheSha1OfItsText) {
  EXPECT_EQ(Script("return 1").sha1, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}

TEST_F(RedisCommands, CarryKeysAndArgumentsAsTheScriptsWantThem) {
  using namespace embedded;
  EXPECT_EQ(arguments_of(*layout->acquire(acquire, {}, By::sha)),
            (Words{"EVALSHA", sha(acquire_lua), "4", "p:k", "p:id:AAAAAAAAAAAAAAAAAAAAAA", "p:fence:p:k",
                   "p:fence:p:", "AAAAAAAAAAAAAAAAAAAAAA", "500", "\"k\"", "000000000000000"}));
  EXPECT_EQ(arguments_of(*layout->release(by_key, {}, Release::plain, By::sha)),
            (Words{"EVALSHA", sha(release_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA", "p:k",
                   "AAAAAAAAAAAAAAAAAAAAAA", "p:wake:0:"}));
  EXPECT_EQ(arguments_of(*layout->release(by_id, {}, Release::for_good, By::sha)),
            (Words{"EVALSHA", sha(release_for_good_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA",
                   "p:id:AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA", "p:wake:0:", "60000"}));
  EXPECT_EQ(arguments_of(*layout->release(by_key, {}, Release::by_force, By::sha)),
            (Words{"EVALSHA", sha(break_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA", "p:k",
                   "AAAAAAAAAAAAAAAAAAAAAA", "p:wake:0:", "60000", "86400000"}));
  EXPECT_EQ(arguments_of(*layout->release_evidence(by_key, {}, By::sha)),
            (Words{"EVALSHA", sha(release_evidence_lua), "3", "p:id:AAAAAAAAAAAAAAAAAAAAAA",
                   "p:fence:p:", "p:fence:p:k"}));
  EXPECT_EQ(arguments_of(*layout->release_evidence(by_id, {}, By::sha)),
            (Words{"EVALSHA", sha(release_evidence_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA", "p:fence:p:"}));
  EXPECT_EQ(arguments_of(
                *layout->command(ExtendRequest{.lock = by_id, .ttl = ttl(milliseconds(700))}, {}, By::sha)),
            (Words{"EVALSHA", sha(extend_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA",
                   "p:id:AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA", "700"}));
  EXPECT_EQ(arguments_of(*layout->command(IsLockedRequest{.key = key("k")}, {}, By::sha)),
            (Words{"EVALSHA", sha(is_locked_lua), "1", "p:k"}));
  EXPECT_EQ(arguments_of(*layout->command(LookupRequest{.what = key("k")}, {}, By::sha)),
            (Words{"EVALSHA", sha(lookup_lua), "1", "p:k"}));
  EXPECT_EQ(arguments_of(*layout->command(LookupRequest{.what = id}, {}, By::sha)),
            (Words{"EVALSHA", sha(lookup_lua), "2", "p:id:AAAAAAAAAAAAAAAAAAAAAA",
                   "p:id:AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA"}));
  EXPECT_EQ(arguments_of(*layout->cleanup(key("k"), By::sha)),
            (Words{"EVALSHA", sha(cleanup_lua), "2", "p:k", "p:k", "p:id:"}));
  EXPECT_EQ(arguments_of(layout->records(Words{"p:a", "p:b"}, By::sha)),
            (Words{"EVALSHA", sha(records_lua), "2", "p:a", "p:b"}));
}

TEST_F(RedisCommands, OfAServerWithoutClusterHaveOneKeyWhereTheScriptFindsTheOthers) {
  using namespace embedded;
  const auto single = documented_layout(Layout::make("p", 0).value_or_throw(), Reach::every_key);
  const std::string index = "p:id:AAAAAAAAAAAAAAAAAAAAAA", text = "AAAAAAAAAAAAAAAAAAAAAA";
  EXPECT_EQ(arguments_of(*single->release(by_id, {}, Release::plain, By::sha)),
            (Words{"EVALSHA", sha(release_lua), "1", index, text, "p:wake:0:"}));
  EXPECT_EQ(arguments_of(*single->release(by_key, {}, Release::plain, By::sha)),
            (Words{"EVALSHA", sha(release_lua), "2", index, "p:k", text, "p:wake:0:"}));
  EXPECT_EQ(arguments_of(*single->command(LookupRequest{.what = id}, {}, By::sha)),
            (Words{"EVALSHA", sha(lookup_lua), "1", index, text}));
  EXPECT_EQ(arguments_of(*single->cleanup(key("k"), By::sha)),
            (Words{"EVALSHA", sha(cleanup_lua), "1", "p:k", "p:id:"}));
}

TEST_F(RedisCommands, AScriptThatAsksForKeysGetsThemBehindItsOwn) {
  const auto asked = undeclared_keys(*reply_of("*3\r\n:-9\r\n$3\r\np:x\r\n$0\r\n\r\n"));
  EXPECT_EQ(asked, (Words{"p:x", ""}));
  for (const auto* other : {"*2\r\n:1\r\n$1\r\nx\r\n", "*1\r\n:-9\r\n", ":-9\r\n", "$-1\r\n"}) {
    EXPECT_TRUE(undeclared_keys(*reply_of(other)).empty()) << other;
  }
  const auto nine_keys = layout->records(Words(9, "p:k"), By::text);
  auto expected = arguments_of(nine_keys);
  expected[2] = "11";
  expected.insert(expected.end(), {"p:x", ""});
  EXPECT_EQ(arguments_of(with_keys(nine_keys, asked)), expected);
  EXPECT_EQ(with_keys(nine_keys, asked).key(), "p:k");

  const auto plain = *layout->acquire(acquire, {}, By::sha);
  auto command = with_keys(plain, asked);
  EXPECT_EQ(command.key(), plain.key());
  expected = arguments_of(plain);
  expected[2] = "6";
  expected.insert(expected.begin() + 7, {"p:x", ""});
  EXPECT_EQ(arguments_of(command), expected);
  raise_fence_floor(command.bytes, command.fence_floor_at, fence_floor_of(9));
  EXPECT_EQ(arguments_of(command).back(), "000009000000000");
}

TEST_F(RedisCommands, AnAcquireSaysNothingOfTheCountersEndUnlessItIsAsked) {
  const auto last = [&](std::optional<CounterLifetime> lifetime) {
    auto request = acquire;
    request.counter_lifetime = lifetime;
    return arguments_of(*layout->acquire(request, {}, By::sha)).back();
  };
  EXPECT_EQ(last(std::nullopt), "000000000000000") << "the floor alone";
  EXPECT_EQ(last(CounterLifetime{.until = test::from_ms(1'900'000'000'000)}), "1900000000000");
  EXPECT_EQ(last(CounterLifetime{}), "") << "forever";
}

TEST_F(RedisCommands, TheLabelOfTheHolderFollowsTheKeyInTheRecord) {
  const auto label = LockHolder::from_setting("al\"ice\n").value_or_throw();
  auto request = acquire;
  request.holder = label;
  const auto words = arguments_of(*layout->acquire(request, {}, By::sha));
  EXPECT_EQ(words.at(words.size() - 2), R"("k","holder":"al\"ice\n")");
  ExtendRequest extend{.lock = by_id, .ttl = ttl(milliseconds(700)), .new_holder = label};
  EXPECT_EQ(arguments_of(*layout->command(extend, {}, By::sha)).back(), R"(,"holder":"al\"ice\n")");
  extend.new_holder = nullptr;
  EXPECT_EQ(arguments_of(*layout->command(extend, {}, By::sha)).back(), "") << "no label any more";
}

TEST_F(RedisCommands, ARefusalMayNameTheHolder) {
  const auto refusal = [&](const std::string& text) {
    return layout->acquired(*reply_of("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"), acquire);
  };
  const auto refused = std::get<Refused>(*refusal(R"(24000,"holder":"al\"ice\u0000"})"));
  EXPECT_EQ(refused.free_in, milliseconds(24000));
  EXPECT_EQ(refused.holder->str(), "al\"ice\0"s);
  EXPECT_EQ(std::get<Refused>(*refusal("1,\"holder\":\"" + std::string(300, 'x') + "\"}")).holder->str(),
            std::string(256, 'x'))
      << "of another program";
  for (const auto* odd :
       {"", "24000", R"(x,"holder":"a"})", R"(-1,"holder":"a"})", R"(24000"holder":"a"})"}) {
    const auto outcome = refusal(odd);
    ASSERT_FALSE(outcome) << odd;
    EXPECT_EQ(outcome.error().code(), ErrorCode::Internal);
  }
  // An invalid label of other software does not hide that the lock is held.
  for (const auto* odd : {R"(24000,"holder":"a")", R"(24000,"holder":7})"}) {
    EXPECT_EQ(std::get<Refused>(*refusal(odd)).holder, nullptr) << odd;
  }
}

TEST_F(RedisCommands, TheFenceFloorOfAnAcquireIsFoundAndRaised) {
  for (const auto& lifetime : {std::optional<CounterLifetime>(), std::optional(CounterLifetime{}),
                               std::optional(CounterLifetime{.until = test::from_ms(1'900'000'000'000)})}) {
    for (const auto by : {By::sha, By::text}) {
      for (const std::uint64_t remembered : {0ULL, 7ULL, 1'234'567'890'123ULL}) {
        auto request = acquire;
        request.counter_lifetime = lifetime;
        auto command = *layout->acquire(request, {.fence = remembered}, by);
        auto expected = arguments_of(command);
        raise_fence_floor(command.bytes, command.fence_floor_at, fence_floor_of(87'654));
        auto& floor = expected.at(expected.size() - (lifetime ? 2 : 1));
        EXPECT_EQ(std::stoull(floor), remembered);
        EXPECT_EQ(floor.size(), 15U);
        floor = "087654000000000";
        EXPECT_EQ(arguments_of(command), expected);
        raise_fence_floor(command.bytes, command.fence_floor_at, fence_floor_of(9));
        EXPECT_EQ(arguments_of(command), expected) << "a higher floor stays";
      }
    }
  }
}

TEST_F(RedisCommands, AGrantSaysWhetherItIsRepeatedAndWhetherItsCounterWasLow) {
  const auto details = [&](const std::string& bytes) {
    return layout->grant_details(*test::reply_of(bytes));
  };
  const std::string grant = ":1\r\n$15\r\n000000000000007\r\n:1900000000000\r\n$1\r\nu\r\n";
  EXPECT_FALSE(details("*4\r\n" + grant).repeated);
  EXPECT_EQ(details("*4\r\n" + grant).low_counter, std::nullopt);
  EXPECT_TRUE(details("*5\r\n" + grant + ":-1\r\n").repeated);
  EXPECT_EQ(details("*5\r\n" + grant + ":-1\r\n").low_counter, std::nullopt);
  EXPECT_FALSE(details("*5\r\n" + grant + ":0\r\n").repeated);
  EXPECT_EQ(details("*5\r\n" + grant + ":0\r\n").low_counter, 0U);
  for (const auto* last : {":-1\r\n", ":5\r\n"}) {
    const auto outcome = layout->acquired(*test::reply_of("*5\r\n" + grant + last), acquire).value_or_throw();
    EXPECT_EQ(std::get<Granted>(outcome).fence, *Fence::parse("000000000000007"));
  }
}

TEST_F(RedisCommands, AnEpochThatIsTooHighHasNoFloor) {
  EXPECT_EQ(fence_floor_of(0), 0U);
  EXPECT_EQ(fence_floor_of(90'000), 90'000'000'000'000U);
  EXPECT_EQ(fence_floor_of(90'001), 0U);
  EXPECT_EQ(fence_floor_of(~std::uint64_t{0}), 0U);
}

TEST_F(RedisCommands, ARememberedFenceDoesNotRaiseTheFencesOfADeposedMaster) {
  EXPECT_EQ(fence_floor_of(7, RememberedFence{}), 7'000'000'000U);
  EXPECT_EQ(fence_floor_of(7, {.fence = 7'000'000'012U, .epoch = 7}), 7'000'000'012U);
  EXPECT_EQ(fence_floor_of(7, {.fence = 6'000'000'012U, .epoch = 6}), 7'000'000'000U);
  EXPECT_EQ(fence_floor_of(7, {.fence = 8'000'000'012U, .epoch = 8}), 7'000'000'000U) << "of its successor";
  EXPECT_EQ(fence_floor_of(7, {.fence = 9'000'000'012U, .epoch = 6}), 9'000'000'012U)
      << "counters that were above the epoch when it was granted: data of another cluster";
  EXPECT_EQ(fence_floor_of(90'001, {.fence = 12, .epoch = 90'001}), 12U) << "an epoch that is not applied";
}

TEST_F(RedisCommands, ByTextDifferOnlyInHowTheScriptIsNamed) {
  auto by_text = arguments_of(*layout->acquire(acquire, {}, By::text));
  EXPECT_EQ(by_text[0], "EVAL");
  EXPECT_EQ(by_text[1], embedded::acquire_lua);
  by_text[0] = "EVALSHA";
  by_text[1] = sha(embedded::acquire_lua);
  EXPECT_EQ(by_text, arguments_of(*layout->acquire(acquire, {}, By::sha)));
}

TEST_F(RedisCommands, NoScriptContainsAKeyOrAnId) {
  const auto other =
      AcquireRequest{.id = LockId::generate(), .key = key("quite-another"), .ttl = ttl(milliseconds(9))};
  EXPECT_EQ(arguments_of(*layout->acquire(acquire, {}, By::text))[1],
            arguments_of(*layout->acquire(other, {}, By::text))[1]);
}

TEST_F(RedisCommands, AReservedKeyIsInvalidArgumentInEveryOperation) {
  const auto reserved = key("fence:p:k");
  const LockRef lock{.id = id, .key = reserved};
  for (const auto& command :
       {layout->acquire({.id = id, .key = reserved, .ttl = ttl(milliseconds(1))}, {}, By::sha),
        layout->release(lock, {}, Release::plain, By::sha),
        layout->command(ExtendRequest{.lock = lock, .ttl = ttl(milliseconds(1))}, {}, By::sha),
        layout->command(IsLockedRequest{.key = reserved}, {}, By::sha),
        layout->command(LookupRequest{.what = reserved}, {}, By::sha), layout->cleanup(reserved, By::sha)}) {
    ASSERT_FALSE(command);
    EXPECT_EQ(command.error().code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(command.error().key(), "fence:p:k");
  }
}

TEST_F(RedisCommands, AKeyIsWrittenAsJson) {
  for (const auto& [text, written] :
       std::vector<std::pair<std::string, std::string>>{{"plain", "\"plain\""},
                                                        {"a\"b\\c/d", "\"a\\\"b\\\\c/d\""},
                                                        {"a\nb\x01\0c"s, "\"a\\nb\\u0001\\u0000c\""},
                                                        {"caf\u00e9\u2028", "\"caf\u00e9\u2028\""},
                                                        {"~ \x7f", "\"~ \x7f\""}}) {
    EXPECT_EQ(json_string(key(text)), written);
  }
}

TEST_F(RedisCommands, RepliesMeanWhatTheScriptsSay) {
  const auto granted = std::get<Granted>(*layout->acquired(
      *reply_of("*4\r\n:1\r\n$15\r\n000000000000042\r\n:1700000000500\r\n$5\r\nstore\r\n"), acquire));
  EXPECT_EQ(granted.authority, "store");
  EXPECT_EQ(granted.fence.value(), 42U);
  EXPECT_EQ(test::to_ms(granted.expires_at), 1'700'000'000'500);
  EXPECT_EQ(std::get<Refused>(*layout->acquired(*reply_of(":250\r\n"), acquire)).free_in, milliseconds(250));
  EXPECT_FALSE(std::get<Refused>(*layout->acquired(*reply_of(":0\r\n"), acquire)).free_in);
  EXPECT_TRUE(std::holds_alternative<Released>(*layout->released(*reply_of(":1\r\n"), by_key)));
  EXPECT_EQ(std::get<Absence>(*layout->released(*reply_of(":0\r\n"), by_key)), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(*layout->released(*reply_of(":-1\r\n"), by_key)), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*layout->released(*reply_of(":-2\r\n"), by_key)), Absence::expired);
  EXPECT_EQ(std::get<Extended>(*layout->outcome(*reply_of("*2\r\n:1\r\n:5\r\n"),
                                                ExtendRequest{.lock = by_key, .ttl = acquire.ttl}, {}))
                .expires_at,
            test::from_ms(5));
  EXPECT_EQ(std::get<Absence>(*layout->outcome(*reply_of(":-2\r\n"),
                                               ExtendRequest{.lock = by_key, .ttl = acquire.ttl}, {})),
            Absence::expired);
  EXPECT_TRUE(*layout->outcome(*reply_of(":1\r\n"), IsLockedRequest{.key = key("k")}, {}));
  EXPECT_FALSE(*layout->outcome(*reply_of(":0\r\n"), IsLockedRequest{.key = key("k")}, {}));
  EXPECT_FALSE(*layout->outcome(*reply_of("$-1\r\n"), LookupRequest{.what = id}, {}));
}

TEST_F(RedisCommands, CodesOfTheScriptsBecomeErrorsThatNameTheLock) {
  for (const auto& [reply, code] :
       std::vector<std::pair<std::string, ErrorCode>>{{":-3\r\n", ErrorCode::Internal},
                                                      {":-4\r\n", ErrorCode::Internal},
                                                      {":-5\r\n", ErrorCode::InvalidArgument},
                                                      {":-6\r\n", ErrorCode::Internal},
                                                      {":-7\r\n", ErrorCode::Internal},
                                                      {"-OOM x\r\n", ErrorCode::RateLimited}}) {
    const auto result = layout->acquired(*reply_of(reply), acquire);
    ASSERT_FALSE(result) << reply;
    EXPECT_EQ(result.error().code(), code) << reply;
    EXPECT_EQ(result.error().key(), "k");
    EXPECT_EQ(result.error().lock_id(), id.str());
    EXPECT_EQ(std::string(result.error().what()).find(id.str()), std::string::npos);
  }
}

TEST_F(RedisCommands, AReplyThatNoScriptGivesIsInternalAndNamesTheOperation) {
  for (const auto* bytes :
       {":7\r\n", ":2\r\n", "+OK\r\n", "$2\r\nhi\r\n", "*0\r\n", "*1\r\n:1\r\n", "*2\r\n:1\r\n$1\r\nx\r\n",
        "*2\r\n:0\r\n$1\r\nx\r\n", "*2\r\n:9\r\n:9\r\n", "*4\r\n:1\r\n$2\r\n42\r\n:5\r\n$1\r\na\r\n",
        "*4\r\n:1\r\n:42\r\n:5\r\n$1\r\na\r\n",
        "*4\r\n:1\r\n$15\r\n000000000000042\r\n$1\r\n5\r\n$1\r\na\r\n",
        "*4\r\n:0\r\n$15\r\n000000000000042\r\n:5\r\n$1\r\na\r\n",
        "*4\r\n:1\r\n$15\r\n000000000000042\r\n:5\r\n$0\r\n\r\n",
        "*3\r\n:1\r\n$15\r\n000000000000042\r\n:5\r\n", "*3\r\n$-1\r\n$-1\r\n$-1\r\n", "*1\r\n*0\r\n"}) {
    SCOPED_TRACE(bytes);
    const auto reply = reply_of(bytes);
    const auto expect_internal = [](const auto& result, const std::string& operation) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code(), ErrorCode::Internal);
      EXPECT_NE(result.error().message().find(operation), std::string::npos) << result.error().what();
    };
    if (reply->type != REDIS_REPLY_INTEGER) expect_internal(layout->acquired(*reply, acquire), "acquire");
    expect_internal(layout->released(*reply, by_id), "release");
    expect_internal(layout->outcome(*reply, ExtendRequest{.lock = by_id, .ttl = acquire.ttl}, {}), "extend");
    expect_internal(layout->outcome(*reply, IsLockedRequest{.key = key("k")}, {}), "is_locked");
    if (reply->type != REDIS_REPLY_STRING)
      expect_internal(layout->outcome(*reply, LookupRequest{.what = id}, {}), "lookup");
    const Words five(5, "p:k");
    expect_internal(layout->listed(*reply, five), "list");
  }
}

TEST_F(RedisCommands, ARecordIsReadStrictly) {
  const std::string good =
      R"({"key":"a\/b","fence":"000000000000007","acquiredAtMs":1,"expiresAtMs":2,"lockId":"AAAAAAAAAAAAAAAAAAAAAA","x":[]})";
  const auto record = parse_lock_record(good).value_or_throw();
  EXPECT_EQ(record.key.str(), "a/b");
  EXPECT_EQ(record.id, id);
  EXPECT_EQ(record.fence.value(), 7U);
  EXPECT_EQ(record.acquired_at, test::from_ms(1));
  EXPECT_EQ(record.expires_at, test::from_ms(2));
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& bad :
       {""s, "null"s, "[]"s, "{}"s, good + good, good.substr(1), with("\"key\"", "\"Key\""),
        with("\"a\\/b\"", "\"\""), with("\"a\\/b\"", "7"), with("\"a\\/b\"", "\"\xff\""),
        with("000000000000007", "7"), with("\"000000000000007\"", "7"), with(":1,", ":\"1\","),
        with(":1,", ":-1,"), with(":2,", ":2.5,"), with(":2,", ":1e99,"), with(":2,", ":null,"),
        with("AAAAAAAAAAAAAAAAAAAAAA", "AAAA"), with("\"lockId\"", "\"lockID\"")}) {
    const auto parsed = parse_lock_record(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code(), ErrorCode::Internal);
  }
}

TEST_F(RedisCommands, ARecordOfSyncGuard1HasAFenceOf19Digits) {
  const auto with_fence = [](const std::string& fence) {
    return parse_lock_record(
        R"({"key":"k","acquiredAtMs":1,"expiresAtMs":2,"lockId":"AAAAAAAAAAAAAAAAAAAAAA","fence":")" + fence +
        "\"}");
  };
  const auto old = with_fence("0000000000000000042").value_or_throw();
  EXPECT_EQ(old.fence.value(), 42U);
  EXPECT_EQ(old.fence_digits, 19);
  EXPECT_EQ(sanitised(old).fence_digits, 19);
  EXPECT_EQ(with_fence("000000000000042")->fence_digits, 15);
  for (const std::string bad :
       {"0001000000000000000", "00000000000000000-2", "000000000000000004x", "0000000000000042"}) {
    EXPECT_EQ(with_fence(bad).error().code(), ErrorCode::Internal) << bad;
  }
}

TEST_F(RedisCommands, AGrantWithoutAnAuthorityNamesTheKeyThatIsEmpty) {
  const auto outcome = layout->acquired(
      *reply_of("*4\r\n:1\r\n$15\r\n000000000000001\r\n:1700000000000\r\n$0\r\n\r\n"), acquire);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::Internal);
  EXPECT_NE(outcome.error().message().find("PREFIX:fence:PREFIX:"), std::string::npos)
      << outcome.error().what();
}

TEST_F(RedisCommands, ARecordThatExpiresBeyondAllTimeIsNoRecord) {
  const auto outcome = layout->acquired(*reply_of(":-9223372036854775808\r\n"), acquire);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message().find("is not a valid lock record"), std::string::npos)
      << outcome.error().what();
}

TEST_F(RedisCommands, AnotherKindOfValueIsReportedWithTheKey) {
  const auto outcome = layout->acquired(
      *reply_of("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"), acquire);
  ASSERT_FALSE(outcome);
  EXPECT_TRUE(outcome.error().message().starts_with("\"k\": ")) << outcome.error().what();
}

}  // namespace
}  // namespace holdfast::redis
