#include "queue/health.hpp"

#include <gtest/gtest.h>

namespace holdfast::queue {
namespace {

using namespace std::chrono_literals;

constexpr WallTime midday{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}};

Severity worst_in(const std::vector<Finding>& findings) {
  auto severity = Severity::ok;
  for (const auto& finding : findings) severity = std::max(severity, finding.severity);
  return severity;
}

std::vector<Finding> judged(const QueueCounts& counts, const std::vector<Finding>& store = {}) {
  return judge_queues(std::vector{ExaminedQueue{.name = "render", .counts = counts}}, store, midday);
}

TEST(QueueHealth, AStoreWithoutQueuesHasNoFinding) {
  EXPECT_TRUE(judge_queues({}, {}, midday).empty());
}

TEST(QueueHealth, AQueueThatIsWorkedOnIsHealthy) {
  const auto findings = judged({.ready = 3, .leased = 2, .records = 5, .oldest_ready = midday - 10min});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::ok);
  EXPECT_EQ(findings[0].found, "1 queue: 3 tasks ready, 2 worked on");
}

TEST(QueueHealth, TasksThatNoWorkerTakesAreAWarningAfterAWhile) {
  EXPECT_EQ(worst_in(judged({.ready = 1, .oldest_ready = midday - 4min})), Severity::ok);
  const auto findings = judged({.ready = 1, .oldest_ready = midday - 42min});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].found, "\"render\": 1 task ready, the next one for 42 min, and none is worked on");
  EXPECT_EQ(worst_in(judged({.ready = 1, .paused = true, .oldest_ready = midday - 42min})), Severity::note)
      << "an operator paused it";
}

TEST(QueueHealth, TasksWhoseWorkersHaveAllDiedAreAWarning) {
  const auto findings = judged({.leased = 2, .expired = 2});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].found, "\"render\": 2 tasks whose workers have died, and none is worked on");
  EXPECT_EQ(worst_in(judged({.leased = 2, .expired = 1})), Severity::ok) << "another worker is busy";
  const auto waiting = judged({.ready = 1, .leased = 2, .expired = 2, .oldest_ready = midday - 42min});
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].severity, Severity::warning);
}

TEST(QueueHealth, DelayedTasksThatAreDueAndNoWorkerTakesAreAWarningToo) {
  EXPECT_EQ(worst_in(judged({.delayed = 2, .next_due = midday + 1h})), Severity::ok);
  EXPECT_EQ(worst_in(judged({.delayed = 2, .next_due = midday - 4min})), Severity::ok);
  const auto findings = judged({.delayed = 2, .next_due = midday - 42min});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].found,
            "\"render\": 2 tasks delayed, the next one due 42 min ago, and none is worked on");
  EXPECT_EQ(worst_in(judged({.delayed = 2, .leased = 1, .next_due = midday - 42min})), Severity::ok);
  EXPECT_EQ(worst_in(judged({.delayed = 2, .paused = true, .next_due = midday - 42min})), Severity::ok);
}

TEST(QueueHealth, TooFewWorkersAreANote) {
  EXPECT_EQ(worst_in(judged({.ready = 1, .leased = 1, .oldest_ready = midday - 3h})), Severity::note);
}

TEST(QueueHealth, ExhaustedTasksNeedAWorkerToEndThem) {
  EXPECT_EQ(worst_in(judged({.exhausted = 1, .records = 1})), Severity::warning);
  EXPECT_EQ(worst_in(judged({.leased = 1, .exhausted = 1, .records = 2})), Severity::ok);
}

TEST(QueueHealth, FailedTasksAreANote) {
  const auto findings = judge_queues(
      std::vector{ExaminedQueue{.name = "a\nb", .counts = {.records = 50}, .newest = 50, .failed = 3}}, {},
      midday);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].severity, Severity::note);
  EXPECT_EQ(findings[1].found, "\"a\\x0ab\": 3 of the newest 50 tasks failed");
}

TEST(QueueHealth, AStoreThatLosesDataLosesTasks) {
  const std::vector<Finding> store{{Severity::warning, "persistence", "snapshots only", "x"},
                                   {Severity::problem, "memory", "allkeys-lru", "x"}};
  const QueueCounts counts{.delayed = 3, .parked = 1, .records = 4};
  EXPECT_EQ(worst_in(judged(counts)), Severity::ok);
  const auto findings = judged(counts, store);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].found, "unfinished tasks: 4; a crash of the server may lose them");
  EXPECT_EQ(findings[1].severity, Severity::problem);
  EXPECT_EQ(worst_in(judged({.records = 4}, store)), Severity::ok) << "finished ones matter less";
}

}  // namespace
}  // namespace holdfast::queue
