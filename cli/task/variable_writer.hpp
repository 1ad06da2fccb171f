#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <holdfast/error.hpp>
#include <holdfast/json.hpp>
#include <holdfast/task_types.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::cli {

/// Writes lines `name=JSON` as variables of a task, on its own thread, so that a slow store blocks no other.
/// Lines that arrive during one write, or too soon after it, go into the next; of each variable the last
/// value counts. What is not stored is reported: each name once, with the reason.
class VariableWriter {
 public:
  /// The task whose variables are written.
  struct Target {
    std::string task;                                ///< for messages
    TaskOptions limits;                              ///< those of the store
    std::function<void(const Json& changes)> write;  ///< Tasks::set_variables; throws Error
    std::function<Json()> read;                      ///< the task's variables; throws Error
  };
  /// The average time between writes: other clients use the store too.
  static constexpr std::chrono::milliseconds pause{100};

  /// `complain` gets a message for each variable that is not stored. It is called from several threads, one
  /// at a time.
  VariableWriter(Target target, std::function<void(const std::string&)> complain);
  ~VariableWriter();
  VariableWriter(const VariableWriter&) = delete;
  VariableWriter& operator=(const VariableWriter&) = delete;

  /// Does not wait. What a slow store has not accepted is kept up to a limit.
  void line(std::string_view text);
  /// Writes what is pending at once, without a retry, and ends.
  void finish();

 private:
  struct Value {
    std::string json;
    std::size_t bytes = 0;  ///< as variable_bytes(); 0: it is deleted
  };
  using Variables = std::map<std::string, Value>;
  enum class Outcome {
    done,
    retry,   ///< the store did not answer
    closed,  ///< the task accepts no more writes
  };
  struct Written {
    Outcome outcome = Outcome::done;
    Variables rest;  ///< to be retried
    std::string why;
  };

  void keep_writing();
  [[nodiscard]] Written write(Variables batch);
  [[nodiscard]] Written write_what_fits(Variables batch, const Error& refusal);
  [[nodiscard]] Written failed(Variables batch, const Error& error);
  void report(const Variables& refused, std::string_view why, std::string_view verb = "were not stored");
  void report(std::string_view name, std::string_view why);

  const Target target_;
  const std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Variables pending_;
  std::size_t pending_bytes_ = 0;  ///< of its names and values
  bool closed_ = false;
  bool end_ = false;
  std::mutex reporting_;
  std::set<std::string, std::less<>> reported_;  ///< names
  bool complained_of_line_ = false, complained_of_store_ = false;
  std::thread thread_;
};

}  // namespace holdfast::cli
