#include "tasks/exhausted.hpp"

#include "tasks/change_loop.hpp"
#include "tasks/exhausted_text.hpp"
#include "tasks/record.hpp"

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
  auto state = *task.queue;
  state.place = QueuePlace::dead;
  ended.version = written->version;
  ended.queue = std::make_shared<const QueueState>(std::move(state));
  co_return std::move(ended);
}

}  // namespace holdfast::tasks
