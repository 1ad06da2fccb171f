#include "core/rfc3339.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "core/wall_time.hpp"

namespace holdfast::core {
namespace {

/// What is not a time is empty.
std::optional<std::int64_t> parsed(std::string_view text) {
  const auto time = parse_rfc3339(text);
  return time ? std::optional(to_ms(*time)) : std::nullopt;
}

TEST(Rfc3339, ATimeIsItsMillisecondsSinceTheEpoch) {
  EXPECT_EQ(parsed("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parsed("2001-09-09T01:46:40Z"), 1'000'000'000'000);
  EXPECT_EQ(parsed("2024-02-29T12:34:56.789Z"), 1'709'210'096'789);
  EXPECT_EQ(parsed("9999-12-31T23:59:59.999Z"), 253'402'300'799'999);
}

TEST(Rfc3339, FractionalDigitsBeyondTheThirdAreCutOff) {
  const std::pair<const char*, int> fractions[] = {
      {".1", 100},         {".12", 120},      {".123", 123}, {".1239", 123}, {".123999", 123},
      {".123456789", 123}, {".000999999", 0}, {".9", 900},   {".009", 9},    {".99999999999999999999", 999}};
  for (const auto& [fraction, ms] : fractions) {
    EXPECT_EQ(parsed(std::string("1970-01-01T00:00:00") + fraction + "Z"), ms) << fraction;
  }
}

TEST(Rfc3339, AnOffsetIsTakenOff) {
  EXPECT_EQ(parsed("1970-01-01T01:00:00+01:00"), 0);
  EXPECT_EQ(parsed("1970-01-01T05:45:00.5+05:45"), 500);
  EXPECT_EQ(parsed("1969-12-31T19:00:00-05:00"), 0);
  EXPECT_EQ(parsed("1970-01-01T00:00:00+00:00"), 0);
  EXPECT_EQ(parsed("1970-01-01T00:00:00-00:00"), 0);
  EXPECT_EQ(parsed("1970-01-02T23:59:00+23:59"), 86'400'000);
}

TEST(Rfc3339, LettersMayBeSmallAndASpaceMayStandForTheT) {
  EXPECT_EQ(parsed("1970-01-01t00:00:01z"), 1000);
  EXPECT_EQ(parsed("1970-01-01 00:00:01Z"), 1000);
}

TEST(Rfc3339, ALeapSecondIsTheFirstOfTheNextMinute) {
  EXPECT_EQ(parsed("2016-12-31T23:59:60Z"), parsed("2017-01-01T00:00:00Z"));
}

TEST(Rfc3339, WhatIsNoTimeIsNothing) {
  for (const char* text : {"",
                           "Z",
                           "2024",
                           "2024-01-01",
                           "2024-01-01T00:00:00",
                           "2024-01-01T00:00Z",
                           "2024-1-01T00:00:00Z",
                           "2024-01-1T00:00:00Z",
                           "24-01-01T00:00:00Z",
                           "2024-00-01T00:00:00Z",
                           "2024-13-01T00:00:00Z",
                           "2024-01-00T00:00:00Z",
                           "2024-01-32T00:00:00Z",
                           "2024-04-31T00:00:00Z",
                           "2023-02-29T00:00:00Z",
                           "1900-02-29T00:00:00Z",
                           "2024-01-01T24:00:00Z",
                           "2024-01-01T00:60:00Z",
                           "2024-01-01T00:00:61Z",
                           "2024-01-01T00:00:00.Z",
                           "2024-01-01T00:00:00,5Z",
                           "2024-01-01T00:00:00+0100",
                           "2024-01-01T00:00:00+01",
                           "2024-01-01T00:00:00+24:00",
                           "2024-01-01T00:00:00+01:60",
                           "2024-01-01T00:00:00ZZ",
                           "2024-01-01T00:00:00Z ",
                           " 2024-01-01T00:00:00Z",
                           "+2024-01-01T00:00:00Z",
                           "-024-01-01T00:00:00Z",
                           "2024-01-01T-1:00:00Z",
                           "2024-01-01T00:00:00.-1Z",
                           "2024-01-01X00:00:00Z",
                           "20240101T000000Z",
                           "1709210096789",
                           "now"}) {
    EXPECT_EQ(parsed(text), std::nullopt) << text;
  }
}

TEST(Rfc3339, ATimeBeforeTheEpochIsNegative) {
  EXPECT_EQ(parsed("1969-12-31T23:59:59.999Z"), -1);
  EXPECT_EQ(parsed("1970-01-01T00:00:00+00:01"), -60'000);
  EXPECT_EQ(parsed("0000-01-01T00:00:00Z"), -62'167'219'200'000);
}

TEST(Rfc3339, FormattedTimesAreUtcWithThreeDigitsAndReadBackTheSame) {
  EXPECT_EQ(format_rfc3339(from_ms(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_rfc3339(from_ms(1'709'210'096'009)), "2024-02-29T12:34:56.009Z");
  EXPECT_EQ(format_rfc3339(from_ms(253'402'300'799'999)), "9999-12-31T23:59:59.999Z");
  for (std::int64_t ms = 1; ms < 253'402'300'800'000; ms = ms * 3 + 7) {
    EXPECT_EQ(parsed(format_rfc3339(from_ms(ms))), ms);
  }
}

}  // namespace
}  // namespace holdfast::core
