#include "engine/redis/replica_wait.hpp"

#include <gtest/gtest.h>

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;

constexpr BootTime began{1000s};

TEST(ReplicaWait, AsManyReplicasAsNeededAreEnough) {
  ReplicaWait wait(2, 1s);
  EXPECT_FALSE(wait.enough());
  wait.changed(1, began, never);
  EXPECT_FALSE(wait.enough());
  wait.counted(2, 1, began + 1ms);
  EXPECT_TRUE(wait.enough());
  EXPECT_EQ(wait.acknowledged(), 2U);
}

TEST(ReplicaWait, FewerAreNotAndTheMessageSaysHowManyInWhatTime) {
  ReplicaWait wait(2, 1s);
  wait.changed(1, began, never);
  wait.counted(1, 1, began + 1s);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.shortage(), "1 of 2 replicas acknowledged it within 1000 ms");
}

TEST(ReplicaWait, ACountOfAnotherConnectionProvesNothing) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, began, never);
  wait.counted(5, 2, began + 1ms);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.acknowledged(), std::nullopt);
  EXPECT_EQ(wait.shortage(), "the connection was lost before 1 replica acknowledged it");
}

TEST(ReplicaWait, NoAnswerProvesNothing) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, began, never);
  wait.counted(std::nullopt, 1, began + 1s);
  EXPECT_FALSE(wait.enough());
  EXPECT_EQ(wait.shortage(), "it is unknown whether 1 replica acknowledged it");
}

TEST(ReplicaWait, ItEndsBeforeTheDeadlineAndNeverMeansForEver) {
  ReplicaWait wait(1, 1s);
  wait.changed(1, began, never);
  EXPECT_EQ(wait.allowed(), 1s);
  wait.changed(1, began, began + 10s);
  EXPECT_EQ(wait.allowed(), 1s);
  wait.changed(1, began, began + 400ms);
  EXPECT_EQ(wait.allowed(), 300ms) << "a quarter is left to undo the change";
  wait.changed(1, began, began);
  EXPECT_EQ(wait.allowed(), 1ms);
  wait.changed(1, began, began - 1s);
  EXPECT_EQ(wait.allowed(), 1ms);
}

}  // namespace
}  // namespace holdfast::redis
