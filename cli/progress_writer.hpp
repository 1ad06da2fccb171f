#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace holdfast::cli {

/// Turns lines `name=JSON` into variables of a task, by a thread of its own, so that a slow store holds up
/// nobody. What arrives during one write, or too soon after it, goes into the next, of each variable the last
/// value.
class ProgressWriter {
 public:
  /// What became of a write.
  enum class Outcome {
    done,
    dropped,  ///< refused; the next may be better
    again,    ///< the store could not be asked: keep it, and try again
    no_more,  ///< the task takes no more from us
  };
  /// From one write to the next on the average: others use the store too.
  static constexpr std::chrono::milliseconds pause{100};

  /// `write` gets the text of a JSON object. `complain` is told of what is wrong with a line, once.
  ProgressWriter(std::function<Outcome(const std::string&)> write,
                 std::function<void(const std::string&)> complain);
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  /// Does not wait. What the store does not take, because it is slow or refuses, is not collected for ever.
  void line(std::string_view text);
  /// Writes what there is at once, tries no more than once, and ends.
  void finish();

 private:
  using Variables = std::map<std::string, std::string>;  ///< name → JSON
  struct Written {
    Outcome outcome{};
    int writes = 0;
    Variables rest;  ///< what is to be tried again
  };

  void keep_writing();
  [[nodiscard]] Written write_what_is_taken(const Variables& batch);

  std::function<Outcome(const std::string&)> write_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Variables pending_;
  std::size_t pending_bytes_ = 0;  ///< of its names and values
  bool takes_more_ = true;
  bool complained_ = false;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace holdfast::cli
