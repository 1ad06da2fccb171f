#include "engine/redis/replica_wait.hpp"

#include <gtest/gtest.h>

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;

constexpr BootTime start{1000s};

TEST(ReplicaWait, AsManyReplicasAsNeededAreEnough) {
  ReplicaWait wait(2, 1s);
  EXPECT_FALSE(wait.enough());
  wait.changed(1, start, never);
  EXPECT_FALSE(wait.enough());
  wait.counted(2, 1, start + 1ms);
  EXPECT_TRUE(wait.enough());
  EXPECT_EQ(wait.acknowledged(), 2U);
}

TEST(ReplicaWait, FewerAreNotAndTheMessageSaysHowManyInWhatTime) {
  ReplicaWait wait(2, 1s);
  wait.changed(1, start, never);
  wait.counted(1, 1, start + 1s);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.shortage(), "1 of 2 replicas acknowledged it within 1000 ms");
}

TEST(ReplicaWait, ACountOfAnotherConnectionProvesNothing) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, start, never);
  wait.counted(5, 2, start + 1ms);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.acknowledged(), std::nullopt);
  EXPECT_EQ(wait.shortage(), "the connection was lost before 1 replica acknowledged it");
}

TEST(ReplicaWait, NoAnswerProvesNothing) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, start, never);
  wait.counted(std::nullopt, 1, start + 1s);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.shortage(), "it is unknown whether 1 replica acknowledged it");
}

TEST(ReplicaWait, ItEndsBeforeTheDeadlineAndNeverMeansForEver) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, start, never);
  EXPECT_EQ(wait.allowed(), 1s);
  wait.changed(1, start, start + 10s);
  EXPECT_EQ(wait.allowed(), 1s);
  wait.changed(1, start, start + 400ms);
  EXPECT_EQ(wait.allowed(), 300ms) << "a quarter is left to undo the change";
  wait.changed(1, start, start);
  EXPECT_EQ(wait.allowed(), 1ms);
  wait.changed(1, start, start - 1s);
  EXPECT_EQ(wait.allowed(), 1ms);
}

}  // namespace
}  // namespace holdfast::redis
