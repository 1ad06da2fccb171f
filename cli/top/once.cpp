#include "top/once.hpp"

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "terminal/output.hpp"
#include "top/frame.hpp"
#include "view/store_view.hpp"

namespace holdfast::cli::top {
namespace {

using nlohmann::ordered_json;
using view::Snapshot;

std::int64_t in_ms(WallTime time) {
  return time.time_since_epoch().count();
}

std::string or_dash(std::string_view text) {
  return text.empty() ? "-" : printable(text);
}

ordered_json json_of(const view::LockRow& row) {
  ordered_json object{{"key", row.key},
                      {"fence", row.fence.to_string()},
                      {"acquiredAtMs", in_ms(row.acquired_at)},
                      {"expiresAtMs", in_ms(row.expires_at)},
                      {"waiters", row.waiters ? ordered_json(*row.waiters) : ordered_json()}};
  if (!row.holder.empty()) object["holder"] = row.holder;
  return object;
}

ordered_json json_of(const view::TaskRow& row) {
  ordered_json object{{"ownerId", row.owner},
                      {"taskId", row.id},
                      {"requestMethod", row.method},
                      {"status", to_string(row.status)}};
  if (!row.status_message.empty()) object["statusMessage"] = row.status_message;
  if (row.progress) object["progress"] = *row.progress;
  if (!row.progress_text.empty()) object["progress"] = row.progress_text;
  object["createdAtMs"] = in_ms(row.created_at);
  object["lastUpdatedAtMs"] = in_ms(row.updated_at);
  object["expiresAtMs"] = row.expires_at ? ordered_json(in_ms(*row.expires_at)) : ordered_json();
  object["version"] = row.version;
  object["fence"] = row.fence ? ordered_json(row.fence->to_string()) : ordered_json();
  object["lockKey"] = row.lock_key;
  object["hasWorker"] = row.has_worker;
  if (!row.worker.empty()) object["worker"] = row.worker;
  return object;
}

ordered_json json_of(const view::QueueRow& row) {
  const auto time_or_null = [](const std::optional<WallTime>& time) {
    return time ? ordered_json(in_ms(*time)) : ordered_json();
  };
  return {{"queue", row.name},
          {"ready", row.ready},
          {"delayed", row.delayed},
          {"working", row.working},
          {"expired", row.expired},
          {"exhausted", row.exhausted},
          {"parked", row.parked},
          {"dead", row.dead},
          {"tasks", row.tasks},
          {"paused", row.paused},
          {"limit", row.limit ? ordered_json(*row.limit) : ordered_json()},
          {"oldestReadyMs", time_or_null(row.oldest_ready)},
          {"nextDueMs", time_or_null(row.next_due)}};
}

std::string progress_text(const view::TaskRow& row) {
  if (row.progress) return std::to_string(std::lround(*row.progress * 100)) + " %";
  return printable(row.progress_text);
}

}  // namespace

std::shared_ptr<const Snapshot> read_once(const Holdfast& store) {
  auto options = view::StoreView::options_for(store);
  options.pace.first_share = 1;  // as a listing does: it is read once
  options.between_snapshots = {};
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Snapshot> last;
  const auto is_done = [&] {
    return last && (last->queues_known() || last->reachability == view::Reachability::down);
  };
  view::StoreView view(store, options);
  const auto viewer = view.subscribe([&](const std::shared_ptr<const Snapshot>& snapshot) {
    const std::lock_guard guard(mutex);
    if (!is_done()) last = snapshot;
    changed.notify_all();
  });
  std::unique_lock guard(mutex);
  changed.wait(guard, is_done);
  if (!last->queues_known()) throw Error(last->error_code, last->error);
  return last;
}

void print_plain(const Snapshot& snapshot) {
  const auto now = snapshot.engine_time;
  LongTable locks({"KEY", "HOLDER", "FENCE", "LEFT", "WAITERS", "HELD"});
  for (const auto& row : snapshot.locks) {
    locks.add({printable(row->key), or_dash(row->holder), std::to_string(row->fence.value()),
               describe(std::max(row->expires_at - now, std::chrono::milliseconds::zero())),
               row->waiters ? std::to_string(*row->waiters) : "-",
               describe(std::max(now - row->acquired_at, std::chrono::milliseconds::zero()))});
  }
  locks.finish();
  if (!snapshot.locks.empty() && !snapshot.tasks.empty()) print_text("");
  LongTable tasks({"OWNER", "TASK", "METHOD", "STATUS", "PROGRESS", "WORKER", "AGE"});
  for (const auto& row : snapshot.tasks) {
    const auto age = std::max(now - row->created_at, std::chrono::milliseconds::zero());
    tasks.add({printable(row->owner), printable(row->id), or_dash(row->method),
               std::string(to_string(row->status)), or_dash(progress_text(*row)),
               !row->has_worker      ? "-"
               : row->worker.empty() ? "no label"
                                     : printable(row->worker),
               row->created_at == WallTime() ? "-" : describe(age)});
  }
  tasks.finish();
  if (!snapshot.queues.empty() && !(snapshot.locks.empty() && snapshot.tasks.empty())) print_text("");
  LongTable queues({"QUEUE", "STATE", "READY", "DELAYED", "PARKED", "WORKING", "EXHAUSTED", "DEAD", "TASKS",
                    "OLDEST READY"});
  for (const auto& row : snapshot.queues) {
    queues.add({printable(row->name), row->paused ? "paused" : "active", std::to_string(row->ready),
                std::to_string(row->delayed), std::to_string(row->parked),
                std::to_string(row->working) + (row->limit ? "/" + std::to_string(*row->limit) : ""),
                std::to_string(row->exhausted), std::to_string(row->dead), std::to_string(row->tasks),
                row->oldest_ready
                    ? describe(std::max(now - *row->oldest_ready, std::chrono::milliseconds::zero()))
                    : "-"});
  }
  queues.finish();
  if (snapshot.lock_count() == 0) complain("no lock is held");
  if (snapshot.tasks_refused) {
    complain("this user may not read tasks; `holdfast doctor` names the rights that it lacks");
  } else if (snapshot.task_count() + snapshot.queue_count() == 0) {
    complain("there are no tasks");
  }
  if (snapshot.locks_not_shown + snapshot.tasks_not_shown > 0) {
    complain("not shown: " + std::to_string(snapshot.locks_not_shown) + " locks and " +
             std::to_string(snapshot.tasks_not_shown) +
             " tasks; `lock list` and `task list --all-owners` list all");
  }
  if (snapshot.tasks_unreadable > 0) {
    complain(std::to_string(snapshot.tasks_unreadable) +
             " stored tasks are invalid; `task list --all-owners` names them");
  }
}

ordered_json to_json(const Snapshot& snapshot) {
  ordered_json by_status = ordered_json::object();
  for (std::size_t i = 0; i < snapshot.tasks_by_status.size(); ++i) {
    by_status[std::string(to_string(static_cast<TaskStatus>(i)))] = snapshot.tasks_by_status[i];
  }
  // Null rather than nothing: this user may not read tasks.
  const auto known = [&](ordered_json value) { return snapshot.tasks_refused ? ordered_json() : value; };
  auto locks = ordered_json::array();
  for (const auto& row : snapshot.locks) locks.push_back(json_of(*row));
  auto tasks = ordered_json::array();
  for (const auto& row : snapshot.tasks) tasks.push_back(json_of(*row));
  auto queues = ordered_json::array();
  for (const auto& row : snapshot.queues) queues.push_back(json_of(*row));
  return {{"engine", snapshot.engine},
          {"timeMs", in_ms(snapshot.engine_time)},
          {"lockCount", snapshot.lock_count()},
          {"taskCount", known(snapshot.task_count())},
          {"tasksByStatus", known(std::move(by_status))},
          {"tasksUnreadable", known(snapshot.tasks_unreadable)},
          {"locks", std::move(locks)},
          {"tasks", std::move(tasks)},
          {"queues", std::move(queues)}};
}

}  // namespace holdfast::cli::top
