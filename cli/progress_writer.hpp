#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace holdfast::cli {

/// Turns lines `name=JSON` into variables of a task, by a thread of its own, so that a slow store holds up
/// nobody. What arrives during one write goes into the next, of each variable the last value.
class ProgressWriter {
 public:
  /// What became of a write.
  enum class Outcome {
    done,
    dropped,  ///< refused; the next may be better
    again,    ///< the store could not be asked: keep it, and try again
    no_more,  ///< the task takes no more from us
  };
  /// `write` gets the text of a JSON object. `complain` is told of what is wrong with a line, once.
  ProgressWriter(std::function<Outcome(const std::string&)> write,
                 std::function<void(const std::string&)> complain);
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  /// Does not wait. What the store does not take, because it is slow or refuses, is not collected for ever.
  void line(std::string_view text);
  /// Writes what there is, tries no more than once, and ends.
  void finish();

 private:
  static constexpr std::size_t max_pending_bytes = std::size_t{8} * 1024 * 1024;

  void keep_writing();

  std::function<Outcome(const std::string&)> write_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> pending_;  ///< name → JSON
  std::size_t pending_bytes_ = 0;               ///< at least as long as all of it
  bool takes_more_ = true;
  bool complained_ = false;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace holdfast::cli
