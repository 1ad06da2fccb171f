// Marks of waiting processes in a file: seen by others, gone with their process.

#include "waiting/waiter_marks.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "support/processes.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::waiting {
namespace {

using Place = WakeWords::Place;

class MarksOfWaiters : public testing::Test {
 protected:
  MarksOfWaiters() { std::ofstream(path) << "a file"; }
  [[nodiscard]] MarkFile file() const {
    struct stat found{};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return {.path = path, .device = found.st_dev, .inode = found.st_ino};
  }

  const test::TempDir dir;
  const std::filesystem::path path = dir.path() / "marks";
  const Place k = Place::of("k");
};

TEST_F(MarksOfWaiters, AProcessIsCountedOncePerKeyHoweverManyWaitInIt) {
  WaiterMarks one(file()), other(file());
  one.add(k);
  one.add(k);
  EXPECT_EQ(one.count(k), 1U);
  EXPECT_EQ(other.count(k), 1U);
  one.remove(k);
  EXPECT_EQ(other.count(k), 1U);
  one.remove(k);
  EXPECT_EQ(other.count(k), 0U);
}

TEST_F(MarksOfWaiters, ManyProcessesAreAllCountedWhateverOrderTheKernelNamesThemIn) {
  WaiterMarks counting(file());
  std::vector<std::unique_ptr<WaiterMarks>> processes;
  for (std::uint32_t i = 1; i <= 50; ++i) {
    processes.push_back(std::make_unique<WaiterMarks>(file()));
    processes.back()->add(k);
    processes.back()->add(Place::of("another " + std::to_string(i)));
    ASSERT_EQ(counting.count(k), i);
  }
  EXPECT_EQ(counting.count(Place::of("another 7")), 1U);
}

TEST_F(MarksOfWaiters, AreGoneWithTheirProcess) {
  WaiterMarks counting(file());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto child = test::checked_fork();
  if (child == 0) {
    WaiterMarks marks(file());
    marks.add(k);
    static_cast<void>(::write(ready[1], "x", 1));
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(counting.count(k), 1U);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(counting.count(k), 0U);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(MarksOfWaiters, AFileThatWasReplacedIsNotUsed) {
  const auto was = file();
  std::filesystem::rename(path, dir.path() / "old");
  std::ofstream(path) << "another file";
  WaiterMarks marks(was);
  marks.add(k);
  EXPECT_EQ(marks.count(k), std::nullopt);
  marks.remove(k);
}

TEST_F(MarksOfWaiters, AProcessMarksABoundedNumberOfKeys) {
  WaiterMarks many(file()), counting(file());
  const auto place = [](std::size_t i) { return Place::of("key " + std::to_string(i)); };
  for (std::size_t i = 0; i <= WaiterMarks::most_marks; ++i) many.add(place(i));
  EXPECT_EQ(counting.count(place(WaiterMarks::most_marks - 1)), 1U);
  EXPECT_EQ(counting.count(place(WaiterMarks::most_marks)), 0U);
  many.remove(place(0));
  many.add(k);
  EXPECT_EQ(counting.count(k), 1U);
}

TEST_F(MarksOfWaiters, WithoutAFileWaitersAreCounted) {
  WaiterMarks marks(std::nullopt);
  marks.add(k);
  marks.add(k);
  EXPECT_EQ(marks.count(k), 2U);
  marks.remove(k);
  EXPECT_EQ(marks.count(k), 1U);
}

}  // namespace
}  // namespace holdfast::waiting
