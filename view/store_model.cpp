#include "view/store_model.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "view/rows.hpp"

namespace holdfast::view {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::size_t index_of(TaskStatus status) noexcept {
  return static_cast<std::size_t>(status);
}

/// Any program writes records. Differences of times between these fit into 64 bits of nanoseconds.
constexpr WallTime earliest_time{};
constexpr WallTime latest_time{milliseconds(8'000'000'000'000)};  // in the year 2223

WallTime in_range(WallTime time) noexcept {
  return std::clamp(time, earliest_time, latest_time);
}

nanoseconds between(WallTime wall, BootTime boot) noexcept {
  return nanoseconds(in_range(wall).time_since_epoch()) - boot.time_since_epoch();
}

/// The next length that a person would choose for a lease.
milliseconds rounded_up(milliseconds length) noexcept {
  using namespace std::chrono_literals;
  constexpr std::array<milliseconds, 19> usual{1s,    2s,    3s,    5s,     10s,   15s,  20s,
                                               30s,   45s,   60s,   120s,   300s,  600s, 900s,
                                               1800s, 3600s, 7200s, 43200s, 86400s};
  const auto* const found = std::ranges::lower_bound(usual, length);
  return found == usual.end() ? length : *found;
}

Event lock_event(EventKind kind, const LockRow& row) {
  Event event;
  event.kind = kind;
  event.key = row.key;
  event.holder = row.holder;
  event.fence = row.fence;
  return event;
}

Event task_event(EventKind kind, const TaskRow& row) {
  Event event;
  event.kind = kind;
  event.owner = row.owner;
  event.task_id = row.id;
  event.holder = row.worker;
  event.fence = row.fence;
  event.status = row.status;
  event.text = row.status_message;
  return event;
}

Event queue_event(EventKind kind, const QueueRow& row) {
  Event event;
  event.kind = kind;
  event.owner = queue_owner(row.name);
  return event;
}

}  // namespace

std::string queue_owner(std::string_view queue) {
  return "queue " + std::string(queue);
}

std::string_view to_string(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::lock_granted:
      return "lock_granted";
    case EventKind::lock_released:
      return "lock_released";
    case EventKind::lock_expired:
      return "lock_expired";
    case EventKind::lock_broken:
      return "lock_broken";
    case EventKind::lock_ended:
      return "lock_ended";
    case EventKind::task_created:
      return "task_created";
    case EventKind::task_changed:
      return "task_changed";
    case EventKind::task_ended:
      return "task_ended";
    case EventKind::task_removed:
      return "task_removed";
    case EventKind::queue_paused:
      return "queue_paused";
    case EventKind::queue_resumed:
      return "queue_resumed";
    case EventKind::queue_task_failed:
      return "queue_task_failed";
    case EventKind::queue_workers_died:
      return "queue_workers_died";
    case EventKind::stale_write_refused:
      return "stale_write_refused";
    case EventKind::store_unreachable:
      return "store_unreachable";
    case EventKind::store_reachable:
      return "store_reachable";
  }
  return "unknown";
}

StoreModel::StoreModel(std::string engine, const Limits& limits)
    : engine_(std::move(engine)), limits_(limits) {}

// -- rounds

void StoreModel::begin_round(BootTime now) {
  round_began_ = now;
  locks_beyond_so_far_ = 0;
  tasks_beyond_so_far_ = {};
  unreadable_so_far_ = 0;
  tasks_refused_so_far_ = false;
  last_bounds_ = std::exchange(bounds_, {});
}

void StoreModel::add_locks(std::span<const LockRow> rows, const Exchange& exchange) {
  for (const auto& row : rows) put_lock(row, exchange, Source::page);
}

void StoreModel::see_locks(std::span<const std::string> keys, BootTime sent) {
  for (const auto& key : keys) {
    if (const auto known = locks_.find(key); known != locks_.end()) known->second.read_at = sent;
  }
}

bool StoreModel::is_fresh(std::string_view key, const Moment& now) const noexcept {
  const auto known = locks_.find(key);
  if (known == locks_.end() || known->second.end != End::unknown) return false;
  const auto& row = *known->second.row;
  return row.expires_at - engine_time(now) > row.lease / 2;
}

void StoreModel::end_locks(const Moment& now) {
  for (auto lock = locks_.begin(); lock != locks_.end();) {
    lock = lock->second.read_at < round_began_ ? drop_lock(lock, now) : std::next(lock);
  }
  locks_beyond_ = locks_beyond_so_far_;
  current_since_ = round_began_;
  round_length_ = std::chrono::ceil<milliseconds>(now.boot - round_began_);
}

void StoreModel::add_tasks(std::span<const TaskRow> rows, const Exchange& exchange) {
  for (const auto& row : rows) put_task(row, exchange, Source::page);
}

std::size_t StoreModel::set_queue(std::string_view name, const std::optional<QueueRow>& row,
                                  const Exchange& exchange) {
  if (!row) {
    if (const auto known = queues_.find(name); known != queues_.end()) queues_.erase(known);
    return 0;
  }
  auto& known = queues_[std::string(name)];
  known.read_at = exchange.sent;
  if (known.row && *known.row == *row) return 0;
  // A queue that a round of all did not find is new. What was so when all were first read is no news.
  static const auto nothing = std::make_shared<const QueueRow>();
  const bool all_known = queues_since_ != BootTime() && queues_beyond_ == 0;
  auto before = std::exchange(known.row, std::make_shared<const QueueRow>(*row));
  if (!before && all_known) before = nothing;
  if (!before) return 0;
  if (row->paused != before->paused) {
    add_event(queue_event(row->paused ? EventKind::queue_paused : EventKind::queue_resumed, *row),
              exchange.answered);
  }
  if (row->expired > before->expired) {
    auto event = queue_event(EventKind::queue_workers_died, *row);
    event.text = std::to_string(row->expired) + (row->expired == 1 ? " task" : " tasks");
    add_event(std::move(event), exchange.answered);
  }
  return row->dead - std::min(row->dead, before->dead);
}

void StoreModel::add_failed_tasks(std::string_view queue, std::span<const TaskRow> newest_first,
                                  std::size_t beyond, const Moment& now) {
  Event event;
  event.kind = EventKind::queue_task_failed;
  event.owner = queue_owner(queue);
  if (beyond > 0) {
    event.text =
        std::to_string(beyond) + (newest_first.empty() ? "" : " other") + (beyond == 1 ? " task" : " tasks");
    add_event(event, now);
  }
  for (auto left = newest_first; !left.empty(); left = left.first(left.size() - 1)) {
    const auto& oldest = left.back();
    event.task_id = oldest.id;
    event.status = oldest.status;
    event.text = oldest.status_message;
    add_event(event, now);
  }
}

void StoreModel::end_queues(std::size_t beyond) {
  std::erase_if(queues_, [&](const auto& queue) { return queue.second.read_at < round_began_; });
  queues_beyond_ = beyond;
  queues_since_ = round_began_;
}

void StoreModel::add_unreadable_tasks(std::size_t count) {
  unreadable_so_far_ += count;
}

void StoreModel::refuse_tasks() {
  tasks_refused_so_far_ = true;
}

void StoreModel::keep_tasks_of(std::string_view owner, BootTime sent) {
  for (auto task = tasks_.lower_bound({std::string(owner), ""});
       task != tasks_.end() && task->first.first == owner; ++task) {
    task->second.read_at = sent;
  }
}

void StoreModel::end_tasks(const Moment& now) {
  tasks_refused_ = tasks_refused_so_far_;
  if (tasks_refused_) {  // that they cannot be seen any more is no news of them
    tasks_.clear();
    tasks_beyond_so_far_ = {};
    unreadable_so_far_ = 0;
  }
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    task = task->second.read_at < round_began_ ? drop_task(task, now) : std::next(task);
  }
  tasks_beyond_ = tasks_beyond_so_far_;
  unreadable_ = unreadable_so_far_;
  tasks_since_ = round_began_;
  round_length_ = std::chrono::ceil<milliseconds>(now.boot - round_began_);
  whole_ = true;
  tasks_known_ = !tasks_refused_;
  // None is known, and a new one would have been heard.
  if (queues_since_ != BootTime() && queues_.empty()) queues_since_ = round_began_;
}

// -- locks

void StoreModel::put_lock(LockRow row, const Exchange& exchange, Source source) {
  row.acquired_at = in_range(row.acquired_at);
  row.expires_at = in_range(row.expires_at);
  learn_clock(row, exchange);
  const auto found = locks_.find(row.key);
  if (found == locks_.end()) {
    if (locks_.size() >= limits_.locks) {
      // A round finds each once; a single reading may be of one that it has found.
      if (source == Source::page) ++locks_beyond_so_far_;
      return;
    }
    const bool is_new = locks_beyond_ == 0 || is_since(row.acquired_at, current_since_, exchange.answered);
    if (whole_ && is_new) add_event(lock_event(EventKind::lock_granted, row), exchange.answered);
    Lock lock{.row = nullptr, .read_at = exchange.sent};
    lock.row = std::make_shared<const LockRow>(with_lease(std::move(row), exchange, lock.most_left, false));
    locks_.emplace(lock.row->key, lock);
    return;
  }
  auto& lock = found->second;
  lock.read_at = exchange.sent;
  const auto& old = *lock.row;
  if (old.fence != row.fence) {
    auto event = lock_event(EventKind::lock_granted, row);
    event.old_fence = old.fence;
    add_event(std::move(event), exchange.answered);
    lock.most_left = {};
  }
  // A hint about the grant that is read here again came late, or was about an earlier one.
  lock.end = End::unknown;
  lock.overdue_taken = lock.overdue_taken && old.expires_at == row.expires_at;
  const bool is_same = old.fence == row.fence;
  lock.is_renewed = is_same && (lock.is_renewed || old.expires_at != row.expires_at);
  auto now_known = with_lease(row, exchange, lock.most_left, lock.is_renewed);
  // A reading that found nothing new says nothing new about the length.
  if (is_same && old.expires_at == row.expires_at) now_known.lease = old.lease;
  if (!now_known.waiters && is_same) now_known.waiters = old.waiters;
  if (now_known != old) lock.row = std::make_shared<const LockRow>(std::move(now_known));
}

LockRow StoreModel::with_lease(LockRow row, const Exchange& exchange, milliseconds& most_left,
                               bool is_renewed) const {
  const auto left = row.expires_at - engine_time(exchange.answered);
  const auto whole = row.expires_at - row.acquired_at;
  most_left = std::max(most_left, left);
  // Exact, unless it was renewed before it was first seen: then most of a lease is left, since renewals come
  // early. Once a renewal was seen, nearly all of it was.
  if (is_renewed) {
    row.lease = std::min(whole, rounded_up(most_left));
  } else {
    row.lease = whole <= 4 * left ? whole : std::min(whole, rounded_up(left * 6 / 5));
  }
  return row;
}

StoreModel::LockMap::iterator StoreModel::drop_lock(LockMap::iterator lock, const Moment& now) {
  const auto& [row, read_at, most_left, is_renewed, end, overdue] = lock->second;
  const bool lease_is_over = engine_time(now) >= row->expires_at;
  // Since then its release may have come and gone, with nothing that would have heard or read it.
  const bool was_watched = read_at > unwatched_at_;
  const auto kind = end == End::broken                       ? EventKind::lock_broken
                    : end == End::released || !lease_is_over ? EventKind::lock_released
                    : was_watched                            ? EventKind::lock_expired
                                                             : EventKind::lock_ended;
  add_event(lock_event(kind, *row), now);
  return locks_.erase(lock);
}

void StoreModel::set_lock(std::string_view key, const std::optional<LockRow>& row, const Exchange& exchange) {
  if (row) return put_lock(*row, exchange, Source::single);
  if (const auto known = locks_.find(key); known != locks_.end()) drop_lock(known, exchange.answered);
}

void StoreModel::set_waiters(std::string_view key, std::optional<std::uint32_t> count) {
  const auto known = locks_.find(key);
  if (known == locks_.end() || known->second.row->waiters == count) return;
  auto row = *known->second.row;
  row.waiters = count;
  known->second.row = std::make_shared<const LockRow>(std::move(row));
}

void StoreModel::hear_release(std::string_view key, BootTime now) {
  const auto known = locks_.find(key);
  if (known != locks_.end() && known->second.read_at <= now && known->second.end == End::unknown) {
    known->second.end = End::released;
  }
}

void StoreModel::hear_break(std::string_view key, BootTime now) {
  const auto known = locks_.find(key);
  if (known != locks_.end() && known->second.read_at <= now) known->second.end = End::broken;
}

std::vector<std::string> StoreModel::take_overdue(const Moment& now, std::size_t at_most) {
  std::vector<std::string> keys;
  const auto engine_now = engine_time(now);
  for (auto& [key, lock] : locks_) {
    if (keys.size() >= at_most) break;
    if (lock.overdue_taken || engine_now < lock.row->expires_at) continue;
    lock.overdue_taken = true;
    keys.push_back(key);
  }
  return keys;
}

// -- tasks

void StoreModel::put_task(const TaskRow& row, const Exchange& exchange, Source source) {
  const auto found = tasks_.find({row.owner, row.id});
  if (found == tasks_.end()) {
    if (tasks_.size() >= limits_.tasks) {
      if (source == Source::page) ++tasks_beyond_so_far_[index_of(row.status)];
      return;
    }
    const bool is_new =
        tasks_beyond_ == TasksByStatus{} || is_since(row.created_at, tasks_since_, exchange.answered);
    tasks_.emplace(TaskKey{row.owner, row.id},
                   KnownTask{.row = std::make_shared<const TaskRow>(row), .read_at = exchange.sent});
    if (tasks_known_ && is_new) {
      add_event(task_event(EventKind::task_created, row), exchange.answered);
      if (is_final(row.status)) add_event(task_event(EventKind::task_ended, row), exchange.answered);
    }
    return;
  }
  auto& task = found->second;
  task.read_at = exchange.sent;
  auto now_known = row;
  now_known.has_worker = task.row->has_worker;
  now_known.worker = task.row->worker;
  if (now_known == *task.row) return;
  const bool status_changed = task.row->status != row.status;
  if (status_changed) {
    const auto kind = is_final(row.status) ? EventKind::task_ended : EventKind::task_changed;
    add_event(task_event(kind, now_known), exchange.answered);
  }
  task.row = std::make_shared<const TaskRow>(std::move(now_known));
}

StoreModel::TaskMap::iterator StoreModel::drop_task(TaskMap::iterator task, const Moment& now) {
  add_event(task_event(EventKind::task_removed, *task->second.row), now);
  return tasks_.erase(task);
}

void StoreModel::set_task(std::string_view owner, std::string_view id, const std::optional<TaskRow>& row,
                          const Exchange& exchange) {
  if (row) return put_task(*row, exchange, Source::single);
  const auto known = tasks_.find({std::string(owner), std::string(id)});
  if (known != tasks_.end()) drop_task(known, exchange.answered);
}

void StoreModel::assign_workers() {
  for (auto& [key, task] : tasks_) {
    const auto held = is_final(task.row->status) ? locks_.end() : locks_.find(task.row->lock_key);
    const bool has_worker = held != locks_.end();
    const std::string_view worker = has_worker ? std::string_view(held->second.row->holder) : "";
    if (task.row->has_worker == has_worker && task.row->worker == worker) continue;
    auto row = *task.row;
    row.has_worker = has_worker;
    row.worker = worker;
    task.row = std::make_shared<const TaskRow>(std::move(row));
  }
}

// -- the clock of the engine

void StoreModel::learn_clock(const LockRow& row, const Exchange& exchange) noexcept {
  if (row.acquired_at > row.expires_at) return;  // one of them is not a time of this grant
  bounds_.low = std::max(bounds_.low, between(row.acquired_at, exchange.answered.boot));
  bounds_.high = std::min(bounds_.high, between(row.expires_at, exchange.sent));
}

WallTime StoreModel::engine_time(const Moment& now) const noexcept {
  // This machine's clock, unless what was read contradicts it. Records that contradict each other teach
  // nothing: one may have been written by a server whose clock was ahead, or with times that are none.
  const auto low = std::max(last_bounds_.low, bounds_.low);
  const auto high = std::min(last_bounds_.high, bounds_.high);
  const auto own = between(now.wall, now.boot);
  const auto offset = low <= high ? std::clamp(own, low, high) : own;
  return WallTime(std::chrono::floor<milliseconds>(now.boot.time_since_epoch() + offset));
}

bool StoreModel::is_since(WallTime time, BootTime begin, const Moment& now) const noexcept {
  return time >= engine_time(now) - std::chrono::ceil<milliseconds>(now.boot - begin);
}

// -- events and the whole

void StoreModel::add_event(Event event, const Moment& now) {
  event.sequence = ++sequence_;
  event.at = engine_time(now);
  event.text = clipped(event.text);
  events_.push_back(std::move(event));
  if (events_.size() > limits_.events) events_.pop_front();
  shared_events_ = nullptr;
}

void StoreModel::report(Event event, const Moment& now) {
  add_event(std::move(event), now);
}

void StoreModel::set_reachable(const Moment& now) {
  if (std::exchange(reachability_, Reachability::up) != Reachability::down) return;
  error_.clear();
  Event event;
  event.kind = EventKind::store_reachable;
  add_event(std::move(event), now);
}

void StoreModel::set_unreachable(ErrorCode code, std::string_view error, const Moment& now) {
  error_code_ = code;
  error_ = clipped(error, 4 * TaskRow::max_text);
  if (std::exchange(reachability_, Reachability::down) == Reachability::down) return;
  down_since_ = now.boot;
  Event event;
  event.kind = EventKind::store_unreachable;
  event.text = error_;
  add_event(std::move(event), now);
}

Snapshot StoreModel::snapshot(const Moment& now) {
  assign_workers();
  if (!shared_events_) {
    shared_events_ = std::make_shared<const std::vector<Event>>(events_.begin(), events_.end());
  }
  Snapshot made{.number = ++snapshots_,
                .made_at = now.boot,
                .engine_time = engine_time(now),
                .engine = engine_,
                .whole = whole_,
                .current_since = current_since_,
                .tasks_since = tasks_since_,
                .queues_since = queues_since_,
                .round = round_length_,
                .heard = heard_,
                .tasks_refused = tasks_refused_,
                .queues_refused = queues_refused_,
                .reachability = reachability_,
                .error_code = error_code_,
                .error = error_,
                .down_since = down_since_,
                .locks_not_shown = locks_beyond_,
                .tasks_not_shown = std::reduce(tasks_beyond_.begin(), tasks_beyond_.end()),
                .queues_not_shown = queues_beyond_,
                .tasks_unreadable = unreadable_,
                .tasks_by_status = tasks_beyond_,
                .events = shared_events_};
  made.locks.reserve(locks_.size());
  for (const auto& [key, lock] : locks_) made.locks.push_back(lock.row);
  made.queues.reserve(queues_.size());
  for (const auto& [name, queue] : queues_) made.queues.push_back(queue.row);
  made.tasks.reserve(tasks_.size());
  for (const auto& [key, task] : tasks_) {
    made.tasks.push_back(task.row);
    ++made.tasks_by_status[index_of(task.row->status)];
  }
  return made;
}

}  // namespace holdfast::view
