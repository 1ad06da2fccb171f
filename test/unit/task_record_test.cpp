#include <gtest/gtest.h>

#include "tasks/record.hpp"

#include "support/times.hpp"

namespace holdfast::tasks {
namespace {

using namespace std::chrono_literals;

Json json(std::string_view text) {
  return Json::parse(text).value_or_throw();
}
Members members(std::string_view text) {
  return Members::of(json(text));
}

TaskRecord begun() {
  return TaskRecord::begin({.id = "7",
                            .owner = "alice",
                            .method = "tools/call",
                            .now = test::from_ms(1'700'000'000'123),
                            .ttl = 60s,
                            .poll_interval = 500ms,
                            .variables = members(R"({"b":1,"a":2})")});
}

TEST(TaskRecord, IsWrittenAsDocumented) {
  EXPECT_EQ(begun().text(),
            R"({"task":{"taskId":"7","status":"working","createdAt":"2023-11-14T22:13:20.123Z",)"
            R"("lastUpdatedAt":"2023-11-14T22:13:20.123Z","ttl":60000,"pollInterval":500},"ownerId":"alice",)"
            R"("variables":{"b":1,"a":2},"result":null,"requestMethod":"tools/call",)"
            R"("expiresAt":"2023-11-14T22:14:20.123Z"})");
}

TEST(TaskRecord, KeepsTheOrderWhateverIsAddedLater) {
  auto record = begun();
  record.set_status(TaskStatus::completed, "done");
  record.touch(test::from_ms(1'700'000'001'000));
  record.set_result(json(R"({"x":true})"));
  EXPECT_EQ(
      record.text(),
      R"({"task":{"taskId":"7","status":"completed","statusMessage":"done",)"
      R"("createdAt":"2023-11-14T22:13:20.123Z","lastUpdatedAt":"2023-11-14T22:13:21.000Z","ttl":60000,)"
      R"("pollInterval":500},"ownerId":"alice","variables":{"b":1,"a":2},"result":{"x":true},)"
      R"("requestMethod":"tools/call","expiresAt":"2023-11-14T22:14:20.123Z"})");
}

TEST(TaskRecord, WhatANewerWriterAddedSurvivesAChange) {
  const std::string text =
      R"({"future":{"z":[1,2.50]},"task":{"newer":"yes","taskId":"7","status":"working",)"
      R"("createdAt":"2023-11-14T22:13:20.123456789Z","lastUpdatedAt":"2023-11-14T22:13:20.123456Z","ttl":null,)"
      R"("_meta":{"k":"v"}},"ownerId":"alice","variables":{"n":123456789012345678901234567890},"result":null,)"
      R"("requestMethod":"m","expiresAt":"2033-11-14T22:13:20.000001+00:00"})";
  auto record = TaskRecord::parse(text, "7").value_or_throw();
  record.merge_variables(members(R"({"v":1})"));
  EXPECT_EQ(
      record.text(),
      R"({"task":{"taskId":"7","status":"working","createdAt":"2023-11-14T22:13:20.123456789Z",)"
      R"("lastUpdatedAt":"2023-11-14T22:13:20.123456Z","ttl":null,"_meta":{"k":"v"},"newer":"yes"},)"
      R"("ownerId":"alice","variables":{"n":123456789012345678901234567890,"v":1},"result":null,"requestMethod":"m",)"
      R"("expiresAt":"2033-11-14T22:13:20.000001+00:00","future":{"z":[1,2.50]}})");
}

TEST(TaskRecord, IsReadIntoATask) {
  const auto task = begun().task({.data = {},
                                  .version = 3,
                                  .incarnation = "i",
                                  .bound_to = FencingToken{.authority = "A", .lock_key = "k", .fence = {}},
                                  .origin = {}});
  EXPECT_EQ(task.id, "7");
  EXPECT_EQ(task.owner, "alice");
  EXPECT_EQ(task.status, TaskStatus::working);
  EXPECT_FALSE(task.status_message);
  EXPECT_EQ(task.created_at, test::from_ms(1'700'000'000'123));
  EXPECT_EQ(task.last_updated_at, test::from_ms(1'700'000'000'123));
  EXPECT_EQ(task.ttl, 60s);
  EXPECT_EQ(task.poll_interval, 500ms);
  EXPECT_EQ(task.expires_at, test::from_ms(1'700'000'060'123));
  EXPECT_EQ(task.request_method, "tools/call");
  EXPECT_EQ(task.variables.str(), R"({"b":1,"a":2})");
  EXPECT_TRUE(task.result.is_null());
  EXPECT_EQ(task.record.str(), begun().text());
  EXPECT_EQ(task.version, 3U);
  EXPECT_EQ(task.incarnation, "i");
  EXPECT_EQ(task.bound_to->lock_key, "k");
}

TEST(TaskRecord, TextThatJsonEscapesComesBackAsItWas) {
  const std::string text = "a \"quoted\" C:\\path,\nanother line\tand \x01 \u00e9";
  auto record = TaskRecord::begin({.id = "7",
                                   .owner = text,
                                   .method = text,
                                   .now = test::from_ms(1'700'000'000'123),
                                   .ttl = 60s,
                                   .poll_interval = 500ms,
                                   .variables = {}});
  record.set_status(TaskStatus::working, text);
  const auto read = TaskRecord::parse(record.text(), "7").value_or_throw().task({});
  EXPECT_EQ(read.owner, text);
  EXPECT_EQ(read.request_method, text);
  EXPECT_EQ(read.status_message, text);
}

TEST(TaskRecord, ANullDeletesAVariable) {
  auto record = begun();
  record.merge_variables(members(R"({"b":null,"absent":null,"c":"new"})"));
  EXPECT_EQ(record.variables().text(), R"({"a":2,"c":"new"})");
}

TEST(TaskRecord, TimeDoesNotGoBack) {
  auto record = begun();
  record.touch(test::from_ms(1'600'000'000'000));
  EXPECT_EQ(record.task({}).last_updated_at, test::from_ms(1'700'000'000'123));
}

TEST(TaskRecord, WithoutAMessageTheOldOneGoes) {
  auto record = begun();
  record.set_status(TaskStatus::input_required, "which one?");
  EXPECT_EQ(record.task({}).status_message, "which one?");
  record.set_status(TaskStatus::working, std::nullopt);
  EXPECT_FALSE(record.task({}).status_message);
}

TEST(TaskRecord, AnythingElseIsRefusedNotRepaired) {
  for (const std::string text :
       {"", "null", "[]", "{}", R"({"task":{}})", R"({"task":{"taskId":"7"},"ownerId":"a"})",
        R"({"task":{"taskId":"7","status":"paused"},"ownerId":"a"})",
        R"({"task":{"taskId":"7","status":"working"}})",
        R"({"task":{"taskId":"7","status":"working"},"ownerId":"a","variables":[]})"}) {
    const auto record = TaskRecord::parse(text, "7");
    ASSERT_FALSE(record) << text;
    EXPECT_EQ(record.error().code(), ErrorCode::Internal) << text;
    EXPECT_NE(record.error().message().find("task 7"), std::string::npos) << "which one it is";
  }
  const auto deep = TaskRecord::parse(R"({"task":)" + std::string(100'000, '['), "7");
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code(), ErrorCode::Internal);
}

}  // namespace
}  // namespace holdfast::tasks
