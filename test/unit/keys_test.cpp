#include <gtest/gtest.h>

#include <holdfast/lock_types.hpp>
#include <map>
#include <set>
#include <vector>

#include "core/liveness.hpp"
#include "core/nfc.hpp"
#include "core/storage_key.hpp"
#include "support/seeded.hpp"

namespace holdfast {
namespace {

using test::Seeded;

/// Text that exercises composition: base letters, combining marks, Hangul, emoji, singletons.
std::string random_text(Seeded& random, std::size_t pieces) {
  static const std::vector<std::string> alphabet = {"a",
                                                    "e",
                                                    "o",
                                                    "n",
                                                    "-",
                                                    ":",
                                                    "/",
                                                    "\xCC\x81",
                                                    "\xCC\x88",
                                                    "\xCC\xA3",
                                                    "\xCD\x84",
                                                    "\xE1\x84\x80",
                                                    "\xE1\x85\xA1",
                                                    "\xE1\x86\xA8",
                                                    "\xE2\x84\xA6",
                                                    "\xE0\xA4\x95",
                                                    "\xE0\xA4\xBC",
                                                    "\xF0\x9F\x94\x92",
                                                    "\xC3\xA9"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += random.pick(alphabet);
  return text;
}

TEST(NormalForm, IsIdempotent) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 2000; ++i) {
    const auto once = core::nfc(random_text(random, 1 + random.below(20))).value_or_throw();
    EXPECT_EQ(core::nfc(once).value_or_throw(), once);
  }
}

TEST(NormalForm, RefusesInvalidUtf8) {
  const std::vector<std::string> invalid = {
      "\x80",   "\xC3",     "\xC0\xAF", "\xED\xA0\x80",        "\xF4\x90\x80\x80",
      "ok\xFF", "\xE2\x82", "a\xC3(",   "\xF8\x88\x80\x80\x80"};
  for (const auto& text : invalid) {
    EXPECT_EQ(core::nfc(text).error().code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(LockKey::parse(text).error().code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(core::make_storage_key("p", text, 1000, 26).error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(LockKey, IsNormalisedBeforeItsBytesAreCounted) {
  // "e" + U+0301 is three bytes, composed it is two.
  std::string decomposed;
  for (int i = 0; i < 256; ++i) decomposed += "e\xCC\x81";
  EXPECT_EQ(LockKey::parse(decomposed)->str().size(), 512U);
  // U+0958 is excluded from composition: three bytes become six.
  std::string grows;
  for (int i = 0; i < 86; ++i) grows += "\xE0\xA5\x98";
  EXPECT_EQ(grows.size(), 258U);
  EXPECT_EQ(LockKey::parse(grows).error().code(), ErrorCode::InvalidArgument);
}

TEST(LockKey, HasLimitsAtTheEdges) {
  EXPECT_EQ(LockKey::parse("").error().code(), ErrorCode::InvalidArgument);
  EXPECT_TRUE(LockKey::parse("x"));
  EXPECT_TRUE(LockKey::parse(std::string(512, 'x')));
  EXPECT_EQ(LockKey::parse(std::string(513, 'x')).error().code(), ErrorCode::InvalidArgument);
}

TEST(StorageKey, IsInjectiveUpToTruncation) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  std::map<std::string, std::string> seen;
  for (int i = 0; i < 3000; ++i) {
    const auto key = core::nfc(random_text(random, 1 + random.below(40))).value_or_throw();
    const auto stored = core::make_storage_key("p", key, 64, 10).value_or_throw();
    const auto [at, is_new] = seen.emplace(stored, key);
    EXPECT_EQ(at->second, key);
  }
}

TEST(StorageKey, NeverExceedsItsLimit) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 5000; ++i) {
    const std::string prefix(random.below(40), 'p');
    const auto limit = 20 + random.below(60), reserve = random.below(30);
    const auto made =
        core::make_storage_key(prefix, random_text(random, 1 + random.below(40)), limit, reserve);
    if (made) {
      EXPECT_LE(made->size() + reserve, limit);
    } else {
      EXPECT_EQ(made.error().code(), ErrorCode::InvalidArgument);
    }
  }
}

TEST(StorageKey, TruncatesExactlyWhenItMust) {
  // "p:" + key + reserve against the limit.
  EXPECT_EQ(*core::make_storage_key("p", std::string(38, 'k'), 50, 10), "p:" + std::string(38, 'k'));
  EXPECT_EQ(core::make_storage_key("p", std::string(39, 'k'), 50, 10)->size(), 2U + 22U);
}

TEST(StorageKey, DropsTheColonsAtTheEndOfThePrefix) {
  EXPECT_EQ(*core::make_storage_key("p::", "k", 100, 0), "p:k");
  EXPECT_EQ(*core::make_storage_key(":::", "k", 100, 0), "k");
}

TEST(LockId, IsTwentyTwoCharactersOfBase64Url) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(LockId::parse(LockId::generate().str()));
  const std::string good(22, 'A');
  EXPECT_TRUE(LockId::parse(good));
  for (const auto& bad :
       {std::string(), good.substr(1), good + "A", good.substr(1) + "+", good.substr(1) + "=",
        good.substr(1) + " ", good.substr(1) + std::string(1, '\0')}) {
    EXPECT_EQ(LockId::parse(bad).error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(LockId, DoesNotRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 20'000; ++i) seen.emplace(LockId::generate().str());
  EXPECT_EQ(seen.size(), 20'000U);
}

TEST(Ttl, IsPositiveAndAtMostAYearAndADay) {
  using std::chrono::milliseconds;
  EXPECT_TRUE(Ttl::of(milliseconds(1)));
  EXPECT_TRUE(Ttl::of(std::chrono::days(366)));
  for (const auto bad :
       {milliseconds(0), milliseconds(-1), milliseconds(std::chrono::days(366)) + milliseconds(1),
        milliseconds::max(), milliseconds::min()}) {
    EXPECT_EQ(Ttl::of(bad).error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(Liveness, APresentRecordLivesOneSecondPastItsTime) {
  EXPECT_TRUE(core::is_live(10'000, 10'999));
  EXPECT_FALSE(core::is_live(10'000, 11'000));
  EXPECT_FALSE(core::is_due(10'000, 9'999));
  EXPECT_TRUE(core::is_due(10'000, 10'000));
}

}  // namespace
}  // namespace holdfast
