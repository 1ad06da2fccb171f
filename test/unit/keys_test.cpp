#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <holdfast/lock_types.hpp>
#include <map>
#include <set>
#include <vector>

#include "core/liveness.hpp"
#include "core/nfc.hpp"
#include "core/storage_key.hpp"
#include "support/liveness.hpp"
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

std::string utf8(std::initializer_list<std::int32_t> points) {
  std::string text;
  for (const auto point : points) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto size = utf8proc_encode_char(point, bytes.data());
    text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
  }
  return text;
}

TEST(NormalForm, IsThatOfUtf8proc) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 5000; ++i) {
    auto text = random_text(random, 1 + random.below(30));
    // Any code points too, and marks above all: their order is what we decide ourselves.
    for (auto more = random.below(6); more > 0; --more) {
      const auto point = random.below(2) == 0 ? 0x300 + random.below(0x70) : random.below(0x110000);
      if (point < 0xD800 || point > 0xDFFF) text += utf8({static_cast<std::int32_t>(point)});
    }
    auto* const theirs = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(core::nfc(text).value_or_throw().c_str(), std::string(reinterpret_cast<const char*>(theirs)));
    std::free(theirs);
  }
}

// By swapping neighbours, as utf8proc_map orders them, this takes minutes.
TEST(NormalForm, OfManyMarksTakesNoLongerThanOfOtherText) {
  std::string text = "a";
  std::string below, above;
  for (int i = 0; i < 100'000; ++i) {
    above += "\xCC\x80";  // U+0300, class 230
    below += "\xCC\xA3";  // U+0323, class 220
  }
  const auto normalised = core::nfc(text + above + below).value_or_throw();
  EXPECT_EQ(normalised.substr(0, 5), "\xE1\xBA\xA1\xCC\xA3");  // composed with the first U+0323
  EXPECT_EQ(normalised.size(), 3 + below.size() - 2 + above.size());
  EXPECT_EQ(key_hash(text + above + below), key_hash(normalised));
}

/// The longest that a code point in full decomposition can be written, by itself.
std::vector<std::size_t> longest_spellings(const std::vector<std::vector<std::int32_t>>& decompositions,
                                           const std::vector<std::size_t>& bytes) {
  auto longest = bytes;
  for (std::size_t point = 0; point < bytes.size(); ++point) {
    const auto& parts = decompositions[point];
    if (parts.size() != 1) continue;
    auto& of_part = longest[static_cast<std::size_t>(parts[0])];
    of_part = std::max(of_part, bytes[point]);
  }
  return longest;
}

// Let w(p) be the longest spelling of a decomposed code point p alone. If no code point is longer than the
// sum of w over its decomposition, then a text is no longer than the sum over its decomposition, which it
// shares with its normal form; and that is at most the largest sum-per-byte of a single code point times the
// normal form's length.
TEST(NormalForm, ShrinksByNoMoreThanItsBound) {
  constexpr std::size_t points = 0x110000;
  std::vector<std::vector<std::int32_t>> decompositions(points);
  std::vector<std::size_t> bytes(points);
  for (std::size_t point = 0; point < points; ++point) {
    std::array<std::int32_t, 32> parts{};
    int unused = 0;
    const auto count = utf8proc_decompose_char(static_cast<std::int32_t>(point), parts.data(), parts.size(),
                                               UTF8PROC_DECOMPOSE, &unused);
    ASSERT_GT(count, 0);
    decompositions[point].assign(parts.begin(), parts.begin() + count);
    bytes[point] = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  const auto longest = longest_spellings(decompositions, bytes);
  double worst = 0;
  for (std::size_t point = 0; point < points; ++point) {
    std::size_t sum = 0;
    for (const auto part : decompositions[point]) sum += longest[static_cast<std::size_t>(part)];
    ASSERT_LE(bytes[point], sum) << point;
    worst = std::max(worst, static_cast<double>(sum) / static_cast<double>(bytes[point]));
  }
  EXPECT_LE(worst, core::nfc_shrinks_at_most);
  EXPECT_GE(worst, 3.5);  // U+0390: see below
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

TEST(LockKey, IsAcceptedInItsLongestSpelling) {
  std::string longest;
  for (int i = 0; i < 256; ++i) longest += utf8({0x1FBE, 0x308, 0x301});
  EXPECT_EQ(longest.size(), 1792U);
  EXPECT_EQ(LockKey::parse(longest)->str().size(), 512U);
}

// Normalised first, 16 MB of marks would keep a process busy for days.
TEST(LockKey, ThatIsFarTooLongIsRefusedByItsLength) {
  std::string marks;
  for (int i = 0; i < 4'000'000; ++i) marks += i < 2'000'000 ? "\xCC\x80" : "\xCC\xA3";
  for (const auto& text : {marks, marks.substr(0, 2050), std::string(600, 'x')}) {
    const auto refused = LockKey::parse(text);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              "key exceeds maximum length: " + std::to_string(text.size()) + " bytes, at most 512");
  }
}

// U+40000 stands for any code point that a later version of Unicode may assign.
TEST(LockKey, WhoseNormalFormNewerUnicodeMayChangeIsRefused) {
  const std::int32_t unknown = 0x40000;
  ASSERT_EQ(utf8proc_category(unknown), UTF8PROC_CATEGORY_CN);
  const auto is_refused = [](const std::string& text) {
    const auto key = LockKey::parse(text);
    EXPECT_EQ(LockKey::stored(text)->str(), core::nfc(text).value_or_throw());
    return !key && key.error().code() == ErrorCode::InvalidArgument &&
           key.error().message().starts_with("invalid key: U+");
  };
  // It may turn out to be a mark, and change places with others or be passed over by a composition.
  EXPECT_TRUE(is_refused(utf8({'a', unknown, 0x323})));
  EXPECT_TRUE(is_refused(utf8({'q', 0x301, unknown})));
  EXPECT_TRUE(is_refused(utf8({unknown, 0x301, 'a'})));
  // U+0958 does not look like a mark, but its normal form ends with one.
  EXPECT_TRUE(is_refused(utf8({0x958, unknown})));
  // Two of them may turn out to be one.
  EXPECT_TRUE(is_refused(utf8({unknown, unknown + 1})));
  // Among the compatibility ideographs it may turn out to be another way to write a known one.
  if (utf8proc_category(0xFADA) == UTF8PROC_CATEGORY_CN) {
    EXPECT_TRUE(is_refused(utf8({'a', 0xFADA})));
  }

  EXPECT_FALSE(is_refused(utf8({'a', unknown, 'b'})));
  EXPECT_FALSE(is_refused(utf8({'a', unknown, '-', unknown})));
  EXPECT_FALSE(is_refused(utf8({'e', 0x301, unknown})));        // composed: é
  EXPECT_FALSE(is_refused(utf8({0x1FAFF, 0x1FAFE, 0x1FFFD})));  // reserved for emoji
  EXPECT_FALSE(is_refused(utf8({0x1F469, 0x200D, 0x1FAFF, 0xFE0F})));
  EXPECT_FALSE(is_refused(utf8({0x3FFFD, 0x3FFFC, 0x301})));       // reserved for ideographs
  EXPECT_FALSE(is_refused(utf8({0xFFFF, 0x301, 0xFDD0, 0x301})));  // never to be assigned
  EXPECT_FALSE(is_refused(utf8({0xE000, 0x301, 0xF8FF})));         // private use
}

// What Unicode 16 and 17 brought, for a build that does not know it; and one that does must not refuse it.
TEST(LockKey, ThatUnicode16NormalisesOtherwiseIsRefusedUnlessThisBuildKnowsIt) {
  const std::vector<std::string> changed{
      utf8({'x', 0x897, 0x323}),  // ARABIC PEPET, class 230: the dot below comes first
      utf8({0x105D2, 0x307}),     // composes to U+105C9
      utf8({0x16D67, 0x16D67}),   // composes to U+16D68
      utf8({0x1611E, 0x16129}),   // composes to U+16122
      utf8({0x113C2, 0x113C9}),   // composes to U+113C8
  };
  const bool known = utf8proc_category(0x105D2) != UTF8PROC_CATEGORY_CN;
  for (const auto& text : changed) EXPECT_EQ(LockKey::parse(text).ok(), known) << text;
  EXPECT_TRUE(LockKey::parse(utf8({'x', 0x897})));
  EXPECT_TRUE(LockKey::parse(utf8({0x1FAE9, 0x1FADC, 0x1FAE9})));
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
    EXPECT_TRUE(LockId::parse(bad).error().message().starts_with("Invalid lockId format"))
        << "SyncGuard's words";
  }
}

TEST(LockKey, AsAnArgumentIsTextThatIsCheckedOrAKeyThatWas) {
  const std::string decomposed = "e\u0301";
  const auto composed = LockKey::parse("\u00e9").value_or_throw();
  EXPECT_EQ(*LockKeyView(decomposed).parse(), composed);
  EXPECT_EQ(*LockKeyView(std::string_view(decomposed)).parse(), composed);
  EXPECT_EQ(*LockKeyView("e\u0301").parse(), composed);
  EXPECT_EQ(*LockKeyView(composed).parse(), composed);
  EXPECT_EQ(LockKeyView("").parse().error().code(), ErrorCode::InvalidArgument);
  auto moved_from = composed;
  const auto moved = std::move(moved_from);
  EXPECT_EQ(LockKeyView(moved).parse()->str(), composed.str());
  // NOLINTNEXTLINE(bugprone-use-after-move): it must not pass for a key.
  EXPECT_EQ(LockKeyView(moved_from).parse().error().code(), ErrorCode::InvalidArgument);
}

TEST(SharedText, IsSharedByItsCopiesAndEmptyAfterAMove) {
  SharedText one = std::string("a text");
  const SharedText copy = one;
  EXPECT_EQ(&copy.str(), &one.str());
  EXPECT_EQ(copy, SharedText("a text"));
  EXPECT_EQ(copy, "a text");
  EXPECT_NE(copy, SharedText("another"));
  const SharedText moved = std::move(one);
  EXPECT_EQ(moved.size(), 6U);
  EXPECT_TRUE(one.empty());  // NOLINT(bugprone-use-after-move): that is the promise
  EXPECT_EQ(one.str(), "");
  EXPECT_TRUE(SharedText("").empty());
  EXPECT_EQ(SharedText(), SharedText(""));
}

TEST(LockId, IsNilUnlessItWasMade) {
  EXPECT_TRUE(LockId().is_nil());
  EXPECT_FALSE(LockId::generate().is_nil());
  EXPECT_FALSE(LockId::parse(LockId().str())) << "no caller can name it";
}

TEST(LockId, DoesNotRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 20'000; ++i) seen.emplace(LockId::generate().str());
  EXPECT_EQ(seen.size(), 20'000U);
}

TEST(LockInfo, HasWhatTheRecordHasButKeyAndId) {
  const LockRecord record{.key = *LockKey::parse("k"),
                          .id = LockId::generate(),
                          .fence = *Fence::of(7),
                          .acquired_at = WallTime(std::chrono::milliseconds(1)),
                          .expires_at = WallTime(std::chrono::milliseconds(2)),
                          .fence_digits = 19,
                          .holder = *LockHolder::parse("alice@web-3:812 make")};
  const auto info = sanitised(record);
  EXPECT_EQ(info.key_hash, key_hash("k"));
  EXPECT_EQ(info.lock_id_hash, key_hash(record.id.str()));
  EXPECT_EQ(info.fence, record.fence);
  EXPECT_EQ(info.acquired_at, record.acquired_at);
  EXPECT_EQ(info.expires_at, record.expires_at);
  EXPECT_EQ(info.fence_digits, 19);
  EXPECT_EQ(info.holder, record.holder);
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
  EXPECT_TRUE(test::is_live(10'000, 10'999));
  EXPECT_FALSE(test::is_live(10'000, 11'000));
  EXPECT_FALSE(core::is_due(10'000, 9'999));
  EXPECT_TRUE(core::is_due(10'000, 10'000));
}

}  // namespace
}  // namespace holdfast
