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
  EXPECT_EQ(fences.of("k").fence, 0U);
  EXPECT_EQ(fences.granted("k", {.fence = 7}, "a"), Authority::same);
  EXPECT_EQ(fences.granted("other", {.fence = 3}, "a"), Authority::same);
  EXPECT_EQ(fences.granted("k", {.fence = 5}, "a"), Authority::same) << "an answer that was overtaken";
  EXPECT_EQ(fences.of("k").fence, 7U);
  EXPECT_EQ(fences.of("other").fence, 3U);
  fences.granted("k", {.fence = 9, .epoch = 4}, "a");
  EXPECT_EQ(fences.of("k").epoch, 4U) << "of the master that granted it";
}

TEST(RememberedFences, TheKeyWhoseGrantIsLongestAgoIsForgottenFirst) {
  RememberedFences fences(2);
  fences.granted("a", {.fence = 1}, "x");
  fences.granted("b", {.fence = 2}, "x");
  fences.granted("a", {.fence = 3}, "x");
  fences.granted("c", {.fence = 4}, "x");
  EXPECT_EQ(fences.of("a").fence, 3U);
  EXPECT_EQ(fences.of("b").fence, 0U);
  EXPECT_EQ(fences.of("c").fence, 4U);
}

TEST(RememberedFences, AStoreThatWasReplacedIsReportedOnceAndItsFencesAreNotCompared) {
  RememberedFences fences;
  fences.granted("k", {.fence = 700}, "a");
  fences.granted("l", {.fence = 800}, "a");
  EXPECT_EQ(fences.granted("k", {.fence = 1}, "b"), Authority::replaced);
  EXPECT_EQ(fences.of("k").fence, 1U);
  EXPECT_EQ(fences.granted("l", {.fence = 801}, "b"), Authority::also_replaced);
  EXPECT_EQ(fences.granted("new", {.fence = 1}, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", {.fence = 2}, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", {.fence = 1}, "c"), Authority::replaced) << "once more";
}

TEST(RememberedFences, KeysMayHaveAuthoritiesOfTheirOwn) {
  RememberedFences fences;
  EXPECT_EQ(fences.granted("k", {.fence = 1}, "a"), Authority::same);
  EXPECT_EQ(fences.granted("l", {.fence = 1}, "b"), Authority::same);
  EXPECT_EQ(fences.granted("k", {.fence = 2}, "a"), Authority::same);
  EXPECT_EQ(fences.granted("l", {.fence = 1}, "c"), Authority::replaced);
  EXPECT_EQ(fences.granted("k", {.fence = 1}, "d"), Authority::replaced);
}

TEST(RememberedFences, ManyGrantsAreRememberedAsAPlainMapWould) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  RememberedFences fences(1000);
  std::map<std::string, std::uint64_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const auto key = std::to_string(random.below(500));
    const auto fence = random.below(1'000'000);
    fences.granted(key, {.fence = fence}, "a");
    model[key] = std::max<std::uint64_t>(model[key], fence);
  }
  for (const auto& [key, fence] : model) EXPECT_EQ(fences.of(key).fence, fence) << key;
}

}  // namespace
}  // namespace holdfast::redis
