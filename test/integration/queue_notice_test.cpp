// The time that a worker has to stop.

#include <gtest/gtest.h>

#include <holdfast/open.hpp>

#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class QueueNotice : public testing::Test {
 protected:
  Holdfast holdfast = open("memory:");
  Queue queue = holdfast.queue("q");
};

TEST_F(QueueNotice, AWorkerHasTheTimeToStopThatItAskedForAndItsOutcomeIsAccepted) {
  (void)queue.add({.attempt_limit = 900ms});
  auto job = queue.claim_next({.notice = 10s});
  ASSERT_TRUE(job);
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_EQ(job->loss_reason(), LossReason::max_hold);
  EXPECT_GT(job->remaining(), 0ms);
  EXPECT_LE(job->remaining(), 300ms) << "a third of the attempt's limit at most";
  EXPECT_EQ(job->complete().status, TaskStatus::completed);
}

TEST_F(QueueNotice, AJobThatHasEndedTakesNoLeaseFromTheNextOneWhenItIsDestroyed) {
  for (int i = 0; i < 3; ++i) (void)queue.add(NewQueueTask{});
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  (void)job->complete();
  job = queue.claim_next();  // the one that has ended is destroyed after this claim
  ASSERT_TRUE(job);
  EXPECT_GT(job->remaining(), 20s);
  job = job->complete_and_claim({});
  ASSERT_TRUE(job);
  EXPECT_GT(job->remaining(), 20s);
}

TEST_F(QueueNotice, OneThatIsTooLongIsRefused) {
  try {
    (void)queue.claim_next({.lease = 9s, .notice = 3001ms});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(error.message(),
              "invalid notice: 3001 ms is more than a third of the lease of 9000 ms. Use a longer lease or a "
              "shorter notice");
  }
}

}  // namespace
}  // namespace holdfast::test
