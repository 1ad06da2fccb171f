#include <gtest/gtest.h>

#include "tasks/change_loop.hpp"

#include "support/times.hpp"

namespace holdfast::tasks {
namespace {

using namespace std::chrono_literals;

std::optional<StoredRecord> stored(std::uint64_t version, int n = 0, std::string incarnation = "i") {
  Members variables;
  variables.set("n", std::to_string(n));
  const auto record = TaskRecord::begin({.id = "7",
                                         .owner = "alice",
                                         .method = "",
                                         .now = test::from_ms(1000),
                                         .ttl = 60s,
                                         .poll_interval = 500ms,
                                         .variables = std::move(variables)});
  return StoredRecord{.data = record.text(),
                      .version = version,
                      .incarnation = std::move(incarnation),
                      .bound_to = {},
                      .origin = {}};
}

Change count_up() {
  return {.apply = [](TaskRecord& record) -> Status {
    Members changes;
    changes.set("n", std::to_string(std::stoi(*record.variables().find("n")) + 1));
    record.merge_variables(changes);
    return Ok{};
  }};
}

ChangeLoop::Action after_read(ChangeLoop& loop, const std::optional<StoredRecord>& record) {
  return loop.resume(Result<std::optional<StoredRecord>>(record), test::from_ms(2000));
}
ChangeLoop::Action after_write(ChangeLoop& loop, PutOutcome outcome) {
  return loop.resume(Result<PutOutcome>(std::move(outcome)));
}
ErrorCode code_of(const ChangeLoop::Action& action) {
  return std::get<ChangeLoop::Finished>(action).result.error().code();
}

TEST(ChangeLoop, WritesWhatItReadAndExpectsThatVersionOfThatRecord) {
  ChangeLoop loop("7", "alice", count_up(), std::nullopt, "");
  ASSERT_TRUE(std::holds_alternative<ChangeLoop::Read>(loop.start()));
  const auto write = after_read(loop, stored(4, 1));
  ASSERT_TRUE(std::holds_alternative<ChangeLoop::Write>(write));
  EXPECT_EQ(std::get<ChangeLoop::Write>(write).expected.version, 4U);
  EXPECT_EQ(std::get<ChangeLoop::Write>(write).expected.incarnation, "i");
  const auto end = after_write(loop, Written{.version = 5, .incarnation = "i"});
  const auto& task = std::get<ChangeLoop::Finished>(end).result;
  ASSERT_TRUE(task);
  EXPECT_EQ(task->version, 5U);
  EXPECT_EQ(task->variables.str(), R"({"n":2})");
  EXPECT_EQ(test::to_ms(task->last_updated_at), 2000);
}

TEST(ChangeLoop, ALostRaceIsDecidedAnewOnWhatTheOtherWrote) {
  ChangeLoop loop("7", "alice", count_up(), std::nullopt, "");
  (void)after_read(loop, stored(4, 1));
  ASSERT_TRUE(std::holds_alternative<ChangeLoop::Read>(
      after_write(loop, VersionConflict{.expected = 4, .actual = 5})));
  const auto write = after_read(loop, stored(5, 10));
  EXPECT_NE(std::get<ChangeLoop::Write>(write).data.text().find(R"("n":11)"), std::string::npos);
}

TEST(ChangeLoop, GivesUpAfterManyLostRaces) {
  ChangeLoop loop("7", "alice", count_up(), std::nullopt, "");
  int races = 0;
  for (;;) {
    (void)after_read(loop, stored(4));
    const auto next = after_write(loop, VersionConflict{.expected = 4, .actual = 5});
    ++races;
    if (std::holds_alternative<ChangeLoop::Finished>(next)) {
      EXPECT_EQ(code_of(next), ErrorCode::ConcurrentChange);
      break;
    }
  }
  EXPECT_EQ(races, ChangeLoop::max_attempts);
}

TEST(ChangeLoop, AChangeThatWouldUndoTheOthersIsReported) {
  auto change = count_up();
  change.still_meant = [](const TaskRecord& first, const TaskRecord& now) {
    return *first.variables().find("n") == *now.variables().find("n");
  };
  ChangeLoop loop("7", "alice", change, std::nullopt, "");
  (void)after_read(loop, stored(4));
  (void)after_write(loop, VersionConflict{.expected = 4, .actual = 5});
  EXPECT_EQ(code_of(after_read(loop, stored(5, 1))), ErrorCode::ConcurrentChange);
}

TEST(ChangeLoop, RefusalsAreErrorsWithTheirNumbers) {
  ChangeLoop loop("7", "alice", count_up(), std::nullopt, "");
  (void)after_read(loop, stored(4));
  const auto stale = after_write(
      loop, FenceRefused{.why = ErrorCode::StaleFence,
                         .given = *Fence::of(3),
                         .bound_to = {.authority = "AUTH", .lock_key = "deploy", .fence = *Fence::of(9)}});
  EXPECT_EQ(code_of(stale), ErrorCode::StaleFence);
  const auto& message = std::get<ChangeLoop::Finished>(stale).result.error().message();
  EXPECT_NE(message.find("000000000000003"), std::string::npos) << message;
  EXPECT_NE(message.find("000000000000009"), std::string::npos) << message;

  const auto wrong = after_write(
      loop, FenceRefused{.why = ErrorCode::WrongLock,
                         .given = *Fence::of(3),
                         .bound_to = {.authority = "AUTH", .lock_key = "deploy", .fence = *Fence::of(2)}});
  EXPECT_EQ(code_of(wrong), ErrorCode::WrongLock);
  const auto& named = std::get<ChangeLoop::Finished>(wrong).result.error().message();
  EXPECT_NE(named.find("deploy"), std::string::npos) << named;
  EXPECT_NE(named.find("AUTH"), std::string::npos) << named;
}

TEST(ChangeLoop, ALateWorkerLearnsThatItIsLateNotThatTheTaskIsOver) {
  const FencingToken late{.authority = "A", .lock_key = "k", .fence = *Fence::of(3)};
  auto record = stored(4);
  record->bound_to = FencingToken{.authority = "A", .lock_key = "k", .fence = *Fence::of(9)};
  bool asked = false;
  const Change forbidden{.apply = [&](TaskRecord&) -> Status {
    asked = true;
    return Error(ErrorCode::InvalidTransition, "it is over");
  }};
  ChangeLoop loop("7", "alice", forbidden, late, "");
  EXPECT_EQ(code_of(after_read(loop, record)), ErrorCode::StaleFence);
  EXPECT_FALSE(asked);
}

TEST(ChangeLoop, ATaskThatGotTheIdOfTheOneMeantIsNotTouched) {
  ChangeLoop meant("7", "alice", count_up(), std::nullopt, "first");
  EXPECT_EQ(code_of(after_read(meant, stored(1, 0, "second"))), ErrorCode::NotFound);

  ChangeLoop any("7", "alice", count_up(), std::nullopt, "");
  (void)after_read(any, stored(1, 0, "first"));
  (void)after_write(any, VersionConflict{.expected = 1, .actual = 1, .replaced = true});
  EXPECT_EQ(code_of(after_read(any, stored(1, 0, "second"))), ErrorCode::NotFound);
}

TEST(ChangeLoop, ARecordOfOtherSoftwareHasNoNameOfItsOwnYet) {
  ChangeLoop loop("7", "alice", count_up(), std::nullopt, "~digest");
  (void)after_read(loop, stored(1, 0, "~digest"));
  (void)after_write(loop, VersionConflict{.expected = 1, .actual = 2, .replaced = true});
  EXPECT_TRUE(std::holds_alternative<ChangeLoop::Write>(after_read(loop, stored(2, 1, "~another digest"))));
}

TEST(ChangeLoop, AbsentAndAnothersAreTheSame) {
  ChangeLoop absent("7", "alice", count_up(), std::nullopt, "");
  EXPECT_EQ(code_of(after_read(absent, std::nullopt)), ErrorCode::NotFound);
  ChangeLoop foreign("7", "bob", count_up(), std::nullopt, "");
  EXPECT_EQ(code_of(after_read(foreign, stored(1))), ErrorCode::NotFound);
  ChangeLoop vanished("7", "alice", count_up(), std::nullopt, "");
  (void)after_read(vanished, stored(1));
  EXPECT_EQ(code_of(after_write(vanished, NoRecord{})), ErrorCode::NotFound);
}

}  // namespace
}  // namespace holdfast::tasks
