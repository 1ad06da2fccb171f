#include "serve/content/snapshot_json.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <tuple>

#include "rpc/json/records.hpp"
#include "view/rows.hpp"

namespace holdfast::serve {
namespace {

using view::Event;
using view::LockRow;
using view::QueueRow;
using view::Snapshot;
using view::TaskRow;

std::string_view name_of(view::Reachability reachability) noexcept {
  switch (reachability) {
    case view::Reachability::up:
      return "up";
    case view::Reachability::down:
      return "down";
    case view::Reachability::unknown:
      break;
  }
  return "unknown";
}

void write_fence(JsonText& json, std::string_view name, const std::optional<Fence>& fence) {
  if (fence) json.name(name).text(fence->to_string());
}

void write_text(JsonText& json, std::string_view name, std::string_view value) {
  if (!value.empty()) json.name(name).text(value);
}

std::span<const Event> events_of(const Snapshot& snapshot) {
  if (!snapshot.events) return {};
  return *snapshot.events;
}

std::uint64_t last_event_of(const Snapshot& snapshot) {
  const auto events = events_of(snapshot);
  return events.empty() ? 0 : events.back().sequence;
}

const std::string& order_of(const LockRow& row) {
  return row.key;
}
auto order_of(const TaskRow& row) {
  return std::tie(row.owner, row.id);
}

const std::string& order_of(const QueueRow& row) {
  return row.name;
}

void write_row(JsonText& json, const LockRow& row) {
  write_lock(json, row);
}
void write_row(JsonText& json, const TaskRow& row) {
  write_task(json, row);
}

void write_row(JsonText& json, const QueueRow& row) {
  write_queue(json, row);
}

void write_name(JsonText& json, const LockRow& row) {
  json.text(row.key);
}
void write_name(JsonText& json, const TaskRow& row) {
  json.begin_array().text(row.owner).text(row.id).end_array();
}

void write_name(JsonText& json, const QueueRow& row) {
  json.text(row.name);
}

/// Both are in the same order. Rows that did not change are usually the same objects.
template <class Rows>
void write_differences(JsonText& json, const Rows& before, const Rows& after) {
  JsonText gone;
  gone.begin_array();
  json.begin_object().name("set").begin_array();
  auto old = before.begin();
  auto row = after.begin();
  while (old != before.end() || row != after.end()) {
    if (row == after.end() || (old != before.end() && order_of(**old) < order_of(**row))) {
      write_name(gone, **old++);
    } else if (old == before.end() || order_of(**row) < order_of(**old)) {
      write_row(json, **row++);
    } else {
      if (*row != *old && **row != **old) write_row(json, **row);
      ++old;
      ++row;
    }
  }
  gone.end_array();
  json.end_array().name("gone").raw(gone.str()).end_object();
}

char in_lower_case(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool contains(std::string_view text, std::string_view part) {
  return std::ranges::search(text, part, {}, in_lower_case, in_lower_case).begin() != text.end() ||
         part.empty();
}

bool matches(const LockRow& row, const RowFilter& filter) {
  return contains(row.key, filter.text) || contains(row.holder, filter.text);
}

bool matches(const TaskRow& row, const RowFilter& filter) {
  if (filter.status && row.status != *filter.status) return false;
  return contains(row.owner, filter.text) || contains(row.id, filter.text) ||
         contains(row.method, filter.text) || contains(row.worker, filter.text) ||
         contains(row.status_message, filter.text);
}

bool matches(const QueueRow& row, const RowFilter& filter) {
  return contains(row.name, filter.text);
}

template <class Rows>
std::string rows_json(const Snapshot& snapshot, std::string_view name, const Rows& rows,
                      const RowFilter& filter, BootTime now) {
  JsonText json;
  json.begin_object().name("store").begin_object();
  write_store(json, snapshot, now);
  json.end_object().name(name).begin_array();
  std::size_t matching = 0;
  for (const auto& row : rows) {
    if (matches(*row, filter) && matching++ < filter.limit) write_row(json, *row);
  }
  json.end_array().name("matching").number(matching).end_object();
  return std::move(json.str());
}

}  // namespace

void write_lock(JsonText& json, const LockRow& row) {
  json.begin_object().name("key").text(row.key);
  write_text(json, "holder", row.holder);
  json.name("fence").text(row.fence.to_string());
  json.name("acquiredAtMs").time(row.acquired_at).name("expiresAtMs").time(row.expires_at);
  if (row.lease.count() > 0) json.name("leaseMs").number(row.lease.count());
  if (row.waiters) json.name("waiters").number(*row.waiters);
  json.end_object();
}

void write_task(JsonText& json, const TaskRow& row) {
  json.begin_object().name("owner").text(row.owner).name("id").text(row.id);
  write_text(json, "method", row.method);
  json.name("status").text(to_string(row.status));
  write_text(json, "message", row.status_message);
  if (row.progress) json.name("progress").fraction(*row.progress);
  write_text(json, "progressText", row.progress_text);
  json.name("createdAtMs").time(row.created_at).name("updatedAtMs").time(row.updated_at);
  if (row.expires_at) json.name("expiresAtMs").time(*row.expires_at);
  json.name("version").number(row.version);
  write_text(json, "incarnation", row.incarnation);
  write_fence(json, "fence", row.fence);
  json.name("lockKey").text(row.lock_key).name("hasWorker").boolean(row.has_worker);
  write_text(json, "worker", row.worker);
  json.end_object();
}

void write_queue(JsonText& json, const QueueRow& row) {
  json.begin_object().name("queue").text(row.name);
  json.name("ready").number(row.ready).name("delayed").number(row.delayed);
  json.name("working").number(row.working).name("expired").number(row.expired);
  json.name("exhausted").number(row.exhausted);
  json.name("parked").number(row.parked).name("dead").number(row.dead);
  json.name("tasks").number(row.tasks).name("paused").boolean(row.paused);
  if (row.limit) json.name("limit").number(*row.limit);
  if (row.oldest_ready) json.name("oldestReadyMs").time(*row.oldest_ready);
  if (row.next_due) json.name("nextDueMs").time(*row.next_due);
  json.end_object();
}

void write_queue_task(JsonText& json, const Task& task) {
  json.begin_object().name("id").text(task.id);
  write_text(json, "method", view::clipped(task.request_method));
  json.name("status").text(to_string(task.status));
  write_text(json, "message", view::clipped(task.status_message.value_or("")));
  json.name("createdAtMs").time(task.created_at).name("updatedAtMs").time(task.last_updated_at);
  if (const auto& state = task.queue) {
    json.name("place").text(rpc::to_string(state->place)).name("priority").number(state->terms.priority);
    json.name("attempts").number(state->attempts).name("maxAttempts").number(state->terms.max_attempts);
    json.name("deaths").number(state->deaths).name("dueAtMs").time(state->due_at);
    write_text(json, "worker", state->worker);
    if (state->claimed_at != WallTime()) json.name("claimedAtMs").time(state->claimed_at);
    if (state->lease_expires_at != WallTime()) json.name("leaseExpiresAtMs").time(state->lease_expires_at);
  }
  json.end_object();
}

void write_event(JsonText& json, const Event& event) {
  json.begin_object().name("sequence").number(event.sequence).name("kind").text(to_string(event.kind));
  json.name("atMs").time(event.at);
  write_text(json, "key", event.key);
  write_text(json, "owner", event.owner);
  write_text(json, "taskId", event.task_id);
  write_text(json, "holder", event.holder);
  write_fence(json, "fence", event.fence);
  write_fence(json, "oldFence", event.old_fence);
  if (event.status) json.name("status").text(to_string(*event.status));
  write_text(json, "text", event.text);
  json.end_object();
}

void write_store(JsonText& json, const Snapshot& snapshot, BootTime now) {
  json.name("engine").text(snapshot.engine);
  json.name("nowMs").time(snapshot.engine_time_at(now));
  json.name("whole").boolean(snapshot.whole);
  if (snapshot.whole) {
    json.name("ageMs").number(snapshot.age(now).count());
    json.name("tasksAgeMs").number(snapshot.tasks_age(now).count());
  }
  json.name("roundMs").number(snapshot.round.count());
  json.name("heard").boolean(snapshot.heard);
  json.name("reachability").text(name_of(snapshot.reachability));
  if (snapshot.reachability == view::Reachability::down) {
    const auto down = std::chrono::duration_cast<std::chrono::milliseconds>(now - snapshot.down_since);
    json.name("error").text(snapshot.error).name("downForMs").number(down.count());
  }
  json.name("locks").number(snapshot.lock_count()).name("locksNotShown").number(snapshot.locks_not_shown);
  if (snapshot.tasks_refused) json.name("tasksRefused").boolean(true);
  json.name("tasks").number(snapshot.task_count()).name("tasksNotShown").number(snapshot.tasks_not_shown);
  if (snapshot.queues_known() && !snapshot.queues_refused) {
    json.name("queues").number(snapshot.queue_count());
    json.name("queuesNotShown").number(snapshot.queues_not_shown);
    json.name("queuesAgeMs").number(snapshot.queues_age(now).count());
  }
  json.name("tasksUnreadable").number(snapshot.tasks_unreadable);
  json.name("tasksByStatus").begin_object();
  for (std::size_t i = 0; i < snapshot.tasks_by_status.size(); ++i) {
    json.name(to_string(static_cast<TaskStatus>(i))).number(snapshot.tasks_by_status.at(i));
  }
  json.end_object();
}

std::string whole_json(const Snapshot& snapshot, BootTime now) {
  JsonText json;
  json.begin_object().name("store").begin_object();
  write_store(json, snapshot, now);
  json.end_object().name("locks").begin_array();
  for (const auto& row : snapshot.locks) write_lock(json, *row);
  json.end_array().name("tasks").begin_array();
  for (const auto& row : snapshot.tasks) write_task(json, *row);
  json.end_array().name("queues").begin_array();
  for (const auto& row : snapshot.queues) write_queue(json, *row);
  json.end_array().name("events").begin_array();
  for (const auto& event : events_of(snapshot)) write_event(json, event);
  json.end_array().end_object();
  return std::move(json.str());
}

std::string changes_json(const Snapshot& before, const Snapshot& after, BootTime now) {
  JsonText json;
  json.begin_object().name("store").begin_object();
  write_store(json, after, now);
  json.end_object().name("locks");
  write_differences(json, before.locks, after.locks);
  json.name("tasks");
  write_differences(json, before.tasks, after.tasks);
  json.name("queues");
  write_differences(json, before.queues, after.queues);
  json.name("events").begin_array();
  const auto last = last_event_of(before);
  for (const auto& event : events_of(after)) {
    if (event.sequence > last) write_event(json, event);
  }
  json.end_array().end_object();
  return std::move(json.str());
}

std::string locks_json(const Snapshot& snapshot, const RowFilter& filter, BootTime now) {
  return rows_json(snapshot, "locks", snapshot.locks, filter, now);
}

std::string tasks_json(const Snapshot& snapshot, const RowFilter& filter, BootTime now) {
  return rows_json(snapshot, "tasks", snapshot.tasks, filter, now);
}

std::string queues_json(const Snapshot& snapshot, const RowFilter& filter, BootTime now) {
  return rows_json(snapshot, "queues", snapshot.queues, filter, now);
}

}  // namespace holdfast::serve
