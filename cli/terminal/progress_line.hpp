#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace holdfast::cli {

/// A line on stderr that is drawn over and over: a text and the time since construction. Only on a terminal;
/// elsewhere it does nothing. The destructor clears the line.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// From any thread. `text` must be printable.
  void show(std::string text);

 private:
  void keep_drawing();
  void draw() const;

  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool new_text_ = false;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace holdfast::cli
