#include "waiting/poll_pace.hpp"

#include <gtest/gtest.h>

namespace holdfast::waiting {
namespace {

using namespace std::chrono_literals;

constexpr BootTime noon{12h};

TEST(PollPace, TheFirstPollMayBeginAtOnce) {
  PollPace pace;
  EXPECT_LE(pace.next(noon, false), noon);
}

TEST(PollPace, ARoundIsFollowedByAPauseOfFourTimesItsLength) {
  PollPace pace;
  pace.begin(noon);
  pace.begin(noon + 5ms);  // of the same round
  EXPECT_EQ(pace.next(noon + 10ms, false), noon + 50ms);
  EXPECT_EQ(pace.next(noon + 30ms, false), noon + 50ms);
  pace.begin(noon + 50ms);
  EXPECT_EQ(pace.next(noon + 51ms, false), noon + 55ms);
}

TEST(PollPace, WhileARoundIsPendingNoPollBegins) {
  PollPace pace;
  pace.begin(noon);
  EXPECT_GT(pace.next(noon, true), noon);
  EXPECT_EQ(pace.next(noon + 1s, true), noon + 5s) << "the least that the pause will be";
  EXPECT_EQ(pace.next(noon + 2s, true), noon + 10s);
  EXPECT_EQ(pace.next(noon + 3s, false), noon + 15s);
}

}  // namespace
}  // namespace holdfast::waiting
