#include "task/variable_writer.hpp"

#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

using cli::VariableWriter;
using nlohmann::json;
using Outcome = VariableWriter::Outcome;

/// Variables as a store would have them. Refuses every write with a variable that is in `refused`.
class Store {
 public:
  Outcome write(const std::string& text) {
    if (first_may_return_.valid()) {
      busy_.set_value();
      std::exchange(first_may_return_, {}).wait();
    }
    const auto changes = json::parse(text);
    const std::lock_guard lock(mutex_);
    ++writes_;
    if (!answers_) return Outcome::retry;
    for (const auto& [name, value] : changes.items()) {
      if (refused.contains(name)) return Outcome::refused;
    }
    variables_.update(changes);
    return Outcome::done;
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

  std::set<std::string> refused;

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
  return std::make_unique<VariableWriter>([&store](const std::string& text) { return store.write(text); },
                                          [](const std::string& what) { ADD_FAILURE() << what; });
}

TEST(VariableWriter, ValuesThatWereReplacedDoNotFillTheRoomForNewOnes) {
  Store store;
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
  EXPECT_EQ(store.variables()["log0"], 0) << "a smaller value fits where a larger one was";
}

TEST(VariableWriter, AVariableThatIsRefusedDoesNotTakeTheOthersWithIt) {
  Store store;
  store.refused = {"b", "g"};
  store.hold_first_write();
  auto writer = writer_to(store);
  writer->line("first=1");
  store.wait_for_first_write();
  for (const char name : std::string("abcdefg")) writer->line(std::string(1, name) + "=1");
  store.release();
  writer->finish();
  EXPECT_EQ(store.variables(), json::parse(R"({"first":1,"a":1,"c":1,"d":1,"e":1,"f":1})"));
}

TEST(VariableWriter, AStoreThatRefusesEverythingIsNotAskedWithoutEnd) {
  Store store;
  store.hold_first_write();
  auto writer = writer_to(store);
  writer->line("first=1");
  store.wait_for_first_write();
  for (int i = 0; i < 1000; ++i) {
    store.refused.insert("v" + std::to_string(i));
    writer->line("v" + std::to_string(i) + "=1");
  }
  store.release();
  writer->finish();
  EXPECT_LE(store.writes(), 100);
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
