#include "engine/redis/remembered_fences.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "support/seeded.hpp"

namespace holdfast::redis {
namespace {

using Authority = RememberedFences::Authority;

TEST(RememberedFences, TheHighestFenceOfAKeyIsRemembered) {
  RememberedFences fences;
  EXPECT_EQ(fences.of("k"), 0U);
  EXPECT_EQ(fences.granted("k", 7, "a"), Authority::same);
  EXPECT_EQ(fences.granted("other", 3, "a"), Authority::same);
  EXPECT_EQ(fences.granted("k", 5, "a"), Authority::same) << "an answer that was overtaken";
  EXPECT_EQ(fences.of("k"), 7U);
  EXPECT_EQ(fences.of("other"), 3U);
}

TEST(RememberedFences, TheKeyWhoseGrantIsLongestAgoIsForgottenFirst) {
  RememberedFences fences(2);
  fences.granted("a", 1, "x");
  fences.granted("b", 2, "x");
  fences.granted("a", 3, "x");
  fences.granted("c", 4, "x");
  EXPECT_EQ(fences.of("a"), 3U);
  EXPECT_EQ(fences.of("b"), 0U);
  EXPECT_EQ(fences.of("c"), 4U);
}

TEST(RememberedFences, AStoreThatWasReplacedIsReportedOnceAndItsFencesAreNotCompared) {
  RememberedFences fences;
  fences.granted("k", 700, "a");
  fences.granted("l", 800, "a");
  EXPECT_EQ(fences.granted("k", 1, "b"), Authority::replaced);
  EXPECT_EQ(fences.of("k"), 1U);
  EXPECT_EQ(fences.granted("l", 801, "b"), Authority::also_replaced);
  EXPECT_EQ(fences.granted("new", 1, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", 2, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", 1, "c"), Authority::replaced) << "once more";
}

TEST(RememberedFences, KeysMayHaveAuthoritiesOfTheirOwn) {
  RememberedFences fences;
  EXPECT_EQ(fences.granted("k", 1, "a"), Authority::same);
  EXPECT_EQ(fences.granted("l", 1, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", 2, "a"), Authority::same);
  EXPECT_EQ(fences.granted("l", 1, "c"), Authority::replaced);
  EXPECT_EQ(fences.granted("k", 1, "d"), Authority::replaced);
}

TEST(RememberedFences, ManyGrantsAreRememberedAsAPlainMapWould) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  RememberedFences fences(1000);
  std::map<std::string, std::uint64_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const auto key = std::to_string(random.below(500));
    const auto fence = random.below(1'000'000);
    fences.granted(key, fence, "a");
    model[key] = std::max<std::uint64_t>(model[key], fence);
  }
  for (const auto& [key, fence] : model) EXPECT_EQ(fences.of(key), fence) << key;
}

}  // namespace
}  // namespace holdfast::redis
