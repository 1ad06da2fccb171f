#include "locks/risk_reports.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::locks {
namespace {

class RiskReportsTest : public testing::Test {
 protected:
  /// The calls that one thread makes after `begin` returned true.
  std::vector<bool> calls(bool at_risk, bool ended = false) {
    told_.clear();
    while (const auto callback = reports_.next(at_risk, ended)) (*callback)(at_risk);
    return told_;
  }

  void set_callback() {
    auto callback = callback_;
    reports_.swap(callback);
  }

  std::vector<bool> told_;
  RiskReports reports_;
  std::shared_ptr<RiskReports::Callback> callback_ =
      std::make_shared<RiskReports::Callback>([this](bool at_risk) { told_.push_back(at_risk); });
};

TEST_F(RiskReportsTest, EachChangeIsReportedOnce) {
  set_callback();
  EXPECT_FALSE(reports_.begin(false)) << "nothing has changed";
  ASSERT_TRUE(reports_.begin(true));
  EXPECT_FALSE(reports_.begin(true)) << "a thread is there already";
  EXPECT_EQ(calls(true), std::vector{true});
  EXPECT_FALSE(reports_.begin(true));
  ASSERT_TRUE(reports_.begin(false));
  EXPECT_EQ(calls(false), std::vector{false});
}

TEST_F(RiskReportsTest, AChangeThatWasUndoneMeanwhileIsNotReported) {
  set_callback();
  ASSERT_TRUE(reports_.begin(true));
  EXPECT_TRUE(calls(false).empty());
  EXPECT_TRUE(reports_.begin(true)) << "the thread has left";
}

TEST_F(RiskReportsTest, AChangeDuringACallIsReportedAfterItByTheSameThread) {
  set_callback();
  ASSERT_TRUE(reports_.begin(true));
  ASSERT_TRUE(reports_.next(true, false));
  EXPECT_FALSE(reports_.begin(false)) << "calls do not overlap";
  EXPECT_TRUE(reports_.next(false, false));
  EXPECT_FALSE(reports_.next(false, false));
}

TEST_F(RiskReportsTest, NothingIsReportedAfterTheEndOrWithoutACallback) {
  EXPECT_FALSE(reports_.begin(true));
  set_callback();
  ASSERT_TRUE(reports_.begin(true));
  EXPECT_TRUE(calls(true, true).empty());
}

TEST_F(RiskReportsTest, ANewCallbackLearnsOfAPresentRisk) {
  set_callback();
  ASSERT_TRUE(reports_.begin(true));
  EXPECT_EQ(calls(true), std::vector{true});
  set_callback();
  ASSERT_TRUE(reports_.begin(true));
  EXPECT_EQ(calls(true), std::vector{true});
}

}  // namespace
}  // namespace holdfast::locks
