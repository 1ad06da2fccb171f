#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/metrics.hpp>
#include <memory>
#include <optional>
#include <string_view>

#include "metrics/metrics_file.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {

/// How a run ended, as the metrics name it.
enum class RunResult : std::uint8_t {
  ok,            ///< the command exited with 0 while the lock was held
  failed,        ///< the command failed
  not_acquired,  ///< another holder has the lock; the command was not run
  lost,          ///< the lock was lost
  interrupted,   ///< a signal came before the command began
  task_ended,    ///< `task run`: another client ended the task
  error,         ///< Holdfast or its store failed
};

/// The metrics of one `run` or `task run`: gauges about this run, and counters of all runs of the job, which
/// the file carries from one to the next. Without `--metrics-file` it does nothing.
class RunRecord {
 public:
  /// Throws UsageError if the file cannot be written.
  explicit RunRecord(const MetricsFile::Options& options);

  /// Counts for the metrics; null if there is no file. Waits are not counted: a run makes several, and is
  /// one.
  [[nodiscard]] std::shared_ptr<Observer> observer() const noexcept { return observer_; }

  /// The run begins to try to acquire its lock.
  void waits(std::string_view backend);
  void acquired(const Fence& fence);
  void not_acquired();
  /// The command has ended, or the lock is lost.
  void hold_ends() noexcept { hold_ = BootClock::now() - acquired_at_; }
  void ends_as(RunResult result) noexcept { result_ = result; }
  /// Writes the file, once. To be called when the lock has been released, or will not be. A failure is a
  /// warning on stderr.
  void write(int exit_code) noexcept;

  /// Calls `run()`, which returns an exit code, and writes the file when it has ended, also by an exception.
  template <class Run>
  int around(const Run& run) {
    try {
      const int code = run();
      write(code);
      return code;
    } catch (const Error& error) {
      failed(error.code());
      write(exit_code_of(error.code()));
      throw;
    } catch (...) {
      failed(ErrorCode::Internal);
      write(exit_internal);
      throw;
    }
  }

 private:
  void failed(ErrorCode code);
  void end_wait(std::optional<ErrorCode> error);
  [[nodiscard]] std::string content(const std::string& old, int exit_code) const;

  MetricsFile file_;
  std::shared_ptr<Metrics> metrics_;
  std::shared_ptr<Observer> observer_;
  std::string backend_;
  std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();
  BootTime started_ = BootClock::now();
  BootTime waiting_since_ = {};
  BootTime acquired_at_ = {};
  std::optional<std::chrono::nanoseconds> wait_ = {};
  std::chrono::nanoseconds hold_{};
  std::optional<Fence> fence_ = {};
  RunResult result_ = RunResult::error;
  bool written_ = false;
};

}  // namespace holdfast::cli
