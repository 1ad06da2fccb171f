#include "store_limits.hpp"

#include <gtest/gtest.h>

#include <holdfast/open.hpp>
#include <map>

namespace holdfast {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Variables = std::map<std::string, std::string>;

QueueOptions limits_in(std::string_view url, const Variables& variables = {}) {
  const auto split = split_limits(url).value_or_throw();
  return limits_of(split,
                   [&](const std::string& name) {
                     const auto found = variables.find(name);
                     return found == variables.end() ? std::string() : found->second;
                   })
      .value_or_throw();
}

std::string complaint(std::string_view url, const Variables& variables = {}) {
  try {
    (void)limits_in(url, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.message();
  }
  ADD_FAILURE() << url << " is accepted";
  return {};
}

TEST(StoreLimits, AreTheDocumentedOnesUnlessTheUrlSaysOtherwise) {
  const TaskOptions documented;
  const auto plain = limits_in("redis://h?db=2");
  EXPECT_EQ(plain.tasks.max_tasks_per_owner, 100U);
  EXPECT_EQ(plain.tasks.max_ttl, hours(24));
  EXPECT_EQ(plain.max_tasks, 100'000U);
  const auto set = limits_in(
      "redis://h?task_quota=0&task_max_ttl=72h&task_default_ttl=30m&task_max_variables=5&task_max_string=6"
      "&task_max_depth=7&task_poll_interval=0&queue_max_tasks=8");
  EXPECT_EQ(set.tasks.max_tasks_per_owner, 0U);
  EXPECT_EQ(set.tasks.max_ttl, hours(72));
  EXPECT_EQ(set.tasks.default_ttl, std::chrono::minutes(30));
  EXPECT_EQ(set.tasks.max_variables_bytes, 5U);
  EXPECT_EQ(set.tasks.max_string_bytes, 6U);
  EXPECT_EQ(set.tasks.max_variable_depth, 7U);
  EXPECT_EQ(set.tasks.poll_interval, milliseconds(0));
  EXPECT_EQ(set.max_tasks, 8U);
  EXPECT_EQ(set.tasks.allow_anonymous, documented.allow_anonymous);
}

TEST(StoreLimits, OfTheUrlComeBeforeThoseOfTheEnvironment) {
  const Variables variables{{"HOLDFAST_TASK_QUOTA", "7"}, {"HOLDFAST_QUEUE_MAX_TASKS", "9"}};
  const auto both = limits_in("memory:?task_quota=5", variables);
  EXPECT_EQ(both.tasks.max_tasks_per_owner, 5U);
  EXPECT_EQ(both.max_tasks, 9U);
  EXPECT_EQ(limits_in("memory:", variables).tasks.max_tasks_per_owner, 7U);
  EXPECT_EQ(limits_in("memory:", {{"HOLDFAST_TASK_QUOTA", ""}}).tasks.max_tasks_per_owner, 100U);
}

TEST(StoreLimits, AShorterMaximumShortensTheDefaultTtlButNotOneThatWasChosen) {
  EXPECT_EQ(limits_in("memory:?task_max_ttl=5m").tasks.default_ttl, std::chrono::minutes(5));
  EXPECT_EQ(complaint("memory:?task_max_ttl=5m&task_default_ttl=6m"),
            "task_default_ttl is longer than task_max_ttl, 300s");
}

TEST(StoreLimits, ErrorsNameTheSettingAndNeverItsValue) {
  EXPECT_EQ(complaint("memory:?task_quota=secret"), "task_quota must be a number from 0 to 1000000000");
  EXPECT_EQ(complaint("memory:?task_quota="), "task_quota must be a number from 0 to 1000000000");
  EXPECT_EQ(complaint("memory:?task_max_ttl=0"), "task_max_ttl must be more than zero");
  EXPECT_EQ(complaint("memory:", {{"HOLDFAST_TASK_MAX_DEPTH", "101"}}),
            "HOLDFAST_TASK_MAX_DEPTH must be a number from 0 to 100");
  EXPECT_EQ(complaint("memory:?task_quota=1&task_quota=2"), "cannot use this URL: task_quota is given twice");
  EXPECT_NE(complaint("memory:?task_quota=1&secret").find("unknown parameter"), std::string::npos);
  EXPECT_EQ(complaint("memory:?task_quota=1&secret").find("secret"), std::string::npos);
}

TEST(StoreLimits, LeaveTheRestOfTheUrlAlone) {
  const auto rest = [](std::string_view url) { return split_limits(url).value_or_throw().url; };
  EXPECT_EQ(rest("redis://u:p@h:1/2?db=2&task_quota=5&holder=x"), "redis://u:p@h:1/2?db=2&holder=x");
  EXPECT_EQ(rest("redis://h?task_prefix=x"), "redis://h?task_prefix=x");
  EXPECT_EQ(rest("sqlite:/a/b?c.db?task_quota=5"), "sqlite:/a/b?c.db");
  EXPECT_EQ(rest("sqlite:/a/task_quota=5"), "sqlite:/a/task_quota=5") << "a file name";
  EXPECT_EQ(rest("sqlite:/a?holder=x&y"), "sqlite:/a?holder=x&y");
  EXPECT_EQ(rest("sqlite:/a?task_quota=5&holder=x"), "sqlite:/a?holder=x");
  EXPECT_EQ(rest("unix:/s?task_quota=5"), "unix:/s");
}

TEST(StoreLimits, AreThoseOfTheTasksAndQueuesOfAStoreAndOfItsUrl) {
  const auto hf = open("memory:?holder=a%20b&task_quota=1&queue_max_tasks=1");
  EXPECT_EQ(hf.url(), "memory:?holder=a%20b&task_quota=1&queue_max_tasks=1");
  EXPECT_EQ(open(hf.url()).task_options().max_tasks_per_owner, 1U);
  const auto tasks = hf.tasks();
  (void)tasks.create("alice");
  EXPECT_THROW((void)tasks.create("alice"), Error);
  (void)hf.tasks({.max_tasks_per_owner = 2}).create("alice");
  const auto queue = hf.queue("q");
  (void)queue.add();
  EXPECT_THROW((void)queue.add(), Error);
  (void)hf.queue("q", {.max_tasks = 2}).add();
}

}  // namespace
}  // namespace holdfast
