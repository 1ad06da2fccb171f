#include "metrics/metrics_page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace holdfast::cli {
namespace {

constexpr std::string_view counters =
    "# HELP holdfast_runs_total Runs.\n"
    "# TYPE holdfast_runs_total counter\n"
    "holdfast_runs_total{holdfast_job=\"a\",result=\"ok\"} 2\n"
    "# HELP holdfast_wait_seconds Waits.\n"
    "# TYPE holdfast_wait_seconds histogram\n"
    "holdfast_wait_seconds_bucket{holdfast_job=\"a\",le=\"0.5\"} 1\n"
    "holdfast_wait_seconds_bucket{holdfast_job=\"a\",le=\"+Inf\"} 3\n"
    "holdfast_wait_seconds_sum{holdfast_job=\"a\"} 4.25\n"
    "holdfast_wait_seconds_count{holdfast_job=\"a\"} 3\n"
    "# HELP holdfast_held Held.\n"
    "# TYPE holdfast_held gauge\n"
    "holdfast_held{holdfast_job=\"a\"} 1\n";

TEST(MetricsPages, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(MetricsPage::parse(counters).text(), counters);
}

TEST(MetricsPages, CountersGoOnFromTheEarlierPageAndGaugesDoNot) {
  auto page = MetricsPage::parse(counters);
  page.add_counters_of(MetricsPage::parse(counters), "holdfast_job", "a");
  EXPECT_EQ(page.value("holdfast_runs_total{holdfast_job=\"a\",result=\"ok\"}"), 4);
  EXPECT_EQ(page.value("holdfast_wait_seconds_bucket{holdfast_job=\"a\",le=\"0.5\"}"), 2);
  EXPECT_EQ(page.value("holdfast_wait_seconds_bucket{holdfast_job=\"a\",le=\"+Inf\"}"), 6);
  EXPECT_EQ(page.value("holdfast_wait_seconds_sum{holdfast_job=\"a\"}"), 8.5);
  EXPECT_EQ(page.value("holdfast_held{holdfast_job=\"a\"}"), 1);
}

TEST(MetricsPages, ASeriesThatDidNotAppearAgainIsKept) {
  auto page = MetricsPage::parse(
      "# HELP holdfast_runs_total Runs.\n"
      "# TYPE holdfast_runs_total counter\n"
      "holdfast_runs_total{holdfast_job=\"a\",result=\"failed\"} 1\n");
  page.add_counters_of(MetricsPage::parse(counters), "holdfast_job", "a");
  EXPECT_EQ(page.value("holdfast_runs_total{holdfast_job=\"a\",result=\"failed\"}"), 1);
  EXPECT_EQ(page.value("holdfast_runs_total{holdfast_job=\"a\",result=\"ok\"}"), 2);
}

TEST(MetricsPages, SeriesOfAnotherJobAreNotTakenOver) {
  auto page = MetricsPage::parse(counters);
  auto other = std::string(counters);
  for (auto at = other.find("\"a\""); at != std::string::npos; at = other.find("\"a\"")) other[at + 1] = 'b';
  page.add_counters_of(MetricsPage::parse(other), "holdfast_job", "a");
  EXPECT_EQ(page.text(), counters);
}

TEST(MetricsPages, AHistogramWithOtherBucketsBeginsAnew) {
  auto other = std::string(counters);
  other.replace(other.find("0.5"), 3, "0.7");
  auto page = MetricsPage::parse(counters);
  page.add_counters_of(MetricsPage::parse(other), "holdfast_job", "a");
  EXPECT_EQ(page.value("holdfast_wait_seconds_count{holdfast_job=\"a\"}"), 3);
  EXPECT_EQ(page.value("holdfast_runs_total{holdfast_job=\"a\",result=\"ok\"}"), 4);
}

TEST(MetricsPages, ALabelIsAddedToEverySeries) {
  auto page = MetricsPage::parse(
      "# HELP holdfast_a A.\n# TYPE holdfast_a gauge\nholdfast_a 1\n"
      "# HELP holdfast_b B.\n# TYPE holdfast_b gauge\nholdfast_b{x=\"y\"} 0.001\n");
  page.add_label("holdfast_job", "nightly");
  EXPECT_EQ(page.value("holdfast_a{holdfast_job=\"nightly\"}"), 1);
  EXPECT_EQ(page.value("holdfast_b{holdfast_job=\"nightly\",x=\"y\"}"), 0.001);
}

/// A file in a directory that others can write to may have any content.
TEST(MetricsPages, WhatIsNotOneOfOursIsLeftOut) {
  for (const std::string_view hostile : {
           "# TYPE node_load1 gauge\nnode_load1 1\n",
           "# TYPE holdfast_x summary\nholdfast_x 1\n",
           "# TYPE holdfast_x counter\nholdfast_x nan\nholdfast_x 1e999\nholdfast_x -inf\nholdfast_x\n",
           "# TYPE holdfast_x counter\nholdfast_y 1\n",
           "# TYPE holdfast_x counter\nholdfast_x{a=\"\x1B[2J\"} 1\nholdfast_x{a=\"b\" 1\n",
           "holdfast_x 1\n",
           "# TYPE",
           "# TYPE holdfast_x",
           "\x00\x01\n\n\n",
       }) {
    const auto text = MetricsPage::parse(hostile).text();
    EXPECT_EQ(text.find("\nholdfast"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1B'), std::string::npos);
  }
  auto page = MetricsPage::parse(counters);
  page.add_counters_of(MetricsPage::parse("# TYPE holdfast_runs_total counter\n"
                                          "holdfast_runs_total{holdfast_job=\"a\",result=\"ok\"} -7\n"),
                       "holdfast_job", "a");
  EXPECT_EQ(page.text(), counters) << "a counter does not fall";
  EXPECT_TRUE(std::isnan(page.value("holdfast_nothing")));
}

}  // namespace
}  // namespace holdfast::cli
