#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "support/eventually.hpp"

namespace holdfast::test {

struct Finished {
  int code = -1;    ///< exit code, or -N if signal N ended it
  std::string out;  ///< standard output
  std::string err;  ///< standard error
};

/// A program in a session of its own, without a terminal, its output going to files. Killed at the end if
/// it still runs.
class Program {
 public:
  struct Options {
    std::vector<std::string> environment = {};  ///< NAME=VALUE, added to ours
    std::string input = {};                     ///< standard input
    std::function<void()> before_exec = {};     ///< runs in the child
  };
  Program(const std::filesystem::path& directory, const std::vector<std::string>& command,
          const Options& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until the signal would not end it by itself: until its handlers are in place.
  void wait_until_it_handles(int number) const;
  /// Where its stderr goes.
  [[nodiscard]] const std::filesystem::path& err() const noexcept { return err_; }
  /// Waits for its end; a test failure and code -1000 if that does not come in time.
  Finished wait(std::chrono::milliseconds patience = std::chrono::seconds(20));
  [[nodiscard]] bool finished();

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  std::filesystem::path out_;
  std::filesystem::path err_;
};

[[nodiscard]] std::string contents(const std::filesystem::path& file);
/// Neither dead nor a zombie.
[[nodiscard]] bool alive(pid_t pid);
/// A pid that a process wrote into a file; waits for it. Throws std::runtime_error if there is none.
[[nodiscard]] pid_t pid_in(const std::filesystem::path& file);

/// Each test has a directory and a lock file of its own.
class CliTest : public ::testing::Test {
 protected:
  CliTest();
  ~CliTest() override;

  /// The real binary, with HOLDFAST_URL set to this test's file.
  [[nodiscard]] std::unique_ptr<Program> start(std::vector<std::string> arguments,
                                               Program::Options options = {}) const;
  Finished holdfast(std::vector<std::string> arguments, Program::Options options = {}) const;
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_ / name; }
  [[nodiscard]] std::string url() const { return "sqlite:" + (directory_ / "locks.db").string(); }
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

}  // namespace holdfast::test
