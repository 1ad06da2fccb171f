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
  using Notify = std::function<void(std::string_view method, const Json& params)>;

  /// `notify` sends `job.stopped` and `job.atRisk`.
  HeldJobs(asio::any_io_executor executor, Notify notify)
      : executor_(std::move(executor)), notify_(std::move(notify)) {}

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

  /// Reports once that this job should be stopped, and before that when it is at risk and no longer; now if
  /// it already is. False if there is no such job.
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
    bool stop_is_reported = false;
    bool reported_at_risk = false;  ///< the state that the client knows
  };
  /// Reports from now on: in the order of the answers, because its id is sent with one of them.
  void listen(const std::string& job_id, const std::shared_ptr<Held>& held);
  /// Sends what the client does not know yet.
  void report(const std::string& job_id, Held& held);

  asio::any_io_executor executor_;
  Notify notify_;
  std::map<std::string, std::shared_ptr<Held>, std::less<>> held_;
  bool all_subscribed_ = false;
};

}  // namespace holdfast::rpc
