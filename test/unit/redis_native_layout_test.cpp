#include <gtest/gtest.h>

#include <set>

#include "core/wall_time.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/native_state.hpp"
#include "engine/redis/record_commands.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using namespace std::string_literals;
using test::arguments_of;
using test::key;
using test::reply_of;
using Words = std::vector<std::string>;

const std::string held_state = "\x00"s + "\x00\x00\x00\x00\x00\x00\x2a"s +
                               "\x01\x23\x45\x67\x89\xab\xcd\xef"s + "\x01\xa3\x18\x5c\x50\x01"s +
                               "\x01\xa3\x18\x5c\x50\x00"s + "AAAAAAAAAAAAAAAAAAAAAA" + "\x00\x01"s;

/// The part of a name that decides its slot, as a cluster takes it.
std::string hashed_part(const std::string& name) {
  const auto open = name.find('{');
  const auto close = open == std::string::npos ? open : name.find('}', open);
  if (close == std::string::npos || close == open + 1) return name;
  return name.substr(open + 1, close - open - 1);
}

class RedisNativeLayout : public testing::Test {
 protected:
  const std::shared_ptr<const LockLayout> layout = native_layout(Layout::make("p", 0).value_or_throw());
  const LockId id = LockId::parse("AAAAAAAAAAAAAAAAAAAAAA").value_or_throw();
  const LockRef by_key{.id = id, .key = key("k")};
  const AcquireRequest request{.id = id, .key = key("k"), .ttl = test::ttl(std::chrono::milliseconds(500))};
};

TEST_F(RedisNativeLayout, AStateIsReadAsItIsWritten) {
  ASSERT_EQ(held_state.size(), NativeState::held_size);
  const auto state = NativeState::parse(held_state);
  ASSERT_TRUE(state && state->holder);
  EXPECT_EQ(state->counter, 42U);
  EXPECT_EQ(state->authority, "0123456789abcdef");
  EXPECT_EQ(state->holder->expires_ms, 0x01a3185c5001);
  EXPECT_EQ(state->holder->acquired_ms, 0x01a3185c5000);
  EXPECT_EQ(state->holder->id, id.str());
  EXPECT_EQ(state->holder->key_size, 1U);
  const auto idle = NativeState::parse(held_state.substr(0, NativeState::idle_size));
  ASSERT_TRUE(idle);
  EXPECT_EQ(idle->counter, 42U);
  EXPECT_FALSE(idle->holder);
  EXPECT_FALSE(NativeState::parse(held_state.substr(0, 15)));
  EXPECT_FALSE(NativeState::parse(""));
}

TEST_F(RedisNativeLayout, TheUserKeyIsTheEndOfTheNameOrFollowsTheState) {
  EXPECT_EQ(NativeState::key_part("p:k", 2, key("k"), nullptr), "\x00\x01"s);
  EXPECT_EQ(NativeState::key_part("p:" + std::string(512, 'x'), 2, key(std::string(512, 'x')), nullptr),
            "\x02\x00"s);
  EXPECT_EQ(NativeState::key_part("p:hash", 2, key("longer"), nullptr), "\x00\x00"s + "longer");
  EXPECT_EQ(native_record(held_state, "p:k")->key.str(), "k");
  const auto hashed = held_state.substr(0, 50) + "\x00\x00"s;
  EXPECT_EQ(native_record(hashed + "whole key", "p:hash")->key.str(), "whole key");
  EXPECT_FALSE(native_record(hashed, "p:hash")) << "the field is missing";
  EXPECT_FALSE(native_record(held_state, "")) << "a name that is too short";
  EXPECT_FALSE(native_record(held_state.substr(0, 16), "p:k")) << "no holder";
  auto never_granted = held_state;
  never_granted[7] = '\0';
  EXPECT_FALSE(native_record(never_granted, "p:k")) << "a holder without a fence";
}

TEST_F(RedisNativeLayout, TheLabelOfTheHolderFollowsTheStateBehindAKeyThatIsHashed) {
  const auto label = LockHolder::from_setting("alice\n").value_or_throw();
  EXPECT_EQ(NativeState::key_part("p:k", 2, key("k"), label.get()), "\x80\x01"s + "alice\n");
  EXPECT_EQ(NativeState::key_part("p:hash", 2, key("longer"), label.get()), "\xC0\x06"s + "longeralice\n");
  const auto with = [&](const std::string& end) { return held_state.substr(0, 50) + end; };
  const auto plain = native_record(with("\x80\x01"s + "alice\n"), "p:k");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->key.str(), "k");
  EXPECT_EQ(plain->holder, *label);
  const auto hashed = native_record(with("\xC0\x06"s + "longeralice\n"), "p:hash");
  ASSERT_TRUE(hashed);
  EXPECT_EQ(hashed->key.str(), "longer");
  EXPECT_EQ(hashed->holder, *label);
  EXPECT_FALSE(native_record(with("\x80\x01"s), "p:k")->holder) << "the field is missing";
  EXPECT_FALSE(native_record(with("\xC0\x06"s), "p:hash"));
  EXPECT_FALSE(native_record(held_state, "p:k")->holder);
  EXPECT_FALSE(native_record(with("\x00\x00"s + "whole key"), "p:hash")->holder);
  EXPECT_FALSE(native_record(with("\x40\x01"s), "p:k")) << "a length that is too large";

  ExtendRequest extend{.lock = by_key, .ttl = request.ttl, .new_holder = label};
  EXPECT_EQ(arguments_of(*layout->command(extend, {}, By::sha)).back(), "alice\n");
  extend.new_holder = nullptr;
  EXPECT_EQ(arguments_of(*layout->command(extend, {}, By::sha)).back(), "");
}

TEST_F(RedisNativeLayout, ARefusalMayNameTheHolder) {
  const auto refusal = [&](const std::string& text) {
    return layout->acquired(*reply_of("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"), request);
  };
  const auto plain = std::get<Refused>(refusal("250 "s + "\x80\x01"s + "alice").value_or_throw());
  EXPECT_EQ(plain.free_in, std::chrono::milliseconds(250));
  EXPECT_EQ(plain.holder->str(), "alice");
  const auto hashed = std::get<Refused>(refusal("250 "s + "\xC0\x06"s + "longeralice").value_or_throw());
  EXPECT_EQ(hashed.holder->str(), "alice");
  EXPECT_FALSE(std::get<Refused>(refusal("250 "s + "\x80\x01"s).value_or_throw()).holder);
  for (const auto& odd : {"250"s, "250 "s, "250 x"s, "-1 xxx"s, "0 xxx"s, "x xxx"s, "250xxx"s}) {
    EXPECT_EQ(refusal(odd).error().code(), ErrorCode::Internal) << odd;
  }
}

TEST_F(RedisNativeLayout, EveryCommandHasOneKeyWhichDecidesItsSlot) {
  const LookupRequest by_id{.what = id};
  for (const auto& command :
       {layout->acquire(request, {}, By::sha), layout->release(by_key, {}, Release::plain, By::sha),
        layout->release(by_key, {}, Release::for_good, By::sha),
        layout->release({.id = id, .key = {}}, "p:k", Release::by_force, By::sha),
        layout->release_evidence(by_key, {}, By::sha),
        layout->command(ExtendRequest{.lock = by_key, .ttl = request.ttl}, {}, By::sha),
        layout->command(IsLockedRequest{.key = key("k")}, {}, By::sha),
        layout->command(LookupRequest{.what = key("k")}, {}, By::sha), layout->command(by_id, "p:k", By::sha),
        layout->cleanup(key("k"), By::sha)}) {
    ASSERT_TRUE(command);
    EXPECT_EQ(command->key(), "p:k");
    EXPECT_EQ(arguments_of(*command)[2], "1") << "the number of keys";
  }
  EXPECT_EQ(layout->read_hint(id)->key(), "p:id:AAAAAAAAAAAAAAAAAAAAAA");
  EXPECT_EQ(layout->write_hint(id, "p:k", request.ttl, Hint::if_absent)->key(),
            "p:id:AAAAAAAAAAAAAAAAAAAAAA");
  EXPECT_EQ(layout->read_store_id("id").key(), "p:fence:p:");
}

TEST_F(RedisNativeLayout, AnAcquireCarriesTheFloorInFifteenDigits) {
  auto words = arguments_of(*layout->acquire(request, {.fence = 7'000'000'000}, By::sha));
  EXPECT_EQ(Words(words.begin() + 3, words.end()),
            (Words{"p:k", "AAAAAAAAAAAAAAAAAAAAAA", "500", "\x00\x01"s, "000007000000000"}));
  auto ending = request;
  ending.counter_lifetime = CounterLifetime{};
  EXPECT_EQ(arguments_of(*layout->acquire(ending, {}, By::sha)).back(), "");
}

TEST_F(RedisNativeLayout, RepliesMeanWhatTheScriptsSay) {
  const auto granted = layout->acquired(*reply_of("$52\r\n" + held_state + "\r\n"), request).value_or_throw();
  EXPECT_EQ(std::get<Granted>(granted).fence.value(), 42U);
  EXPECT_EQ(std::get<Granted>(granted).authority, "0123456789abcdef");
  EXPECT_EQ(core::to_ms(std::get<Granted>(granted).expires_at), 0x01a3185c5001);
  const auto refused = layout->acquired(*reply_of(":250\r\n"), request).value_or_throw();
  EXPECT_EQ(std::get<Refused>(refused).free_in, std::chrono::milliseconds(250));
  for (const auto* bad : {"$2\r\nok\r\n", "$-1\r\n", "*0\r\n", ":-3\r\n", ":-4\r\n", ":0\r\n"}) {
    EXPECT_EQ(layout->acquired(*reply_of(bad), request).error().code(), ErrorCode::Internal) << bad;
  }
  auto theirs = request;
  theirs.id = LockId::generate();
  EXPECT_FALSE(layout->acquired(*reply_of("$52\r\n" + held_state + "\r\n"), theirs)) << "another's grant";
  EXPECT_EQ(layout->acquired(*reply_of(":-6\r\n"), request).error().effect(), Effect::id_is_spent);
  EXPECT_TRUE(
      *layout->outcome(*reply_of("$52\r\n" + held_state + "\r\n"), IsLockedRequest{.key = key("k")}, {}));
  EXPECT_FALSE(*layout->outcome(*reply_of("$-1\r\n"), IsLockedRequest{.key = key("k")}, {}));
  const LookupRequest other_id{.what = LockId::generate()};
  EXPECT_FALSE(*layout->outcome(*reply_of("$52\r\n" + held_state + "\r\n"), other_id, "p:k"))
      << "a hint of an earlier time";
}

TEST_F(RedisNativeLayout, AShardedChannelHasTheNameOfItsLockKey) {
  const auto sharded = native_layout(Layout::make("p{", 0, Channels::sharded).value_or_throw());
  const auto name = sharded->names().lock_key(key("}{a}")).value_or_throw();
  EXPECT_EQ(sharded->names().channel(name), name);
  const LockRef lock{.id = id, .key = key("}{a}")};
  const auto words = arguments_of(*sharded->release(lock, {}, Release::plain, By::sha));
  EXPECT_EQ(words.back(), words[3]) << "by which the script knows it";
  EXPECT_EQ(layout->names().channel("p:k"), "p:wake:0:p:k");
}

TEST_F(RedisNativeLayout, AHintOutsideThePrefixIsNone) {
  EXPECT_EQ(*layout->hint(*reply_of("$3\r\np:k\r\n"), id), "p:k");
  for (const auto* bad : {"$-1\r\n", "$0\r\n\r\n", "$3\r\nq:k\r\n", "$10\r\np:fence:p:\r\n"}) {
    EXPECT_EQ(*layout->hint(*reply_of(bad), id), "") << bad;
  }
}

TEST(RedisNativeTasks, TheKeysOfAnOwnerShareASlotWhateverItsName) {
  std::set<std::string> tags;
  for (const std::string& prefix : {"p"s, "p}"s, "{p}"s, "a{p}b{"s}) {
    const auto names = StorageLayout::make(prefix, 0, RedisLayout::native).value_or_throw();
    for (const std::string& owner : {""s, "o"s, "}"s, "{"s, "{}"s, "a}b"s, "{a}"s, "\xE9\x8D\xB5"s}) {
      const auto record = RecordKey::of(owner, "t{x}").value_or_throw();
      const auto tag = hashed_part(names.index(owner));
      EXPECT_FALSE(tag.empty());
      EXPECT_NE(tag, names.index(owner)) << "the whole name was hashed";
      EXPECT_EQ(hashed_part(names.record(record)), tag) << prefix << " " << owner;
      EXPECT_EQ(hashed_part(names.record_prefix(owner) + "other"), tag);
      EXPECT_EQ(names.record_prefix(owner) + "t{x}", names.record(record));
      EXPECT_EQ(names.owner_of_index(names.index(owner)), owner);
      EXPECT_FALSE(names.owner_of_index(names.record(record)));
      if (prefix == "p") tags.insert(tag);
      EXPECT_EQ(get_command(names, {.key = record}, By::sha).key(), names.record(record));
    }
  }
  EXPECT_EQ(tags.size(), 8U) << "owners are spread over the slots";
}

TEST(RedisNativeTasks, APrefixThatWouldSwallowTheTagIsRefused) {
  for (const std::string& prefix : {"{"s, "p{"s, "p{}"s, "p{}{a}"s}) {
    EXPECT_FALSE(StorageLayout::make(prefix, 0, RedisLayout::native)) << prefix;
    EXPECT_TRUE(StorageLayout::make(prefix, 0)) << prefix << " is nothing special in the documented layout";
  }
}

TEST(RedisNativeTasks, AnIndexWithAnotherOwnersTagIsNone) {
  const auto names = StorageLayout::make("p", 0, RedisLayout::native).value_or_throw();
  auto name = names.index("o");
  name[4] = name[4] == '0' ? '1' : '0';
  EXPECT_FALSE(names.owner_of_index(name));
  EXPECT_FALSE(names.owner_of_index("p:idx:o"));
  EXPECT_FALSE(names.owner_of_index("p:{"));
}

}  // namespace
}  // namespace holdfast::redis
