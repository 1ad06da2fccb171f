#include "metrics/run_record.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "metrics/metrics_page.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

constexpr std::array all_results{RunResult::ok,   RunResult::failed,      RunResult::not_acquired,
                                 RunResult::lost, RunResult::interrupted, RunResult::task_ended,
                                 RunResult::error};

std::string_view name_of(RunResult result) noexcept {
  switch (result) {
    case RunResult::ok:
      return "ok";
    case RunResult::failed:
      return "failed";
    case RunResult::not_acquired:
      return "not-acquired";
    case RunResult::lost:
      return "lost";
    case RunResult::interrupted:
      return "interrupted";
    case RunResult::task_ended:
      return "task-ended";
    case RunResult::error:
      return "error";
  }
  return "error";
}

/// A run waits once, however often it asks the engine: it reports that wait itself.
class AllButWaits final : public Observer {
 public:
  explicit AllButWaits(std::shared_ptr<Metrics> metrics) : metrics_(std::move(metrics)) {}
  void begun(Activity activity, std::string_view backend) noexcept override {
    if (activity != Activity::wait) metrics_->begun(activity, backend);
  }
  void ended(const Occurrence& occurrence) noexcept override {
    if (occurrence.activity != Activity::wait) metrics_->ended(occurrence);
  }

 private:
  const std::shared_ptr<Metrics> metrics_;
};

double in_seconds(std::chrono::nanoseconds length) noexcept {
  return std::chrono::duration<double>(length).count();
}

/// To the millisecond, which a double holds exactly enough to be printed briefly.
double unix_seconds(std::chrono::system_clock::time_point time) noexcept {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  return static_cast<double>(ms.count()) / 1000;
}

/// Of the counters of an engine, those that say something about single runs. The operations of the engine,
/// some hundred series for each job, do not.
bool is_about_runs(std::string_view family) {
  return !family.starts_with("holdfast_operation") && !family.starts_with("holdfast_locks_") &&
         !family.starts_with("holdfast_telemetry_");
}

constexpr std::string_view last_success = "holdfast_run_last_success_timestamp_seconds";

}  // namespace

RunRecord::RunRecord(const MetricsFile::Options& options) : file_(options) {
  if (!file_.wanted()) return;
  metrics_ = std::make_shared<Metrics>();
  observer_ = std::make_shared<AllButWaits>(metrics_);
}

void RunRecord::waits(std::string_view backend) {
  backend_ = backend;
  waiting_since_ = BootClock::now();
  if (metrics_) metrics_->begun(Activity::wait, backend_);
}

void RunRecord::end_wait(std::optional<ErrorCode> error) {
  const auto now = BootClock::now();
  wait_ = now - waiting_since_;
  if (!metrics_) return;
  metrics_->ended({.activity = Activity::wait,
                   .backend = backend_,
                   .started = waiting_since_,
                   .ended = now,
                   .error = error});
}

void RunRecord::acquired(const Fence& fence) {
  fence_ = fence;
  acquired_at_ = BootClock::now();
  end_wait(std::nullopt);
}

void RunRecord::not_acquired() {
  result_ = RunResult::not_acquired;
  end_wait(ErrorCode::AcquisitionTimeout);
}

void RunRecord::failed(ErrorCode code) {
  result_ = RunResult::error;
  if (waiting_since_ != BootTime{} && !wait_) end_wait(code);
}

std::string RunRecord::content(const std::string& old, int exit_code) const {
  const auto earlier = MetricsPage::parse(old);
  const auto now = std::chrono::system_clock::now();
  MetricsPage page;
  const auto gauge = [&page](std::string_view name, std::string_view help, double value) {
    page.family(name, "gauge", help);
    page.sample({}, value);
  };
  gauge("holdfast_run_last_start_timestamp_seconds", "When the last run of this job began.",
        unix_seconds(started_at_));
  gauge("holdfast_run_last_end_timestamp_seconds", "When it ended.", unix_seconds(now));
  gauge("holdfast_run_last_duration_seconds", "How long it took, with the wait for its lock.",
        in_seconds(BootClock::now() - started_));
  gauge("holdfast_run_last_wait_seconds", "How long it waited for its lock.",
        in_seconds(wait_.value_or(std::chrono::nanoseconds::zero())));
  gauge("holdfast_run_last_hold_seconds", "How long it held its lock.", in_seconds(hold_));
  gauge("holdfast_run_last_exit_code", "What it exited with.", exit_code);
  gauge("holdfast_run_last_lock_acquired", "Whether it acquired its lock.", fence_ ? 1 : 0);
  gauge("holdfast_run_last_lock_lost", "Whether it lost its lock.", result_ == RunResult::lost ? 1 : 0);
  if (fence_) {
    gauge("holdfast_run_last_fence", "The fence of its lock.", static_cast<double>(fence_->value()));
  }
  const auto label = "{" + std::string(job_label) + "=\"" + file_.job() + "\"}";
  auto success = earlier.value(std::string(last_success) + label);
  if (result_ == RunResult::ok) success = unix_seconds(now);
  gauge(last_success, "When a run of this job last succeeded; 0 if none did.",
        std::isnan(success) ? 0 : success);

  page.family("holdfast_runs_total", "counter", "Runs of this job, by how they ended.");
  for (const auto result : all_results) {
    page.sample("result=\"" + std::string(name_of(result)) + "\"", result == result_ ? 1 : 0);
  }
  auto counters = MetricsPage::parse(metrics_->prometheus());
  counters.filter(is_about_runs);
  page.append(std::move(counters));
  page.add_label(job_label, file_.job());
  page.add_counters_of(earlier, job_label, file_.job());
  return page.text();
}

void RunRecord::write(int exit_code) noexcept {
  if (!file_.wanted() || std::exchange(written_, true)) return;
  const auto failure = file_.replace(
      [this, exit_code](const MetricsFile::OldContent& old) { return content(old(), exit_code); });
  if (!failure.empty()) {
    complain("warning: --metrics-file was not written: " + failure, {.event = "metrics_not_written"});
  }
}

}  // namespace holdfast::cli
