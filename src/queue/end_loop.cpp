#include "queue/end_loop.hpp"

#include <algorithm>
#include <utility>

#include "core/queue_decisions.hpp"
#include "core/record_decisions.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/exhausted_text.hpp"
#include "tasks/refusals.hpp"
#include "tasks/retention.hpp"

namespace holdfast::queue {
namespace {

using std::chrono::milliseconds;
using How = operation::EndJob::How;

std::string name_of(const Task& task) {
  return "the task " + task.id;
}

/// The state after a lease has ended.
std::shared_ptr<const QueueState> state_after(const Task& task, const EndLease& request, WallTime now) {
  const auto [end, delay] = std::pair(request.end, request.delay);
  if (!task.queue) return nullptr;
  auto state = *task.queue;
  state.lease_expires_at = {};
  switch (end) {
    case LeaseEnd::finished:
      state.place = request.max_dead ? QueuePlace::dead : QueuePlace::finished;
      break;
    case LeaseEnd::retried:
      state.place = delay > milliseconds(0) ? QueuePlace::delayed : QueuePlace::ready;
      state.due_at = core::saturating_add(now, delay);
      break;
    case LeaseEnd::given_back:
      state.place = QueuePlace::ready;
      state.attempts -= state.attempts > 0 ? 1 : 0;
      break;
  }
  return std::make_shared<const QueueState>(std::move(state));
}

}  // namespace

milliseconds backoff(std::uint32_t attempt, double random) noexcept {
  constexpr milliseconds longest = std::chrono::minutes(10);
  constexpr std::uint32_t enough = 10;  // 1 s · 2^10 is more than the longest
  const auto whole = std::min<milliseconds>(milliseconds(1000) * (1LL << std::min(attempt, enough)), longest);
  const auto half = whole / 2;
  return half + milliseconds(static_cast<milliseconds::rep>(static_cast<double>(half.count()) * random));
}

bool EndLoop::is_last_attempt() const noexcept {
  const auto& state = attempt_.task.queue;
  return state && state->attempts >= state->terms.max_attempts;
}

std::optional<std::string> EndLoop::final_message() const {
  if (what_.how != How::retry || !is_last_attempt()) return what_.message;
  return (what_.message ? *what_.message + "; " : "") + tasks::no_attempts_left(*attempt_.task.queue);
}

bool EndLoop::has_our_outcome() const {
  const auto& task = attempt_.task;
  const bool by_us = task.bound_to == attempt_.token;
  const bool same_status = (what_.how == How::completed && task.status == TaskStatus::completed) ||
                           (what_.how != How::completed && task.status == TaskStatus::failed);
  const bool finishes = what_.how != How::give_back && (what_.how != How::retry || is_last_attempt());
  return by_us && same_status && finishes && task.status_message == final_message() &&
         (!what_.result || task.result == *what_.result);
}

EndLoop::Action EndLoop::send(WallTime now) {
  const auto& task = attempt_.task;
  auto record = tasks::TaskRecord::parse(task.record.str(), task.id);
  if (!record) return Finished{record.error()};
  EndLease request{.key = attempt_.key,
                   .incarnation = task.incarnation,
                   .token = attempt_.token,
                   .end = LeaseEnd::finished,
                   .then = then_};
  bool writes = true;
  switch (what_.how) {
    case How::completed:
      record->set_status(TaskStatus::completed, what_.message);
      break;
    case How::failed:
      record->set_status(TaskStatus::failed, what_.message);
      break;
    case How::retry:
      if (is_last_attempt()) {
        record->set_status(TaskStatus::failed, final_message());
        break;
      }
      request.end = LeaseEnd::retried;
      request.delay = what_.delay.value_or(backoff(task.queue ? task.queue->attempts : 1, random_));
      writes = what_.message.has_value() || task.status_message.has_value();
      if (writes) record->set_status(record->status(), what_.message);
      break;
    case How::give_back:
      request.end = LeaseEnd::given_back;
      writes = false;
      break;
  }
  const bool finishes = request.end == LeaseEnd::finished;
  if (finishes && what_.result) record->set_result(*what_.result);
  if (finishes && record->status() == TaskStatus::failed) request.max_dead = max_dead_;
  if (finishes && task.queue) {
    record->keep_for(tasks::retention_of(task.queue->terms, record->status()), now);
  }
  if (writes) record->touch(now);
  StoredRecord known{.data = {},
                     .version = task.version,
                     .incarnation = task.incarnation,
                     .bound_to = task.bound_to,
                     .origin = {},
                     .queue = state_after(task, request, now)};
  edited_ = record->task(known);
  ExpectedVersion expected{.version = task.version, .incarnation = task.incarnation};
  if (writes) {
    auto data = tasks::record_data(edited_);
    if (!data) return Finished{data.error()};
    request.write.emplace(*std::move(data), std::move(expected));
  } else {
    // Or a task that another client has ended would be reported as retried or given back.
    request.expected = std::move(expected);
  }
  return request;
}

EndLoop::Action EndLoop::tidy_up(WallTime now) {
  const auto& task = attempt_.task;
  over_ = tasks::is_over(task.id, task.status);
  // A client of ours has taken it out of the queue already. Other software leaves it there.
  if (!task.queue || has_left_queue(task.queue->place)) return Finished{*over_};
  auto record = tasks::TaskRecord::parse(task.record.str(), task.id);
  if (!record) return Finished{*over_};
  record->keep_for(tasks::retention_of(task.queue->terms, task.status), now);
  StoredRecord known;
  known.version = task.version;
  known.incarnation = task.incarnation;
  auto data = tasks::record_data(record->task(known));
  if (!data) return Finished{*over_};
  EndLease request{.key = attempt_.key,
                   .incarnation = task.incarnation,
                   .token = attempt_.token,
                   .end = LeaseEnd::finished};
  if (task.status == TaskStatus::failed) request.max_dead = max_dead_;
  request.write.emplace(*std::move(data),
                        ExpectedVersion{.version = task.version, .incarnation = task.incarnation});
  return request;
}

EndLoop::Action EndLoop::resume(const Result<std::optional<StoredRecord>>& answer, WallTime now) {
  if (!answer) return Finished{answer.error()};
  auto record = tasks::record_of(*answer, attempt_.task.id, attempt_.task.owner);
  if (!record) return Finished{record.error()};
  if (!tasks::is_same_incarnation(attempt_.task.incarnation, (*answer)->incarnation)) {
    return Finished{tasks::no_such_task(attempt_.task.id)};
  }
  attempt_.task = record->task(**answer);
  return decide(now);
}

EndLoop::Action EndLoop::decide(WallTime now) {
  if (!is_final(attempt_.task.status)) return send(now);
  // A late worker must learn that its fence is stale, not that the next worker has ended the task.
  if (const auto refused = core::refuse_fence(attempt_.task.bound_to, attempt_.token)) {
    return Finished{tasks::refusal(*refused, name_of(attempt_.task))};
  }
  if (has_our_outcome()) return Finished{attempt_.task};
  return tidy_up(now);
}

EndLoop::Action EndLoop::resume(const Result<EndOutcome>& answer) {
  if (over_) return Finished{*over_};
  if (!answer) return Finished{answer.error()};
  if (const auto* written = std::get_if<Written>(&*answer)) {
    edited_.version = written->version;
    edited_.incarnation = written->incarnation;
    return Finished{std::move(edited_)};
  }
  if (std::holds_alternative<LeaseEnded>(*answer)) return Finished{std::move(edited_)};
  if (const auto* refused = std::get_if<FenceRefused>(&*answer)) {
    return Finished{tasks::refusal(*refused, name_of(attempt_.task))};
  }
  if (std::holds_alternative<NoRecord>(*answer)) return Finished{tasks::no_such_task(attempt_.task.id)};
  if (++conflicts_ < max_conflicts) return Read{};
  return Finished{Error(ErrorCode::ConcurrentChange, "other clients changed the task " + attempt_.task.id +
                                                         " " + std::to_string(max_conflicts) +
                                                         " times during its end; retry")};
}

}  // namespace holdfast::queue
