#include "rpc/session/held_jobs.hpp"

#include <holdfast/asio.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/session/event.hpp"
#include "rpc/session/limits.hpp"

namespace holdfast::rpc {
namespace {

std::string_view reason_of(const Job& job) {
  if (job.gone()) return "removed";
  if (job.cancelled()) return "cancelled";
  if (const auto lost = job.loss_reason()) return to_string(*lost);
  return "ended";  // by another client
}

nlohmann::ordered_json params_of(const std::string& job_id, const Job& job) {
  return {{"jobId", job_id}, {"queue", job.queue()}, {"taskId", job.id()}};
}

}  // namespace

void HeldJobs::check_room() const {
  if (held_.size() < max_jobs) return;
  throw Error(ErrorCode::RateLimited,
              "this connection has " + std::to_string(held_.size()) + " jobs, the maximum; end some");
}

std::string HeldJobs::add(Job job) {
  std::string job_id(LockId::generate().str());
  auto held = std::make_shared<Held>();
  held->job = std::move(job);
  // Also completes, with Aborted, when the job ends; then this object may be gone. While `held` lives, so
  // does this object.
  async_call<Ok>(
      executor_,
      [held](std::stop_token stop, Done<Ok> done) {
        held->job.wait_stopped(std::move(stop), std::move(done));
      },
      [this, job_id, weak = std::weak_ptr(held)](const std::exception_ptr& ended) {
        const auto stopped = weak.lock();
        if (!ended && stopped) report(job_id, *stopped);
      });
  if (all_subscribed_) listen(job_id, held);
  held_.emplace(job_id, std::move(held));
  return job_id;
}

void HeldJobs::listen(const std::string& job_id, const std::shared_ptr<Held>& held) {
  if (std::exchange(held->subscribed, true) || !held->job) return;
  held->job.on_at_risk(detail::posted_each_time(executor_, [this, job_id, weak = std::weak_ptr(held)](bool) {
    if (const auto risky = weak.lock()) report(job_id, *risky);
  }));
}

std::shared_ptr<Job> HeldJobs::find(std::string_view job_id) const {
  const auto found = held_.find(job_id);
  if (found == held_.end()) {
    throw Error(ErrorCode::InvalidArgument,
                "jobId: this connection has no such job: it has ended, or another connection claimed it");
  }
  return {found->second, &found->second->job};
}

std::optional<std::chrono::nanoseconds> HeldJobs::remaining(std::string_view job_id) const {
  const auto found = held_.find(job_id);
  if (found == held_.end() || !found->second->job) return std::nullopt;
  return found->second->job.remaining();
}

void HeldJobs::remove(std::string_view job_id) {
  const auto found = held_.find(job_id);
  if (found != held_.end()) held_.erase(found);
}

bool HeldJobs::subscribe(std::string_view job_id) {
  const auto found = held_.find(job_id);
  if (found == held_.end()) return false;
  listen(found->first, found->second);
  report(found->first, *found->second);
  return true;
}

void HeldJobs::subscribe_to_all() {
  all_subscribed_ = true;
  for (const auto& [job_id, held] : held_) {
    listen(job_id, held);
    report(job_id, *held);
  }
}

void HeldJobs::report(const std::string& job_id, Held& held) {
  const auto& job = held.job;
  if (!held.subscribed || held.stop_is_reported || !job) return;
  if (job.stopped().stop_requested()) {
    held.stop_is_reported = true;
    auto params = params_of(job_id, job);
    params["reason"] = reason_of(job);
    params["remainingMs"] = whole_milliseconds(job.remaining());
    notify_("job.stopped", dump(params));
  } else if (const bool at_risk = job.at_risk(); at_risk != held.reported_at_risk) {
    held.reported_at_risk = at_risk;
    auto params = params_of(job_id, job);
    params["atRisk"] = at_risk;
    params["remainingMs"] = whole_milliseconds(job.remaining());
    notify_("job.atRisk", dump(params));
  }
}

asio::awaitable<void> HeldJobs::end_all(Worker worker, const std::vector<std::string>& unknown) {
  const auto all = std::exchange(held_, {});
  const std::set<std::string_view> never_sent(unknown.begin(), unknown.end());
  Countdown ended(executor_, all.size());
  const auto done = [&ended](const std::exception_ptr&, const Task&) { ended.complete_one(); };
  for (const auto& [job_id, held] : all) {
    operation::EndJob how{.how = operation::EndJob::How::give_back};
    if (worker == Worker::died && !never_sent.contains(job_id)) {
      how = {.how = operation::EndJob::How::retry, .message = "the worker disconnected without an outcome"};
    }
    async_call<Task>(
        executor_,
        [held, how = std::move(how)](std::stop_token stop, Done<Task> completion) mutable {
          held->job.start(std::move(how), std::move(stop), std::move(completion));
        },
        done);
  }
  co_await ended.wait();
}

}  // namespace holdfast::rpc
