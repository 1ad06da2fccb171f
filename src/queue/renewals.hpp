#pragma once

#include <holdfast/log.hpp>
#include <holdfast/queue_requests.hpp>
#include <holdfast/storage_backend.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "os/process.hpp"
#include "queue/lease_loop.hpp"
#include "runtime/flow.hpp"
#include "runtime/runtime.hpp"
#include "runtime/timer_queue.hpp"
#include "runtime/unfinished.hpp"

namespace holdfast::queue {

/// A job, as the renewals know it. The functions are called without a mutex, on a thread of the library that
/// must not be blocked.
class RenewedJob {
 public:
  RenewedJob() = default;
  RenewedJob(const RenewedJob&) = delete;
  RenewedJob& operator=(const RenewedJob&) = delete;
  virtual ~RenewedJob() = default;
  /// The lease is not renewed any more, and its proof ends soon.
  virtual void lease_lost(LossReason why) = 0;
  /// Renewals::at_risk has changed.
  virtual void risk_changed() = 0;
  /// The record may have been changed, ended or removed by another client. `is_held`: whether this job still
  /// has the lease.
  virtual void record_changed(bool is_held) = 0;
};

/// Renews the leases of all jobs of one engine in this process: one request for each queue and interval, and
/// one timer for all. docs/internals/queues.md, "Time".
class Renewals final : public runtime::Timed {
 public:
  Renewals(std::shared_ptr<StorageBackend> storage, std::shared_ptr<runtime::Runtime> threads,
           std::shared_ptr<Log> log)
      : storage_(std::move(storage)), threads_(std::move(threads)), log_(std::move(log)) {}
  /// Waits a moment for jobs that are given back in the background.
  ~Renewals() override;

  /// Which queue, and how long its leases are.
  using Group = std::pair<std::string, std::chrono::milliseconds>;
  struct Place {
    Group group;
    LeaseLoop::Id id = 0;
  };
  /// Throws Internal if the machine has no thread for the renewals: a lease whose loss cannot be reported
  /// must not be used. `place` is the job's: it is set before another thread can call the job.
  void add(const std::string& owner, Ttl lease, LeaseLoop::Granted granted,
           const std::shared_ptr<RenewedJob>& job, Place& place);
  void remove(const Place& place) noexcept;
  [[nodiscard]] BootTime proven_until(const Place& place) const;
  [[nodiscard]] bool at_risk(const Place& place) const;
  void knows_version(const Place& place, std::uint64_t version);

  /// Sends it in the background, with a few retries; the destructor waits for it.
  void end_in_background(EndLease request);

  BootTime on_time(BootTime now) override;

  /// For work of this object and its jobs that has no caller.
  [[nodiscard]] runtime::Flow background_flow() const {
    return runtime::blocks(*storage_) ? runtime::Flow::blocking() : runtime::Flow::completing(threads_);
  }
  /// Runs `job` on a thread that may wait for the engine.
  void run_in_background(std::function<void()> job) const;
  [[nodiscard]] const std::shared_ptr<StorageBackend>& storage() const noexcept { return storage_; }
  [[nodiscard]] const std::shared_ptr<runtime::Runtime>& threads() const noexcept { return threads_; }
  /// May be null.
  [[nodiscard]] const std::shared_ptr<Log>& log() const noexcept { return log_; }
  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  struct Leases {
    LeaseLoop loop;
    std::map<LeaseLoop::Id, std::weak_ptr<RenewedJob>> jobs;
  };
  using Self = std::shared_ptr<Renewals>;
  using Jobs = std::vector<std::shared_ptr<RenewedJob>>;

  /// Those of them that are still there.
  [[nodiscard]] static Jobs jobs_of(const Leases& leases, const std::vector<LeaseLoop::Id>& ids);

  static void send(const Self& self, const Group& group, LeaseLoop::Renewal renewal);
  static runtime::Op<Ok> renew(Self self, Group group, LeaseLoop::Renewal renewal);
  void answered(const Group& group, const LeaseLoop::Renewal& renewal,
                const Result<std::vector<RenewedLease>>& answer);
  [[nodiscard]] BootTime next_tick() const noexcept;

  const std::shared_ptr<StorageBackend> storage_;
  const std::shared_ptr<runtime::Runtime> threads_;
  const std::shared_ptr<Log> log_;
  const os::ProcessIdentity process_;
  const runtime::Unfinished given_back_;
  mutable std::mutex mutex_;
  std::map<Group, Leases> groups_;
  /// The greatest id of all groups, past ones included. None is used again: a job that has ended removes its
  /// id once more when it is destroyed, and that must not be the lease of a later job.
  LeaseLoop::Id last_id_ = 0;
};

}  // namespace holdfast::queue
