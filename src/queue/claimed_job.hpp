#pragma once

#include <functional>
#include <holdfast/job.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "locks/notice.hpp"
#include "locks/risk_reports.hpp"
#include "queue/end_loop.hpp"
#include "queue/queue_store.hpp"
#include "queue/renewals.hpp"
#include "tasks/call.hpp"

namespace holdfast {

/// The state of a Job: one attempt, its lease, and what is known of its task.
class ClaimedJob final : public queue::RenewedJob, public std::enable_shared_from_this<ClaimedJob> {
 public:
  using Self = std::shared_ptr<ClaimedJob>;

  struct Claimed {
    RecordKey key;
    Task task;
    FencingToken token;
    Ttl lease;
    BootTime sent;  ///< read before the claim was sent
    locks::Notice notice;
  };
  /// Starts to renew the lease.
  [[nodiscard]] static Job start(std::shared_ptr<const QueueStore> store, Claimed claimed);
  ClaimedJob(std::shared_ptr<const QueueStore> store, Claimed claimed);
  ~ClaimedJob() override;

  [[nodiscard]] Task task() const;
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] const FencingToken& token() const noexcept { return token_; }
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }
  [[nodiscard]] std::string_view owner() const noexcept { return key_.owner(); }
  [[nodiscard]] std::chrono::nanoseconds remaining() const;
  [[nodiscard]] std::stop_token stopped() const noexcept { return state_->stop.get_token(); }
  [[nodiscard]] bool cancelled() const;
  [[nodiscard]] bool gone() const;
  [[nodiscard]] std::optional<LossReason> loss_reason() const;
  [[nodiscard]] bool at_risk() const { return store_->renewals->at_risk(place_); }
  void on_at_risk(std::function<void(bool)> callback);
  /// False after its end.
  [[nodiscard]] bool is_held() const;
  [[nodiscard]] const std::shared_ptr<const QueueStore>& store() const noexcept { return store_; }
  [[nodiscard]] bool in_own_process() const noexcept { return store_->renewals->in_own_process(); }

  static runtime::Op<Task> perform(runtime::Flow flow, Self self, operation::EndJob what,
                                   std::stop_token stop);
  static runtime::Op<Task> perform(runtime::Flow flow, Self self, operation::SetJobVariables what,
                                   std::stop_token stop);
  static runtime::Op<std::optional<Job>> perform(runtime::Flow flow, Self self,
                                                 operation::EndJobAndClaim what, std::stop_token stop);
  [[nodiscard]] runtime::Op<Ok> wait_stopped(std::stop_token stop) const {
    return wait_stopped(state_, std::move(stop));
  }
  /// Gives the task back in the background, unless the job has ended or its end is under way; or retries it,
  /// if its outcome could not be stored: it would be claimed again at once, for ever.
  void dispose() noexcept;

  void lease_lost(LossReason why) override;
  void risk_changed() override;
  void record_changed(bool is_held) override;

 private:
  /// Shared with operations that may outlive the job for a moment.
  struct State {
    mutable std::mutex mutex;
    Task task;
    bool cancelled = false;
    bool gone = false;
    bool over = false;         ///< the worker must stop
    int ending = 0;            ///< our own ends under way: if they succeed, no reason to stop the worker
    bool dropped = false;      ///< the Job is gone: only ends under way can still come
    bool released = false;     ///< the job has ended: there is no worker to stop
    bool unanswered = false;   ///< an end got no answer: it may have been accepted
    bool may_be_back = false;  ///< so may a retry or a give-back: then another worker may have the task
    bool unstorable = false;   ///< an outcome was refused because of what it contains: the attempt has failed
    std::optional<LossReason> loss;
    locks::RiskReports risk_reports;
    std::stop_source stop;
    std::stop_source ended;
  };
  struct Ended {
    Task task;
    std::optional<ClaimedRecords> next;
    BootTime sent;
  };

  /// The requests of an end. `loop` is set before it begins.
  static runtime::Op<Ended> send(runtime::Flow flow, Self self, std::optional<queue::EndLoop>& loop,
                                 std::stop_token stop);
  static runtime::Op<Ended> end(runtime::Flow flow, Self self, operation::EndJob what,
                                std::optional<ClaimTerms> then, std::stop_token stop);
  static runtime::Op<Ok> look(runtime::Flow flow, Self self, bool is_held);
  static runtime::Op<Ok> wait_stopped(std::shared_ptr<State> state, std::stop_token stop);
  /// Runs the user's stop callbacks on a thread for them, unless the job has ended.
  void stop_worker();
  /// Calls on_at_risk on such a thread, until it knows the present state.
  void announce_risk();
  /// Marks the end; false if it had ended. No loss is reported afterwards.
  bool release();
  [[nodiscard]] tasks::Call call(runtime::Flow flow, std::stop_token stop) const;

  const std::shared_ptr<const QueueStore> store_;
  const RecordKey key_;
  const std::string id_;
  const std::string incarnation_;
  const FencingToken token_;
  const std::uint32_t attempt_;
  const std::shared_ptr<State> state_;
  queue::Renewals::Place place_;
};

}  // namespace holdfast
