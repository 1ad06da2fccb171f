#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/job.hpp>
#include <holdfast/json.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::rpc {

/// The jobs of one client: their leases are renewed until the client ends them, or goes.
class HeldJobs {
 public:
  using OnStopped = std::function<void(const Json& params)>;

  /// `on_stopped` gets the parameters of a `job.stopped` notification.
  HeldJobs(asio::any_io_executor executor, OnStopped on_stopped)
      : executor_(std::move(executor)), on_stopped_(std::move(on_stopped)) {}

  /// Throws Error(RateLimited) if the client has as many jobs as it may.
  void check_room() const;
  /// Returns the id under which the client names it: random, so that an id of an earlier connection does not
  /// name another job.
  [[nodiscard]] std::string add(Job job);
  /// Throws Error(InvalidArgument) if this client has no such job. It stays valid while the pointer is kept.
  [[nodiscard]] std::shared_ptr<Job> find(std::string_view job_id) const;
  /// How long the lease of this job is proven; empty if this client has no such job.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> remaining(std::string_view job_id) const;
  /// Forgets a job that has ended, or that is not this client's any more.
  void remove(std::string_view job_id);

  /// Reports once that this job should be stopped, now if it already should. False if there is no such job.
  bool subscribe(std::string_view job_id);
  /// The same for all jobs, present and future.
  void subscribe_to_all();

  /// Why the client ends its jobs no more.
  enum class Worker : std::uint8_t {
    left,  ///< in order: the attempts do not count
    died,  ///< perhaps of a task: the attempts count
  };
  /// Ends all jobs at once. `unknown`: ids that the client never got; these attempts never count. A job that
  /// cannot be ended is freed when its lease expires.
  [[nodiscard]] asio::awaitable<void> end_all(Worker worker, const std::vector<std::string>& unknown);

 private:
  struct Held {
    Job job;
    bool subscribed = false;
    bool reported = false;
  };
  void report_if_stopped(const std::string& job_id, Held& held);

  asio::any_io_executor executor_;
  OnStopped on_stopped_;
  std::map<std::string, std::shared_ptr<Held>, std::less<>> held_;
  bool all_subscribed_ = false;
};

}  // namespace holdfast::rpc
