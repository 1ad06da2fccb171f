#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/storage_key.hpp"
#include "engine/redis/layout.hpp"
#include "support/calls.hpp"
#include "support/paths.hpp"

namespace holdfast::redis {
namespace {

Layout layout(std::string_view prefix, std::uint32_t db = 0) {
  return Layout::make(prefix, db).value_or_throw();
}
std::string lock_key(const Layout& layout, std::string_view text) {
  return layout.lock_key(test::key(text)).value_or_throw();
}

TEST(RedisLayout, NamesAreTheDocumentedOnes) {
  std::ifstream in(test::vectors_dir() + "/locks.json");
  const auto vectors = nlohmann::json::parse(in).at("redisKeys");
  ASSERT_FALSE(vectors.empty());
  for (const auto& v : vectors) {
    const auto names = layout(v.at("prefix").get<std::string>());
    const auto made = lock_key(names, v.at("key").get<std::string>());
    EXPECT_EQ(made, v.at("lockKey").get<std::string>());
    EXPECT_EQ(names.fence_key(made).value_or_throw(), v.at("fenceKey").get<std::string>());
    EXPECT_EQ(
        names.index_key(LockId::parse(v.at("lockId").get<std::string>()).value_or_throw()).value_or_throw(),
        v.at("indexKey").get<std::string>());
  }
}

TEST(RedisLayout, NamesAreThoseOfTheGeneralRuleForEveryPrefix) {
  const auto id = LockId::generate();
  for (const auto& prefix :
       {std::string(), std::string("p"), std::string("a:b:"), std::string("caf\u00e9"),
        std::string("cafe\u0301"), std::string("\u0344x"), std::string("a b"), std::string(470, 'x'),
        std::string(948, 'x'), std::string(949, 'x'), std::string(951, 'x')}) {
    const auto names = layout(prefix);
    for (const auto& text :
         {std::string("k"), std::string("\u0301"), std::string("caf\u00e9:\u0338"), std::string(":"),
          std::string("x:y"), std::string(400, 'y'), std::string(512, 'z')}) {
      const auto made = lock_key(names, text);
      EXPECT_EQ(made, core::make_storage_key(prefix, text, 1000, 26).value_or_throw());
      EXPECT_EQ(names.fence_key(made).value_or_throw(),
                core::make_storage_key(prefix, "fence:" + made, 1000, 26).value_or_throw());
      EXPECT_EQ(names.after_prefix(made).has_value(), true);
      EXPECT_EQ(names.named(*names.after_prefix(made)), made);
    }
    EXPECT_EQ(names.index_key(id).value_or_throw(),
              core::make_storage_key(prefix, "id:" + std::string(id.str()), 1000, 26).value_or_throw());
  }
}

TEST(RedisLayout, APrefixThatNamesFencesIsInvalid) {
  for (const auto* prefix : {"fence", "fence:", "fence::", "my-fence", "a:fence", "a:fence:b", "fence:x"}) {
    const auto made = Layout::make(prefix, 0);
    ASSERT_FALSE(made) << prefix;
    EXPECT_EQ(made.error().code(), ErrorCode::InvalidArgument);
  }
  for (const auto* prefix : {"fences", "fencer:x", "a:fenced", "fen", "Fence", ""}) {
    EXPECT_TRUE(Layout::make(prefix, 0)) << prefix;
  }
}

TEST(RedisLayout, APrefixThatIsTooLongOrNoTextIsInvalid) {
  // As with SyncGuard, a name may fit where that of an index key does not: then no lock can be acquired.
  const auto longest = layout(std::string(972, 'x'));
  EXPECT_EQ(lock_key(longest, "k"), std::string(972, 'x') + ":k");
  EXPECT_EQ(longest.index_key(LockId::generate()).error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(layout(std::string(952, 'x')).index_key(LockId::generate()).error().code(),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(Layout::make(std::string(974, 'x'), 0).error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(Layout::make("a\xff", 0).error().code(), ErrorCode::InvalidArgument);
}

TEST(RedisLayout, KeysThatWouldLandOnIndexesOrCountersAreReserved) {
  const std::string id(22, 'A');
  const auto names = layout("p");
  for (const auto& text : {"id:" + id, "id:-_" + id.substr(2), std::string("fence:p:"),
                           std::string("fence:p:x"), std::string("fence:p:fence:p:x")}) {
    const auto made = names.lock_key(test::key(text));
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code(), ErrorCode::InvalidArgument);
    EXPECT_FALSE(names.after_prefix("p:" + text)) << text;
  }
  for (const auto& text :
       {"id:" + id + "A", "id:" + id.substr(1), "id:." + id.substr(1), "ID:" + id, "x:id:" + id,
        std::string("id:"), std::string("fence:"), std::string("fence:p"), std::string("fence:q:x"),
        std::string("fence:pp:x"), std::string("x:fence:p:x"), std::string("wake:0:p:x")}) {
    EXPECT_EQ(lock_key(names, text), "p:" + text);
    EXPECT_EQ(names.after_prefix("p:" + text), text);
  }
}

TEST(RedisLayout, WithoutAPrefixEverythingUnderFenceIsReserved) {
  const auto names = layout("");
  EXPECT_EQ(lock_key(names, "k"), "k");
  EXPECT_EQ(names.fence_key("k").value_or_throw(), "fence:k");
  EXPECT_EQ(names.authority_key(), "fence:");
  EXPECT_FALSE(names.lock_key(test::key("fence:k")));
  EXPECT_FALSE(names.lock_key(test::key("fence:")));
  EXPECT_TRUE(names.lock_key(test::key("fence")));
}

TEST(RedisLayout, APrefixIsNotNormalisedButItsCopyInACounterIs) {
  const auto names = layout("cafe\u0301");
  EXPECT_EQ(lock_key(names, "k"), "cafe\u0301:k");
  EXPECT_EQ(names.fence_key("cafe\u0301:k").value_or_throw(), "cafe\u0301:fence:caf\u00e9:k");
  EXPECT_FALSE(names.lock_key(test::key("fence:cafe\u0301:k"))) << "normalised, it is that counter's name";
}

TEST(RedisLayout, TheChannelNamesTheDatabaseAndTheAuthorityIsBesideTheCounters) {
  const auto names = layout("a:b:", 7);
  EXPECT_EQ(names.channel("a:b:k"), "a:b:wake:7:a:b:k");
  EXPECT_EQ(names.channel_prefix(), "a:b:wake:7:");
  EXPECT_EQ(names.index_prefix(), "a:b:id:");
  EXPECT_EQ(names.authority_key(), "a:b:fence:a:b:");
}

TEST(RedisLayout, APatternTakesThePrefixAtItsWord) {
  EXPECT_EQ(layout("a*b?[c]\\d").pattern(), "a\\*b\\?\\[c]\\\\d:*");
  EXPECT_EQ(layout("").pattern(), "*");
}

TEST(RedisLayout, NamesOfOthersAreNoLockKeys) {
  const auto names = layout("p");
  for (const std::string& name :
       {std::string("q:k"), std::string("p"), std::string("p:"), std::string("pp:k"), std::string("p:\xff"),
        std::string("p:e\u0301"), "p:" + std::string(513, 'x')}) {
    EXPECT_FALSE(names.after_prefix(name)) << name;
  }
}

}  // namespace
}  // namespace holdfast::redis
