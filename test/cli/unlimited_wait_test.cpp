#include "lock_wait/lock_wait.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

/// Ends one wait after the other with the next of its errors, then grants. Waiting takes no time here.
class Script {
 public:
  explicit Script(std::vector<ErrorCode> errors) : errors_(std::move(errors)) {}
  int operator()(std::chrono::milliseconds wait) const {
    waits.push_back(wait);
    if (waits.size() > errors_.size()) return 1;
    throw Error(errors_[waits.size() - 1], "scripted");
  }
  mutable std::vector<std::chrono::milliseconds> waits;

 private:
  std::vector<ErrorCode> errors_;
};

ErrorCode thrown_by(const Script& script, std::chrono::milliseconds limit) {
  try {
    (void)wait_while_reachable(limit, script);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::Internal;
}

TEST(UnlimitedWait, ContentionAloneNeverEndsAWaitWithoutALimit) {
  const Script script(std::vector<ErrorCode>(1000, ErrorCode::AcquisitionTimeout));
  EXPECT_EQ(wait_while_reachable(no_time_limit, script), 1);
  EXPECT_EQ(script.waits, std::vector<std::chrono::milliseconds>(1001, reachability_interval));
}

TEST(UnlimitedWait, ABackendThatStaysAwayEndsAWaitWithoutALimitWithinAMinute) {
  const Script script(
      {ErrorCode::AcquisitionTimeout, ErrorCode::ServiceUnavailable, ErrorCode::NetworkTimeout});
  EXPECT_EQ(thrown_by(script, no_time_limit), ErrorCode::NetworkTimeout);
  EXPECT_EQ(script.waits.size(), 3U);
  EXPECT_LE(2 * reachability_interval, 1min);
}

TEST(UnlimitedWait, ABackendThatComesBackDoesNot) {
  const Script script({ErrorCode::NetworkTimeout, ErrorCode::AcquisitionTimeout, ErrorCode::NetworkTimeout,
                       ErrorCode::AcquisitionTimeout, ErrorCode::NetworkTimeout});
  EXPECT_EQ(wait_while_reachable(no_time_limit, script), 1);
}

TEST(UnlimitedWait, WhatIsNotTransientEndsAWaitAtOnce) {
  const Script script({ErrorCode::AuthFailed});
  EXPECT_EQ(thrown_by(script, no_time_limit), ErrorCode::AuthFailed);
  EXPECT_EQ(script.waits.size(), 1U);
}

TEST(UnlimitedWait, AWaitWithALimitIsOneWait) {
  const Script script({ErrorCode::AcquisitionTimeout});
  EXPECT_EQ(thrown_by(script, 5min), ErrorCode::AcquisitionTimeout);
  EXPECT_EQ(script.waits, std::vector<std::chrono::milliseconds>{5min});
}

}  // namespace
}  // namespace holdfast::cli
