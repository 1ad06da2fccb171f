#include "tasks/exhausted.hpp"

#include <chrono>
#include <utility>
#include <variant>

#include "tasks/change_loop.hpp"
#include "tasks/exhausted_text.hpp"
#include "tasks/record.hpp"
#include "tasks/retention.hpp"

namespace holdfast::tasks {

std::optional<std::string> why_exhausted(const Task& task, WallTime now) {
  if (!task.queue || is_final(task.status)) return std::nullopt;
  const auto& state = *task.queue;
  // The worker of a leased task may still finish it. A claim finds out whether its lease has expired.
  if (state.place == QueuePlace::leased || has_left_queue(state.place)) return std::nullopt;
  const bool is_exhausted = state.place == QueuePlace::exhausted;
  if (is_exhausted && state.attempts >= state.terms.max_attempts) {
    // The message of the last failure is what an operator needs first.
    return (task.status_message ? *task.status_message + "; " : "") + no_attempts_left(state);
  }
  if (is_exhausted || now >= state.fails_at) return "too old";
  return std::nullopt;
}

bool may_have_died(const Task& task, WallTime now) {
  if (!task.queue || is_final(task.status)) return false;
  const auto& state = *task.queue;
  return state.place == QueuePlace::leased && state.attempts >= state.terms.max_attempts &&
         state.lease_expires_at <= now;
}

namespace {

/// Asks for a claim of the task, which is refused because no attempt is left: but the engine first removes a
/// lease that has expired. The task as it is then; as it is known if that is not learnt.
runtime::Op<Task> without_expired_lease(Call call, Task task) {
  constexpr std::chrono::seconds unused_lease(1);
  const auto at = call.address({}, task.id);
  if (!at) co_return std::move(task);
  ClaimRecord request{.key = at->key, .terms = {.worker = {}, .lease = unused_lease}};
  const auto answer = co_await call.ask(std::move(request));
  if (!answer) co_return std::move(task);
  if (const auto* claimed = std::get_if<ClaimedRecord>(&*answer)) {
    // Its worker has given it back meanwhile.
    EndLease give_back{.key = claimed->key,
                       .incarnation = claimed->record.incarnation,
                       .token = claimed->record.bound_to.value(),
                       .end = LeaseEnd::given_back};
    (void)co_await call.ask(std::move(give_back));
    co_return std::move(task);
  }
  const auto* refused = std::get_if<NotClaimable>(&*answer);
  if (refused == nullptr) co_return std::move(task);
  const auto record = record_of(refused->record, task.id, at->owner);
  if (!record) co_return std::move(task);
  co_return record->task(refused->record);
}

}  // namespace

runtime::Op<Task> settle(Call call, Task task) {
  // A worker reads its own task, which it may still end, also if its lease has expired.
  if (call.fence) co_return std::move(task);
  const auto now = call.store->storage->now();
  if (may_have_died(task, now)) {
    auto looking = without_expired_lease(call, std::move(task));
    auto seen = co_await std::move(looking);
    if (!seen) co_return seen.error();
    task = *std::move(seen);
  }
  if (!why_exhausted(task, now)) co_return std::move(task);
  auto ending = end_exhausted(std::move(call), std::move(task));
  co_return co_await std::move(ending);
}

runtime::Op<Task> end_exhausted(Call call, Task task) {
  const auto now = call.store->storage->now();
  const auto why = why_exhausted(task, now);
  auto record = TaskRecord::parse(task.record.str(), task.id);
  const auto at = call.address({}, task.id);
  if (!why || !record || !at) co_return std::move(task);
  record->set_status(TaskStatus::failed, *why);
  record->keep_for(task.queue->terms.failed_retention, now);
  record->touch(now);
  StoredRecord after{.data = {},
                     .version = task.version,
                     .incarnation = task.incarnation,
                     .bound_to = task.bound_to,
                     .origin = {},
                     .queue = task.queue};
  auto ended = record->task(after);
  auto data = record_data(ended);
  if (!data) co_return std::move(task);
  PutRecord request{.key = at->key,
                    .data = *std::move(data),
                    .expected = ExpectedVersion{.version = task.version, .incarnation = task.incarnation},
                    .leaves_queue = true,
                    .max_dead = call.store->max_dead};
  const auto outcome = co_await call.ask(std::move(request));
  const auto* written = outcome ? std::get_if<Written>(&*outcome) : nullptr;
  if (written == nullptr) co_return std::move(task);
  ended.version = written->version;
  ended.queue = state_after_end(*task.queue, TaskStatus::failed);
  co_return std::move(ended);
}

}  // namespace holdfast::tasks
