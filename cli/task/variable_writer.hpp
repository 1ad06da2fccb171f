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

/// Writes lines `name=JSON` as variables of a task, on its own thread, so that a slow store blocks no other.
/// Lines that arrive during one write, or too soon after it, go into the next; of each variable the last
/// value counts.
class VariableWriter {
 public:
  /// Of a write.
  enum class Outcome {
    done,
    refused,  ///< not retried
    retry,    ///< the store did not answer
    closed,   ///< the task accepts no more writes
  };
  /// The average time between writes: other clients use the store too.
  static constexpr std::chrono::milliseconds pause{100};

  /// `write` gets the text of a JSON object. `complain` gets a message about the first invalid line.
  VariableWriter(std::function<Outcome(const std::string&)> write,
                 std::function<void(const std::string&)> complain);
  ~VariableWriter();
  VariableWriter(const VariableWriter&) = delete;
  VariableWriter& operator=(const VariableWriter&) = delete;

  /// Does not wait. What a slow store has not accepted is kept up to a limit.
  void line(std::string_view text);
  /// Writes what is pending at once, without a retry, and ends.
  void finish();

 private:
  using Variables = std::map<std::string, std::string>;  ///< name → JSON
  struct Written {
    Outcome outcome{};
    int writes = 0;
    Variables rest;  ///< to be retried
  };

  void keep_writing();
  [[nodiscard]] Written write_in_parts(const Variables& batch);

  std::function<Outcome(const std::string&)> write_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Variables pending_;
  std::size_t pending_bytes_ = 0;  ///< of its names and values
  bool closed_ = false;
  bool complained_ = false;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace holdfast::cli
