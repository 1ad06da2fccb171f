#include <gtest/gtest.h>

#include <chrono>

#include "locks/release_loop.hpp"

namespace holdfast::locks {
namespace {

using namespace std::chrono_literals;
using For = ReleaseLoop::For;

const BootTime release_begins{std::chrono::hours(1)};

ReleaseRequest release_until(BootTime deadline) {
  return {.lock = {.id = LockId::generate(), .key = LockKey::parse("k").value_or_throw()},
          .deadline = deadline};
}
Result<ReleaseOutcome> lost_answer() {
  return Error(ErrorCode::NetworkTimeout, "no answer in time");
}
/// When to send again; nothing if that was the end.
std::optional<BootTime> next_send(ReleaseLoop& loop, const Result<ReleaseOutcome>& answer, BootTime now,
                                  bool stopped = false) {
  return loop.resend_at(answer, now, stopped);
}

TEST(ReleaseLoop, AnAnswerIsTheEndForBoth) {
  for (const auto whom : {For::holder, For::id_in_doubt}) {
    for (const ReleaseOutcome& outcome :
         {ReleaseOutcome(Released{}), ReleaseOutcome(Absence::not_found), ReleaseOutcome(Absence::expired)}) {
      ReleaseLoop loop(release_until(never), whom);
      EXPECT_FALSE(next_send(loop, outcome, release_begins));
    }
  }
}

TEST(ReleaseLoop, AHolderAsksASecondTimeAtOnceAndSaysSo) {
  ReleaseLoop loop(release_until(release_begins + 10s), For::holder);
  EXPECT_FALSE(loop.request().asked_before);
  EXPECT_EQ(next_send(loop, lost_answer(), release_begins), release_begins);
  EXPECT_TRUE(loop.request().asked_before) << "the engine must judge whether the first one did it";
  EXPECT_FALSE(next_send(loop, lost_answer(), release_begins)) << "then it is unknown";
}

TEST(ReleaseLoop, AHolderAsksNoMoreOnceItsTimeIsUp) {
  ReleaseLoop loop(release_until(release_begins + 1s), For::holder);
  EXPECT_FALSE(next_send(loop, lost_answer(), release_begins + 1s));
  EXPECT_FALSE(loop.request().asked_before);
}

TEST(ReleaseLoop, AnIdInDoubtIsAskedForAgainAfterGrowingPausesAsLongAsItCouldHoldTheLock) {
  ReleaseLoop loop(release_until(release_begins + 30s), For::id_in_doubt);
  auto now = release_begins;
  std::vector<std::chrono::milliseconds> pauses;
  while (const auto at = next_send(loop, lost_answer(), now)) {
    pauses.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(*at - now));
    now = *at;
  }
  EXPECT_EQ(pauses, (std::vector<std::chrono::milliseconds>{100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5s,
                                                            5s, 5s, 5s}));
  EXPECT_LT(now, release_begins + 30s);
  EXPECT_FALSE(loop.request().asked_before)
      << "whether it held the lock is of no interest, so 'nothing' is an answer";
}

TEST(ReleaseLoop, WhatIsNoLostAnswerIsNotAskedAgain) {
  for (const auto whom : {For::holder, For::id_in_doubt}) {
    ReleaseLoop loop(release_until(never), whom);
    EXPECT_FALSE(next_send(loop, Error(ErrorCode::AuthFailed, "no"), release_begins));
  }
}

TEST(ReleaseLoop, AStopEndsIt) {
  for (const auto whom : {For::holder, For::id_in_doubt}) {
    ReleaseLoop loop(release_until(never), whom);
    EXPECT_FALSE(next_send(loop, lost_answer(), release_begins, true));
  }
}

}  // namespace
}  // namespace holdfast::locks
