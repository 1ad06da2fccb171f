#include "queue/claimed_job.hpp"

#include <algorithm>

#include "os/random.hpp"
#include "queue/claiming.hpp"
#include "queue/end_loop.hpp"
#include "runtime/first_stop.hpp"
#include "tasks/limits.hpp"
#include "tasks/operations.hpp"
#include "tasks/refusals.hpp"

namespace holdfast {

using queue::EndLoop;
using runtime::Flow;
using runtime::Op;
using std::chrono::milliseconds;

namespace {

Error has_ended() {
  return {ErrorCode::InvalidArgument,
          "this job has ended: its task was completed, failed, retried or given back"};
}

bool cannot_be_stored(const Error& error) noexcept {
  return error.code() == ErrorCode::TooLarge || error.code() == ErrorCode::TooDeep;
}

/// Whether an end that failed so may have been accepted.
bool may_have_been_accepted(const Error& error) noexcept {
  return error.effect() != Effect::none && (error.transient() || error.code() == ErrorCode::Aborted);
}

Error may_have_ended(const std::string& id) {
  return {ErrorCode::NotFound,
          "the task " + id +
              " is gone: it was removed, or has expired. An earlier request to end it got "
              "no answer, so its outcome may have been accepted"};
}

/// The refusal of another end after one that may have been accepted, which then is the reason for it.
Error may_have_ended_before(const Error& refused) {
  return Error(refused.code(),
               refused.message() +
                   ". An earlier request to end this attempt got no answer; it may have been accepted",
               refused.cause())
      .about(refused.key(), refused.lock_id())
      .between(refused.from(), refused.to());
}

}  // namespace

ClaimedJob::ClaimedJob(std::shared_ptr<const QueueStore> store, Claimed claimed)
    : store_(std::move(store)),
      key_(std::move(claimed.key)),
      id_(claimed.task.id),
      incarnation_(claimed.task.incarnation),
      token_(std::move(claimed.token)),
      attempt_(claimed.task.queue ? claimed.task.queue->attempts : 0),
      state_(std::make_shared<State>()) {
  state_->task = std::move(claimed.task);
}

ClaimedJob::~ClaimedJob() {
  store_->renewals->remove(place_);
}

Job ClaimedJob::start(std::shared_ptr<const QueueStore> store, Claimed claimed) {
  const auto lease = claimed.lease;
  queue::LeaseLoop::Granted granted{
      .lease = {.task = claimed.task.id,
                .incarnation = claimed.task.incarnation,
                .fence = claimed.token.fence},
      .sent = claimed.sent,
      .version = claimed.task.version,
      .limit = claimed.task.queue ? claimed.task.queue->terms.attempt_limit : milliseconds(0),
      .notice = claimed.notice};
  const std::string owner(claimed.key.owner());
  auto self = std::make_shared<ClaimedJob>(std::move(store), std::move(claimed));
  Job job(self);  // gives the task back if this throws
  self->store_->renewals->add(owner, lease, std::move(granted), self, self->place_);
  return job;
}

Task ClaimedJob::task() const {
  const std::lock_guard lock(state_->mutex);
  return state_->task;
}

bool ClaimedJob::cancelled() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cancelled;
}

bool ClaimedJob::gone() const {
  const std::lock_guard lock(state_->mutex);
  return state_->gone;
}

std::optional<LossReason> ClaimedJob::loss_reason() const {
  const std::lock_guard lock(state_->mutex);
  return state_->loss;
}

bool ClaimedJob::is_held() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->released;
}

std::chrono::nanoseconds ClaimedJob::remaining() const {
  return std::max(store_->renewals->proven_until(place_) - BootClock::now(),
                  std::chrono::nanoseconds::zero());
}

tasks::Call ClaimedJob::call(Flow flow, std::stop_token stop) const {
  auto call = store_->call(std::move(flow), std::string(key_.owner()), std::move(stop));
  call.fence = token_;
  call.incarnation = incarnation_;
  return call;
}

void ClaimedJob::stop_worker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
    if (state_->released || state_->ending > 0) return;  // `end` decides
  }
  store_->renewals->threads()->user_code.post([state = state_] { state->stop.request_stop(); });
}

void ClaimedJob::lease_lost(LossReason why) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->loss) state_->loss = why;
  }
  stop_worker();
}

void ClaimedJob::on_at_risk(std::function<void(bool)> callback) {
  auto shared = callback ? std::make_shared<locks::RiskReports::Callback>(std::move(callback)) : nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    state_->risk_reports.swap(shared);  // the old one ends after the mutex is free
  }
  risk_changed();
}

void ClaimedJob::risk_changed() {
  {
    // The renewals' mutex inside this one: the state that is read is not older than one that was reported.
    const std::lock_guard lock(state_->mutex);
    if (state_->over || state_->released || !state_->risk_reports.begin(at_risk())) return;
  }
  announce_risk();
}

void ClaimedJob::announce_risk() {
  store_->renewals->threads()->user_code.post([self = shared_from_this()] {
    for (;;) {
      std::shared_ptr<locks::RiskReports::Callback> callback;
      bool at_risk = false;
      {
        auto& state = *self->state_;
        const std::lock_guard lock(state.mutex);
        at_risk = self->at_risk();
        callback = state.risk_reports.next(at_risk, state.over || state.released);
      }
      if (!callback) return;
      try {
        (*callback)(at_risk);
      } catch (...) {
        const auto& log = self->store_->renewals->log();
        if (log) log->write(LogLevel::debug, "an on_at_risk callback threw an exception");
      }
    }
  });
}

void ClaimedJob::record_changed(bool is_held) {
  Op<Ok>::start(look(store_->renewals->background_flow(), shared_from_this(), is_held),
                [](const Result<Ok>&) {});
}

/// Reads the record, because its version has moved, or its lease is gone, and this job does not know why.
Op<Ok> ClaimedJob::look(Flow flow, Self self, bool is_held) {
  auto call = self->call(flow, {});
  operation::GetTask get{{}, self->id_};
  const auto now = co_await tasks::perform(std::move(call), std::move(get));
  bool stops = !is_held;
  {
    auto& state = *self->state_;
    const std::lock_guard lock(state.mutex);
    if (now) {
      if (now->version > state.task.version) state.task = *now;
      state.cancelled = now->status == TaskStatus::cancelled;
      stops = stops || is_final(now->status);
    } else if (now.error().code() == ErrorCode::NotFound) {
      state.gone = stops = true;
    }
    if (!is_held && !state.loss && !state.cancelled && !state.gone) state.loss = LossReason::gone;
  }
  // The store did not answer: the next renewal reports the version again.
  if (!now && !stops) self->store_->renewals->knows_version(self->place_, 0);
  if (stops) self->stop_worker();
  co_return Ok{};
}

bool ClaimedJob::release() {
  std::shared_ptr<locks::RiskReports::Callback> unused;  // may own this job
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->released) return false;
    state_->released = true;
    state_->risk_reports.swap(unused);
  }
  store_->renewals->remove(place_);
  state_->ended.request_stop();
  return true;
}

Op<ClaimedJob::Ended> ClaimedJob::send(Flow flow, Self self, std::optional<EndLoop>& loop,
                                       std::stop_token stop) {
  const auto& storage = self->store_->tasks->storage;
  std::optional<ClaimedRecords> next;
  BootTime sent{};
  auto action = loop->start(storage->now());
  while (!std::holds_alternative<EndLoop::Finished>(action)) {
    if (auto* request = std::get_if<EndLease>(&action)) {
      sent = BootClock::now();
      auto answer = co_await flow.ask(storage, std::move(*request), stop);
      if (answer) {
        next = std::move(answer->next);
        action = loop->resume(Result<EndOutcome>(std::move(answer->end)));
      } else {
        action = loop->resume(Result<EndOutcome>(answer.error()));
      }
    } else {
      GetRecord get{.key = self->key_};
      const auto stored = co_await flow.ask(storage, std::move(get), stop);
      action = loop->resume(stored, storage->now());
    }
  }
  auto result = std::get<EndLoop::Finished>(std::move(action)).result;
  if (!result) co_return result.error();
  co_return Ended{.task = *std::move(result), .next = std::move(next), .sent = sent};
}

Op<ClaimedJob::Ended> ClaimedJob::end(Flow flow, Self self, operation::EndJob what,
                                      std::optional<ClaimTerms> then, std::stop_token stop) {
  using How = operation::EndJob::How;
  auto& state = *self->state_;
  const bool puts_back = what.how == How::retry || what.how == How::give_back;
  if (what.message) what.message = tasks::storable_message(*what.message, self->store_->tasks->options);
  const auto checked = what.result ? tasks::check_result(*what.result) : Status(Ok{});
  // An end that is counted must be uncounted, or the job would wait for its outcome forever. So nothing in
  // between may throw: `send` is an operation, so its exceptions are its result.
  std::optional<EndLoop> loop;
  auto sending = send(std::move(flow), self, loop, std::move(stop));
  {
    const std::lock_guard lock(state.mutex);
    if (state.released) co_return has_ended();
    if (!checked) {
      state.unstorable = true;
      co_return checked.error();
    }
    if (state.unstorable && what.how == How::give_back) {
      what.how = How::retry;
      what.message = "its outcome could not be stored";
    }
    EndLoop::Attempt attempt{.key = self->key_, .task = state.task, .token = self->token_};
    loop.emplace(std::move(attempt), std::move(what), std::move(then), os::jitter_fraction(),
                 self->store_->tasks->max_dead);
    ++state.ending;
  }
  auto result = co_await std::move(sending);
  bool stops = false;
  bool is_over = false;
  {
    const std::lock_guard lock(state.mutex);
    --state.ending;
    if (result) {
      state.task = result->task;
    } else {
      if (result.error().code() == ErrorCode::NotFound) {
        state.gone = true;
        if (state.unanswered) result = may_have_ended(self->id_);
      } else if (state.may_be_back && tasks::ends_the_work(result.error())) {
        result = may_have_ended_before(result.error());
      }
      const bool is_unknown = may_have_been_accepted(result.error());
      state.unanswered = state.unanswered || is_unknown;
      state.may_be_back = state.may_be_back || (puts_back && is_unknown);
      state.unstorable = state.unstorable || cannot_be_stored(result.error());
      // The renewals may have taken the end for our own write.
      stops = state.ending == 0 && (state.over || tasks::ends_the_work(result.error()));
      is_over = state.ending == 0 && state.dropped;
    }
  }
  if (result || is_over) self->release();
  if (stops) self->stop_worker();
  co_return std::move(result);
}

Op<Task> ClaimedJob::perform(Flow flow, Self self, operation::EndJob what, std::stop_token stop) {
  auto ending = end(std::move(flow), std::move(self), std::move(what), std::nullopt, std::move(stop));
  auto ended = co_await std::move(ending);
  if (!ended) co_return ended.error();
  co_return std::move(ended->task);
}

Op<std::optional<Job>> ClaimedJob::perform(Flow flow, Self self, operation::EndJobAndClaim what,
                                           std::stop_token stop) {
  const ClaimOptions how = what.how;
  auto claim = queue::Claim::of(self->store_, {std::string(self->key_.owner())}, how, 1);
  if (!claim) co_return claim.error();
  auto ending = end(flow, self, std::move(what.end), claim->terms, stop);
  auto ended = co_await std::move(ending);
  if (!ended) co_return ended.error();
  auto claiming = queue::claim_after(std::move(flow), *std::move(claim), std::move(ended->next), ended->sent,
                                     std::move(stop));
  auto jobs = co_await std::move(claiming);
  if (!jobs) co_return jobs.error();
  if (jobs->empty()) co_return std::nullopt;
  co_return std::optional<Job>(std::move(jobs->front()));
}

Op<Task> ClaimedJob::perform(Flow flow, Self self, operation::SetJobVariables what, std::stop_token stop) {
  if (!self->is_held()) co_return has_ended();
  auto call = self->call(std::move(flow), std::move(stop));
  operation::SetTaskVariables change{{}, self->id_, std::move(what.changes)};
  auto task = co_await tasks::perform(std::move(call), std::move(change));
  bool stops = false;
  {
    auto& state = *self->state_;
    const std::lock_guard lock(state.mutex);
    if (!task) {
      if (task.error().code() == ErrorCode::NotFound) state.gone = true;
      stops = tasks::ends_the_work(task.error());
    } else if (state.task.version < task->version) {
      state.task = *task;
    }
  }
  if (task) self->store_->renewals->knows_version(self->place_, task->version);
  if (stops) self->stop_worker();
  co_return std::move(task);
}

Op<Ok> ClaimedJob::wait_stopped(std::shared_ptr<State> state, std::stop_token stop) {
  runtime::FirstStop first(state->stop.get_token(), state->ended.get_token(), std::move(stop));
  co_await first;
  if (state->stop.stop_requested()) co_return Ok{};
  co_return Error(ErrorCode::Aborted, "the job or the wait ended before the task was stopped");
}

void ClaimedJob::dispose() noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    state_->dropped = true;
    if (state_->ending > 0) return;  // its outcome is under way, and decides
  }
  if (!release()) return;
  bool is_there = true;
  bool has_failed = false;
  {
    const std::lock_guard lock(state_->mutex);
    is_there = !state_->gone;
    has_failed = state_->unstorable;
  }
  if (!is_there) return;
  try {
    EndLease request{.key = key_, .incarnation = incarnation_, .token = token_, .end = LeaseEnd::given_back};
    if (has_failed) {
      request.end = LeaseEnd::retried;
      request.delay = queue::backoff(attempt_, os::jitter_fraction());
    }
    store_->renewals->end_in_background(std::move(request));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the lease expires
  }
}

}  // namespace holdfast
