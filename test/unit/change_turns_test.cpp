#include "tasks/change_turns.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace holdfast::tasks {
namespace {

bool has_turn(const ChangeTurns::Place& place) {
  return place.turn().stop_requested();
}

TEST(ChangeTurns, TheFirstHasItsTurnAtOnceAndPassesItOnWhenItLeaves) {
  ChangeTurns turns;
  EXPECT_FALSE(turns.has_line("t"));
  auto first = std::make_unique<ChangeTurns::Place>(turns, "t");
  auto second = std::make_unique<ChangeTurns::Place>(turns, "t");
  auto third = std::make_unique<ChangeTurns::Place>(turns, "t");
  EXPECT_TRUE(turns.has_line("t"));
  EXPECT_TRUE(has_turn(*first));
  EXPECT_FALSE(has_turn(*second));
  first.reset();
  EXPECT_TRUE(has_turn(*second));
  EXPECT_FALSE(has_turn(*third));
  EXPECT_EQ(third->departures(), 1U);
  second.reset();
  EXPECT_TRUE(has_turn(*third));
  third.reset();
  EXPECT_FALSE(turns.has_line("t"));
}

TEST(ChangeTurns, OneThatLeavesBeforeItsTurnTakesNoneFromTheOthers) {
  ChangeTurns turns;
  auto first = std::make_unique<ChangeTurns::Place>(turns, "t");
  auto impatient = std::make_unique<ChangeTurns::Place>(turns, "t");
  const ChangeTurns::Place last(turns, "t");
  impatient.reset();
  EXPECT_FALSE(has_turn(last));
  EXPECT_EQ(last.departures(), 1U) << "the line moves";
  first.reset();
  EXPECT_TRUE(has_turn(last));
}

TEST(ChangeTurns, EachTaskHasALineOfItsOwn) {
  ChangeTurns turns;
  const ChangeTurns::Place one(turns, "a"), other(turns, "b");
  EXPECT_TRUE(has_turn(one));
  EXPECT_TRUE(has_turn(other));
  EXPECT_FALSE(turns.has_line("c"));
}

}  // namespace
}  // namespace holdfast::tasks
