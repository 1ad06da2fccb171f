#include "queue/renewals.hpp"

#include <algorithm>

namespace holdfast::queue {

using runtime::Flow;
using runtime::Op;
using std::chrono::milliseconds;

namespace {

/// How long a task is tried to be given back to a store that does not answer: then its lease expires.
constexpr milliseconds longest_give_back{2000};
constexpr milliseconds give_back_again{100};

/// Captures no more than it needs: it must not keep the object alive whose destructor waits for it.
Op<Ok> keep_ending(Flow flow, std::shared_ptr<StorageBackend> storage, EndLease request) {
  const auto give_up_at = BootClock::now() + longest_give_back;
  request.deadline = give_up_at;
  for (;;) {
    EndLease copy = request;
    const auto answer = co_await flow.ask(storage, std::move(copy), {});
    if (answer) co_return Ok{};
    if (!answer.error().transient() || BootClock::now() + give_back_again >= give_up_at) {
      co_return answer.error();
    }
    (void)co_await flow.sleep_until(BootClock::now() + give_back_again, {});
  }
}

}  // namespace

Renewals::~Renewals() {
  // In a forked child the timer's mutex may be locked forever.
  if (!process_.is_current()) return;
  threads_->timer.cancel(*this);
  // A thread of the library would wait for itself.
  if (!runtime::WorkerPool::on_library_thread()) given_back_.wait_until_none();
}

void Renewals::add(const std::string& owner, Ttl lease, LeaseLoop::Granted granted,
                   const std::shared_ptr<RenewedJob>& job, Place& place) {
  if (!threads_->user_code.ensure_thread() ||
      (runtime::blocks(*storage_) && !threads_->blocking.ensure_thread())) {
    throw Error(ErrorCode::Internal, "cannot start the threads that renew leases");
  }
  const std::lock_guard lock(mutex_);
  place.group = {owner, lease.length()};
  auto& leases =
      groups_.try_emplace(place.group, Leases{.loop = LeaseLoop(owner, lease, last_id_), .jobs = {}})
          .first->second;
  place.id = leases.loop.add(std::move(granted));
  last_id_ = std::max(last_id_, place.id);
  leases.jobs.emplace(place.id, job);
  try {
    threads_->timer.schedule(*this, next_tick());
  } catch (...) {
    leases.loop.remove(place.id);
    leases.jobs.erase(place.id);
    throw;
  }
}

void Renewals::remove(const Place& place) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(place.group);
  if (found == groups_.end()) return;
  found->second.loop.remove(place.id);
  found->second.jobs.erase(place.id);
  if (found->second.loop.empty()) groups_.erase(found);
}

BootTime Renewals::proven_until(const Place& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(place.group);
  return found == groups_.end() ? BootTime{} : found->second.loop.proven_until(place.id);
}

bool Renewals::at_risk(const Place& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(place.group);
  return found != groups_.end() && found->second.loop.at_risk(place.id);
}

void Renewals::knows_version(const Place& place, std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(place.group);
  if (found != groups_.end()) found->second.loop.knows_version(place.id, version);
}

BootTime Renewals::next_tick() const noexcept {
  BootTime next = never;
  for (const auto& [group, leases] : groups_) next = std::min(next, leases.loop.next_tick());
  return next;
}

Renewals::Jobs Renewals::jobs_of(const Leases& leases, const std::vector<LeaseLoop::Id>& ids) {
  Jobs jobs;
  for (const auto id : ids) {
    const auto job = leases.jobs.find(id);
    if (auto alive = job == leases.jobs.end() ? nullptr : job->second.lock())
      jobs.push_back(std::move(alive));
  }
  return jobs;
}

BootTime Renewals::on_time(BootTime now) {
  Jobs risky;
  std::vector<std::pair<std::shared_ptr<RenewedJob>, LossReason>> lost;
  std::vector<std::pair<Group, LeaseLoop::Renewal>> renewals;
  BootTime next = never;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [group, leases] : groups_) {
      auto due = leases.loop.tick(now);
      for (const auto& [id, why] : due.lost) {
        const auto job = leases.jobs.find(id);
        if (auto alive = job == leases.jobs.end() ? nullptr : job->second.lock()) {
          lost.emplace_back(std::move(alive), why);
        }
      }
      for (auto& job : jobs_of(leases, due.risky)) risky.push_back(std::move(job));
      for (auto& renewal : due.renewals) renewals.emplace_back(group, std::move(renewal));
    }
    next = next_tick();
  }
  const auto self = std::static_pointer_cast<Renewals>(shared_from_this());
  for (auto& [of, request] : renewals) {
    auto job = [self, group = std::move(of), renewal = std::move(request)]() mutable {
      send(self, group, std::move(renewal));
    };
    if (runtime::blocks(*storage_)) {
      threads_->blocking.post(std::move(job));
    } else {
      threads_->timer.after_due(std::move(job));
    }
  }
  for (const auto& job : risky) job->risk_changed();
  for (const auto& [job, why] : lost) job->lease_lost(why);
  return next;
}

void Renewals::send(const Self& self, const Group& group, LeaseLoop::Renewal renewal) {
  Op<Ok>::start(renew(self, group, std::move(renewal)), [](const Result<Ok>&) {});
}

Op<Ok> Renewals::renew(Self self, Group group, LeaseLoop::Renewal renewal) {
  const auto flow = self->background_flow();
  std::optional<Result<std::vector<RenewedLease>>> answer;
  try {
    answer = co_await flow.ask(self->storage_, RenewLeases(renewal.request), {});
  } catch (const std::exception& error) {
    // For example out of memory. It must count as answered, or no lease would be renewed again.
    answer = Error(ErrorCode::Internal, "the renewal failed locally", error.what());
  }
  self->answered(group, renewal, *answer);
  co_return Ok{};
}

void Renewals::answered(const Group& group, const LeaseLoop::Renewal& renewal,
                        const Result<std::vector<RenewedLease>>& answer) {
  Jobs risky, not_held, changed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) return;
    auto& leases = found->second;
    const auto events = leases.loop.answered(renewal, answer, BootClock::now());
    risky = jobs_of(leases, events.risky);
    not_held = jobs_of(leases, events.not_held);
    changed = jobs_of(leases, events.changed);
    if (leases.loop.empty()) groups_.erase(found);
    try {
      threads_->timer.schedule(*this, next_tick());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it has a thread, or the lease was never added
    }
  }
  for (const auto& job : risky) job->risk_changed();
  for (const auto& job : not_held) job->record_changed(false);
  for (const auto& job : changed) job->record_changed(true);
}

void Renewals::run_in_background(std::function<void()> job) const {
  if (runtime::blocks(*storage_)) {
    threads_->blocking.post(std::move(job));
  } else {
    job();
  }
}

void Renewals::end_in_background(EndLease request) {
  auto end = [piece = given_back_.piece(), log = log_](const Result<Ok>& answer) {
    if (answer || !log) return;
    log->write(LogLevel::debug, "a task could not be given back; its lease will expire: " +
                                    std::string(to_string(answer.error().code())) + " " +
                                    answer.error().cause());
  };
  if (!runtime::blocks(*storage_)) {
    return Op<Ok>::start(keep_ending(Flow::completing(threads_), storage_, std::move(request)),
                         std::move(end));
  }
  threads_->blocking.post([storage = storage_, request = std::move(request), end = std::move(end)]() mutable {
    end(Op<Ok>::run(keep_ending(Flow::blocking(), std::move(storage), std::move(request))));
  });
}

}  // namespace holdfast::queue
