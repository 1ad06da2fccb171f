#include "terminal/task_fields.hpp"

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"

namespace holdfast::cli {
namespace {

std::string when(WallTime time) {
  return iso_time(time) + " (" + describe(time_since(time)) + " ago)";
}

std::string guard_of(const std::optional<FencingToken>& token) {
  if (!token) return "none";
  return token->fence.to_string() + " of the lock " + token->lock_key + " (authority " + token->authority +
         ")";
}

void add_queue_fields(Fields& fields, const Task& task) {
  if (!task.queue) return;
  const auto& state = *task.queue;
  auto attempts = std::to_string(state.attempts) + " of " + std::to_string(state.terms.max_attempts);
  if (state.deaths > 0) attempts += " (" + std::to_string(state.deaths) + " workers died)";
  fields.emplace_back("place", rpc::to_string(state.place));
  fields.emplace_back("attempts", std::move(attempts));
  if (state.terms.priority != 0) fields.emplace_back("priority", std::to_string(state.terms.priority));
  if (!state.terms.limit_key.empty()) {
    fields.emplace_back("limit key", state.terms.limit_key + ", limit " + std::to_string(state.terms.limit));
  }
  if (state.place == QueuePlace::delayed) fields.emplace_back("due", expiry(state.due_at));
  if (!state.worker.empty()) {
    const bool works = state.place == QueuePlace::leased;
    fields.emplace_back(works ? "worker" : "last worker", state.worker);
    fields.emplace_back(works ? "working since" : "claimed", when(state.claimed_at));
    if (works) fields.emplace_back("lease", expiry(state.lease_expires_at));
  }
}

}  // namespace

Fields fields_of(const Task& task, const std::optional<LockInfo>& worker) {
  Fields fields{{"id", task.id}, {"owner", task.owner}, {"status", std::string(to_string(task.status))}};
  if (task.status_message) fields.emplace_back("message", *task.status_message);
  if (!task.request_method.empty()) fields.emplace_back("method", task.request_method);
  if (const auto queue = queue_of(task)) fields[1] = {"queue", *queue};
  if (!task.requester.empty()) fields.emplace_back("requester", task.requester);
  if (!task.retry_of.empty()) fields.emplace_back("retry of", task.retry_of);
  add_queue_fields(fields, task);
  if (worker) {
    fields.emplace_back("worker", worker->holder ? std::string(worker->holder->str()) : "not labelled");
    fields.emplace_back("working since", when(worker->acquired_at));
    fields.emplace_back("lease", expiry(worker->expires_at));
  }
  fields.emplace_back("created", when(task.created_at));
  fields.emplace_back("updated", when(task.last_updated_at));
  fields.emplace_back("expires", task.expires_at ? expiry(*task.expires_at) : "never");
  fields.emplace_back("variables", rpc::on_one_line(task.variables.str()));
  fields.emplace_back("result", rpc::on_one_line(task.result.str()));
  fields.emplace_back("version", std::to_string(task.version));
  fields.emplace_back("fence", guard_of(task.bound_to));
  return fields;
}

}  // namespace holdfast::cli
