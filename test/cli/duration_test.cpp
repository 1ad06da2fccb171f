#include "arguments/values.hpp"

#include <gtest/gtest.h>

#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ANumberMeansSeconds) {
  EXPECT_EQ(parse_duration("--ttl", "30"), 30s);
  EXPECT_EQ(parse_duration("--ttl", "0.5"), 500ms);
  EXPECT_EQ(parse_duration("--ttl", ".25"), 250ms);
  EXPECT_EQ(parse_duration("--ttl", "0"), 0s);
  EXPECT_EQ(parse_duration("--ttl", "007"), 7s);
}

TEST(Duration, AUnitMayFollow) {
  EXPECT_EQ(parse_duration("--ttl", "500ms"), 500ms);
  EXPECT_EQ(parse_duration("--ttl", "30s"), 30s);
  EXPECT_EQ(parse_duration("--ttl", "5m"), 5min);
  EXPECT_EQ(parse_duration("--ttl", "2h"), 2h);
  EXPECT_EQ(parse_duration("--ttl", "1d"), 24h);
  EXPECT_EQ(parse_duration("--ttl", "1.5m"), 90s);
  EXPECT_EQ(parse_duration("--ttl", "0.001s"), 1ms);
}

TEST(Duration, WhatIsNotWholeMillisecondsIsRefusedNotRounded) {
  EXPECT_THROW((void)parse_duration("--ttl", "0.0001"), UsageError);
  EXPECT_THROW((void)parse_duration("--ttl", "1.5ms"), UsageError);
  EXPECT_THROW((void)parse_duration("--ttl", "0.0000000000001d"), UsageError);
  EXPECT_EQ(parse_duration("--ttl", "0.001000000000000000000"), 1ms);
}

TEST(Duration, NonsenseIsRefused) {
  for (const char* text :
       {"",    " ",   "abc", "-1", "-0.5s", "+5", "5 s",  " 5",    "5s ",   "1e3", "0x10", "inf",
        "nan", "NaN", "5x",  "s",  ".",     "5.", "1..2", "1.2.3", "1m30s", "5S",  "--",   "٣"}) {
    EXPECT_THROW((void)parse_duration("--ttl", text), UsageError) << '"' << text << '"';
  }
}

TEST(Duration, OverflowIsRefused) {
  for (const char* text : {"99999999999999999999", "18446744073709551616ms", "9223372036854775807", "36526d",
                           "1000000000000000000d"}) {
    EXPECT_THROW((void)parse_duration("--ttl", text), UsageError) << text;
  }
  EXPECT_EQ(parse_duration("--ttl", "36525d"), std::chrono::days(36525));
}

TEST(Duration, TheMessageNamesTheOptionAndWhatToTypeInstead) {
  try {
    (void)parse_duration("--wait", "soon");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "--wait: \"soon\" is not a duration; use seconds (30, 0.5) or a unit (500ms, 30s, 5m, 2h, 1d)");
  }
}

TEST(Duration, ZeroIsRefusedWhereItMakesNoSense) {
  EXPECT_THROW((void)parse_positive_duration("--ttl", "0"), UsageError);
  EXPECT_THROW((void)parse_positive_duration("--ttl", "0.000"), UsageError);
  EXPECT_EQ(parse_positive_duration("--ttl", "1ms"), 1ms);
}

TEST(Duration, IsDescribedInAUnitThatShowsItWell) {
  EXPECT_EQ(describe(5ms), "5 ms");
  EXPECT_EQ(describe(30s), "30 s");
  EXPECT_EQ(describe(1500ms), "1.5 s");
  EXPECT_EQ(describe(5min), "5 min");
  EXPECT_EQ(describe(3h), "3 h");
  EXPECT_EQ(describe(std::chrono::days(9)), "9 d");
}

}  // namespace
}  // namespace holdfast::cli
