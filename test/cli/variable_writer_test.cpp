#include "task/variable_writer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "supervision/line_splitter.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

using cli::VariableWriter;
using nlohmann::json;

/// Variables as a store would have them, under limits.
class Store {
 public:
  void write(const Json& changes) {
    if (first_may_return_.valid()) {
      busy_.set_value();
      std::exchange(first_may_return_, {}).wait();
    }
    const std::lock_guard lock(mutex_);
    ++writes_;
    if (!answers_) throw Error(ErrorCode::ServiceUnavailable, "as if the store were gone");
    if (refuses_with) throw Error(*refuses_with, "as if it were refused");
    auto merged = variables_;
    merged.merge_patch(json::parse(changes.str()));
    if (merged.dump().size() > limits.max_variables_bytes) {
      throw Error(ErrorCode::TooLarge, "the variables together are too large");
    }
    variables_ = std::move(merged);
  }
  Json read() {
    const std::lock_guard lock(mutex_);
    return Json::parse(variables_.dump()).value_or_throw();
  }
  /// The first write takes until release(); this waits for its beginning.
  void hold_first_write() { first_may_return_ = release_.get_future(); }
  void wait_for_first_write() { busy_.get_future().wait(); }
  void release() { release_.set_value(); }
  void set_answers(bool answers) {
    const std::lock_guard lock(mutex_);
    answers_ = answers;
  }
  json variables() {
    const std::lock_guard lock(mutex_);
    return variables_;
  }
  int writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }

  TaskOptions limits;
  std::optional<ErrorCode> refuses_with;
  std::vector<std::string> complaints;  ///< complete after finish()

 private:
  std::mutex mutex_;
  json variables_ = json::object();
  int writes_ = 0;
  bool answers_ = true;
  std::promise<void> busy_;
  std::promise<void> release_;
  std::future<void> first_may_return_;
};

std::unique_ptr<VariableWriter> writer_to(Store& store) {
  return std::make_unique<VariableWriter>(
      VariableWriter::Target{.task = "t",
                             .limits = store.limits,
                             .write = [&store](const Json& changes) { store.write(changes); },
                             .read = [&store] { return store.read(); }},
      [&store](const std::string& what) { store.complaints.push_back(what); });
}

constexpr TaskOptions no_limits{.max_variables_bytes = SIZE_MAX, .max_string_bytes = SIZE_MAX};

/// All lines are in one batch.
void write_all(Store& store, const std::vector<std::string>& lines) {
  store.hold_first_write();
  const auto writer = writer_to(store);
  writer->line("first=1");
  store.wait_for_first_write();
  for (const auto& line : lines) writer->line(line);
  store.release();
  writer->finish();
}

std::string good(int i) {
  return "good" + std::to_string(i) + "=" + std::to_string(i);
}

TEST(VariableWriter, EachRefusedVariableIsNamedAndAllOthersAreStored) {
  Store store;
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) {
    lines.push_back(good(i));
    lines.push_back("bad" + std::to_string(i) + "=\"" + std::string(70'000, 'x') + "\"");
  }
  lines.emplace_back("deep=[[[[[[[[[[[1]]]]]]]]]]]");
  lines.emplace_back("word=upload");
  lines.push_back("long=" + std::string(cli::LineSplitter::max_line, '1'));
  write_all(store, lines);
  EXPECT_EQ(store.variables().size(), 61U);
  ASSERT_EQ(store.complaints.size(), 63U);
  for (int i = 0; i < 60; ++i) {
    const auto& complaint = store.complaints[static_cast<std::size_t>(i)];
    EXPECT_NE(complaint.find("\"bad" + std::to_string(i) + '"'), std::string::npos) << complaint;
    EXPECT_NE(complaint.find("a string of 70000 bytes; at most 65536 fit"), std::string::npos) << complaint;
  }
  EXPECT_NE(store.complaints[60].find("nests more than 10"), std::string::npos) << store.complaints[60];
  EXPECT_NE(store.complaints[61].find("is not JSON"), std::string::npos) << store.complaints[61];
  EXPECT_NE(store.complaints[62].find("longer than 2097152 bytes"), std::string::npos)
      << store.complaints[62];
}

TEST(VariableWriter, WhatDoesNotFitBesideTheOthersIsNamedAndTheRestIsStored) {
  Store store;
  store.limits.max_variables_bytes = 60;
  write_all(store,
            {"a=\"" + std::string(30, 'x') + "\"", "b=\"" + std::string(30, 'x') + "\"", "c=1", "first=22"});
  EXPECT_EQ(store.variables(), json::parse(R"({"first":22,"a":")" + std::string(30, 'x') + R"(","c":1})"));
  ASSERT_EQ(store.complaints.size(), 1U);
  EXPECT_NE(store.complaints[0].find(R"(not stored: "b": the variables together are too large)"),
            std::string::npos)
      << store.complaints[0];
  EXPECT_LE(store.writes(), 3);
}

TEST(VariableWriter, ATaskThatIsFullStillTakesValuesThatNeedNoRoom) {
  Store store;
  store.limits.max_variables_bytes = 30;
  write_all(store, {"a=1234567", "new=12345", "gone=null", "first=2"});
  EXPECT_EQ(store.variables(), json::parse(R"({"first":2,"a":1234567})"));
  auto writer = writer_to(store);
  writer->line("a=null");
  writer->line("new=12345");
  writer->finish();
  EXPECT_EQ(store.variables(), json::parse(R"({"first":2,"new":12345})"));
}

TEST(VariableWriter, ARefusalOfTheWholeWriteNamesItsVariables) {
  Store store;
  store.refuses_with = ErrorCode::AuthFailed;
  write_all(store, {"a=1", "b=1"});
  ASSERT_EQ(store.complaints.size(), 2U);
  EXPECT_NE(store.complaints[1].find(R"(not stored: "a", "b": as if it were refused)"), std::string::npos)
      << store.complaints[1];
}

TEST(VariableWriter, WhatIsStoredAfterARetryIsNotReportedAsLost) {
  Store store;
  store.set_answers(false);
  auto writer = writer_to(store);
  writer->line("a=1");
  EXPECT_TRUE(eventually([&] { return store.writes() > 0; }));
  store.set_answers(true);
  writer->finish();
  EXPECT_EQ(store.variables(), json::parse(R"({"a":1})"));
  ASSERT_EQ(store.complaints.size(), 1U);
  EXPECT_NE(store.complaints[0].find("trying again"), std::string::npos) << store.complaints[0];
}

TEST(VariableWriter, WhatAStoreThatIsGoneMayNotHaveStoredIsNamedAtTheEnd) {
  Store store;
  store.set_answers(false);
  auto writer = writer_to(store);
  writer->line("a=1");
  writer->finish();
  ASSERT_FALSE(store.complaints.empty());
  EXPECT_NE(store.complaints.back().find(R"(may not be stored: "a")"), std::string::npos);
}

TEST(VariableWriter, ValuesThatWereReplacedDoNotFillTheRoomForNewOnes) {
  Store store;
  store.limits = no_limits;
  store.hold_first_write();
  auto writer = writer_to(store);
  writer->line("first=1");
  store.wait_for_first_write();
  const std::string megabyte(1'000'000, 'x');
  for (int i = 0; i < 10; ++i) writer->line("log=\"" + megabyte + std::to_string(i) + "\"");
  store.release();
  writer->finish();
  EXPECT_TRUE(store.variables()["log"] == megabyte + "9") << "the last value";
}

TEST(VariableWriter, WhatASlowStoreDoesNotTakeIsNotCollectedForEver) {
  Store store;
  store.limits = no_limits;
  store.hold_first_write();
  auto writer = writer_to(store);
  writer->line("first=1");
  store.wait_for_first_write();
  const std::string megabyte(1'000'000, 'x');
  for (int i = 0; i < 10; ++i) writer->line("log" + std::to_string(i) + "=\"" + megabyte + "\"");
  writer->line("log0=0");
  store.release();
  writer->finish();
  EXPECT_EQ(store.variables().size(), 1U + 8U);
  ASSERT_EQ(store.complaints.size(), 2U) << "the names of those that did not fit";
  EXPECT_NE(store.complaints[0].find("\"log8\""), std::string::npos) << store.complaints[0];
  EXPECT_EQ(store.variables()["log0"], 0) << "a smaller value fits where a larger one was";
}

TEST(VariableWriter, WritesKeepADistanceAndTheLastOneIsWritten) {
  Store store;
  auto writer = writer_to(store);
  const auto begin = std::chrono::steady_clock::now();
  int i = 0;
  while (std::chrono::steady_clock::now() - begin < VariableWriter::pause * 5) {
    writer->line("progress=" + std::to_string(++i));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  writer->finish();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(store.writes(), took / VariableWriter::pause + 2) << "of " << i << " lines";
  EXPECT_EQ(store.variables()["progress"], i);
}

TEST(VariableWriter, WhatCouldNotBeAskedIsTriedAgainUnlessThereIsANewerValue) {
  Store store;
  store.set_answers(false);
  auto writer = writer_to(store);
  writer->line("old=1");
  EXPECT_TRUE(eventually([&] { return store.writes() > 0; }));
  store.set_answers(true);
  writer->line("new=1");
  writer->finish();
  EXPECT_EQ(store.variables(), json::parse(R"({"new":1,"old":1})"));
}

}  // namespace
}  // namespace holdfast::test
