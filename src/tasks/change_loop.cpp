#include "tasks/change_loop.hpp"

#include "core/record_decisions.hpp"
#include "tasks/refusals.hpp"
#include "tasks/retention.hpp"

namespace holdfast::tasks {
namespace {

bool is_digest(std::string_view incarnation) noexcept {
  return incarnation.starts_with('~');
}

}  // namespace

std::string lasting_incarnation(std::string_view incarnation) {
  return is_digest(incarnation) ? std::string() : std::string(incarnation);
}

bool is_same_incarnation(std::string_view meant, std::string_view there) noexcept {
  return meant.empty() || is_digest(meant) || meant == there;
}

Result<TaskRecord> record_of(const std::optional<StoredRecord>& stored, std::string_view id,
                             std::string_view owner) {
  if (!stored) return no_such_task(id);
  auto record = TaskRecord::parse(stored->data, id);
  if (!record) return record.error();
  // The key names the owner; a record with another owner was put there by mistake.
  if (record->owner() != owner) return no_such_task(id);
  return record;
}

ChangeLoop::Action ChangeLoop::resume(const Result<std::optional<StoredRecord>>& answer, WallTime now) {
  if (!answer) return Finished{answer.error()};
  auto record = record_of(*answer, id_, owner_);
  if (!record) return Finished{record.error()};
  // The task that was meant is gone and another has its id: the caller's decision was about the old one.
  if (!is_same_incarnation(incarnation_, (*answer)->incarnation)) return Finished{no_such_task(id_)};
  incarnation_ = (*answer)->incarnation;
  // The engine will check it again. But a late worker must learn that its fence is stale, not that the new
  // worker has ended the task.
  if (const auto refused = fence_ ? core::refuse_fence((*answer)->bound_to, *fence_) : std::nullopt) {
    return Finished{refusal(*refused, "the task " + id_)};
  }
  if (change_.still_meant) {
    if (!first_) first_ = *record;
    if (!change_.still_meant(*first_, *record)) {
      return Finished{Error(ErrorCode::ConcurrentChange, "another client changed the task " + id_ +
                                                             " meanwhile; read it again and retry")};
    }
  }
  if (auto applied = change_.apply(*record); !applied) return Finished{applied.error()};
  record->touch(now);
  const bool is_over = is_final(record->status());
  if (const auto& state = (*answer)->queue; is_over && state) {
    record->keep_for(retention_of(state->terms, record->status()), now);
  }
  edited_ = record->task(**answer);
  if (is_over && edited_.queue) edited_.queue = state_after_end(*edited_.queue, edited_.status);
  auto data = record_data(edited_);
  if (!data) return Finished{data.error()};
  return Write{.data = *std::move(data),
               .expected = {.version = edited_.version, .incarnation = edited_.incarnation},
               .leaves_queue = is_over,
               .is_dead = record->status() == TaskStatus::failed};
}

ChangeLoop::Action ChangeLoop::resume(const Result<PutOutcome>& answer) {
  if (!answer) return Finished{answer.error()};
  if (const auto* written = std::get_if<Written>(&*answer)) {
    edited_.version = written->version;
    edited_.incarnation = written->incarnation;
    if (fence_) edited_.bound_to = fence_;
    return Finished{std::move(edited_)};
  }
  const auto what = "the task " + id_;
  if (const auto* refused = std::get_if<FenceRefused>(&*answer)) return Finished{refusal(*refused, what)};
  if (std::holds_alternative<NoRecord>(*answer)) return Finished{no_such_task(id_)};
  if (++attempts_ < max_attempts) return Read{};
  return Finished{Error(ErrorCode::ConcurrentChange, "other clients changed the task " + id_ + " " +
                                                         std::to_string(max_attempts) +
                                                         " times during this change; retry")};
}

}  // namespace holdfast::tasks
