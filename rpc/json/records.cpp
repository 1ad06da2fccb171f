#include "rpc/json/records.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::ordered_json;

std::string fence_as_json(const std::optional<FencingToken>& token) {
  if (!token) return "null";
  const ordered_json object{
      {"fence", token->fence.to_string()}, {"key", token->lock_key}, {"authority", token->authority}};
  return dump(object).str();
}

std::int64_t ms_of(WallTime time) {
  return time.time_since_epoch().count();
}

std::string queue_as_json(const Task& task) {
  const auto& state = *task.queue;
  ordered_json object{{"name", queue_of(task).value_or("")},
                      {"place", to_string(state.place)},
                      {"priority", state.terms.priority},
                      {"attempts", state.attempts},
                      {"maxAttempts", state.terms.max_attempts},
                      {"deaths", state.deaths},
                      {"dueAtMs", ms_of(state.due_at)},
                      {"failsAtMs", ms_of(state.fails_at)},
                      {"attemptLimitMs", state.terms.attempt_limit.count()},
                      {"retentionMs", state.terms.retention.count()},
                      {"failedRetentionMs", state.terms.failed_retention.count()}};
  const auto& limit_key = state.terms.limit_key;
  object["limitKey"] = limit_key.empty() ? ordered_json() : ordered_json(limit_key);
  object["limit"] = limit_key.empty() ? ordered_json() : ordered_json(state.terms.limit);
  object["worker"] = state.worker.empty() ? ordered_json() : ordered_json(state.worker);
  object["claimedAtMs"] = state.worker.empty() ? ordered_json() : ordered_json(ms_of(state.claimed_at));
  const bool is_leased = state.place == QueuePlace::leased;
  object["leaseExpiresAtMs"] = is_leased ? ordered_json(ms_of(state.lease_expires_at)) : ordered_json();
  object["requester"] = task.requester.empty() ? ordered_json() : ordered_json(task.requester);
  object["retryOf"] = task.retry_of.empty() ? ordered_json() : ordered_json(task.retry_of);
  return dump(object).str();
}

}  // namespace

std::string_view to_string(QueuePlace place) noexcept {
  constexpr std::array<std::string_view, 7> names{"delayed",  "ready",  "leased", "exhausted",
                                                  "finished", "parked", "dead"};
  return names.at(static_cast<std::size_t>(place));
}

ordered_json to_json(const QueueCounts& counts) {
  const auto or_null = [](const auto& value, auto shown) {
    return value ? ordered_json(shown(*value)) : ordered_json();
  };
  return {{"ready", counts.ready},
          {"delayed", counts.delayed},
          {"working", counts.leased - counts.expired},
          {"expired", counts.expired},
          {"exhausted", counts.exhausted},
          {"parked", counts.parked},
          {"dead", counts.dead},
          {"tasks", counts.records},
          {"paused", counts.paused},
          {"limit", or_null(counts.max_leased, [](std::size_t n) { return n; })},
          {"oldestReadyMs", or_null(counts.oldest_ready, ms_of)},
          {"nextDueMs", or_null(counts.next_due, ms_of)}};
}

ordered_json to_json(const LockInfo& info) {
  ordered_json object{{"keyHash", info.key_hash},
                      {"lockIdHash", info.lock_id_hash},
                      {"expiresAtMs", info.expires_at.time_since_epoch().count()},
                      {"acquiredAtMs", info.acquired_at.time_since_epoch().count()},
                      {"fence", info.fence.to_string()}};
  if (info.fence_digits != LockInfo{}.fence_digits) object["fenceDigits"] = info.fence_digits;
  if (info.holder) object["holder"] = info.holder->str();
  return object;
}

Json to_json(const Task& task) {
  return to_json(task, std::nullopt);
}

Json to_json(const Task& task, const std::optional<LockInfo>& worker) {
  JsonObject object;
  for (const auto& [name, value] : members_of(task.record)) {
    // A newer writer's record may have members of these names; ours count, and come last.
    const bool is_ours = name == "version" || name == "incarnation" || name == "fence" ||
                         (name == "queue" && task.queue != nullptr) || (name == "claim" && worker);
    if (!is_ours) object.add(name, value);
  }
  object.add("version", std::to_string(task.version));
  object.add("incarnation", Json::string(task.incarnation).value_or_throw().str());
  object.add("fence", fence_as_json(task.bound_to));
  if (task.queue) object.add("queue", queue_as_json(task));
  if (worker) {
    const ordered_json claim{
        {"worker", worker->holder ? ordered_json(worker->holder->str()) : ordered_json()},
        {"claimedAtMs", ms_of(worker->acquired_at)},
        {"leaseExpiresAtMs", ms_of(worker->expires_at)}};
    object.add("claim", dump(claim).str());
  }
  return object.json();
}

}  // namespace holdfast::rpc
