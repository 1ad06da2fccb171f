#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "top/state.hpp"

namespace holdfast::cli::top {
namespace {

using view::LockRow;
using view::QueueRow;
using view::TaskRow;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// `wanted` in lower case.
bool contains(std::string_view text, std::string_view wanted) noexcept {
  return std::ranges::search(text, wanted, {}, lower).begin() != text.end() || wanted.empty();
}

bool fits(const LockRow& row, std::string_view wanted) noexcept {
  return contains(row.key, wanted) || contains(row.holder, wanted);
}

bool fits(const TaskRow& row, std::string_view wanted) noexcept {
  return contains(row.owner, wanted) || contains(row.id, wanted) || contains(row.method, wanted) ||
         contains(to_string(row.status), wanted) || contains(row.worker, wanted) ||
         contains(row.status_message, wanted);
}

bool fits(const QueueRow& row, std::string_view wanted) noexcept {
  return contains(row.name, wanted) || (row.paused && contains("paused", wanted));
}

bool fits(const view::Event& event, std::string_view wanted) noexcept {
  return contains(event.key, wanted) || contains(event.owner, wanted) || contains(event.task_id, wanted) ||
         contains(event.holder, wanted) || contains(to_string(event.kind), wanted);
}

/// Rows that compare equal keep their order, which is by name. (Not std::stable_sort: that of libstdc++ 12
/// does not compile under clang 19 with our warnings.)
template <class Rows, class By>
void sort_by(Rows& rows, bool reversed, By by) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto& first = *rows[reversed ? b : a];
    const auto& second = *rows[reversed ? a : b];
    if (by(first) < by(second)) return true;
    return !(by(second) < by(first)) && a < b;
  });
  Rows sorted;
  sorted.reserve(rows.size());
  for (const auto place : order) sorted.push_back(std::move(rows[place]));
  rows = std::move(sorted);
}

void sort(view::Snapshot::Locks& rows, LockSort sort, bool reversed) {
  using Text = std::string_view;
  switch (sort) {
    case LockSort::key:
      return sort_by(rows, reversed, [](const LockRow& row) { return Text(row.key); });
    case LockSort::holder:
      return sort_by(rows, reversed, [](const LockRow& row) { return Text(row.holder); });
    case LockSort::lease:
      return sort_by(rows, reversed, [](const LockRow& row) { return row.expires_at; });
    case LockSort::held:
      return sort_by(rows, reversed, [](const LockRow& row) { return row.acquired_at; });
    case LockSort::waiters:  // most first
      return sort_by(rows, !reversed, [](const LockRow& row) { return row.waiters; });
    case LockSort::fence:
      return sort_by(rows, !reversed, [](const LockRow& row) { return row.fence; });
  }
}

void sort(view::Snapshot::Tasks& rows, TaskSort sort, bool reversed) {
  using Text = std::string_view;
  switch (sort) {
    case TaskSort::owner:
      return sort_by(rows, reversed, [](const TaskRow& row) { return Text(row.owner); });
    case TaskSort::method:
      return sort_by(rows, reversed, [](const TaskRow& row) { return Text(row.method); });
    case TaskSort::status:
      return sort_by(rows, reversed, [](const TaskRow& row) { return row.status; });
    case TaskSort::progress:  // most first
      return sort_by(rows, !reversed, [](const TaskRow& row) { return row.progress.value_or(-1); });
    case TaskSort::worker:  // those with one first
      return sort_by(rows, reversed,
                     [](const TaskRow& row) { return std::tuple(!row.has_worker, Text(row.worker)); });
    case TaskSort::age:  // newest first
      return sort_by(rows, !reversed, [](const TaskRow& row) { return row.created_at; });
  }
}

void sort(view::Snapshot::Queues& rows, QueueSort sort, bool reversed) {
  switch (sort) {
    case QueueSort::name:
      return sort_by(rows, reversed, [](const QueueRow& row) { return std::string_view(row.name); });
    case QueueSort::ready:  // most first
      return sort_by(rows, !reversed, [](const QueueRow& row) { return row.ready; });
    case QueueSort::working:
      return sort_by(rows, !reversed, [](const QueueRow& row) { return row.working; });
    case QueueSort::oldest:  // those that wait longest first
      return sort_by(rows, reversed,
                     [](const QueueRow& row) { return row.oldest_ready.value_or(WallTime::max()); });
  }
}

}  // namespace

std::string_view to_string(LockSort sort) noexcept {
  constexpr std::array<std::string_view, 6> names{"key", "holder", "lease", "held", "waiters", "fence"};
  return names[static_cast<std::size_t>(sort)];
}

std::string_view to_string(TaskSort sort) noexcept {
  constexpr std::array<std::string_view, 6> names{"owner", "method", "status", "progress", "worker", "age"};
  return names[static_cast<std::size_t>(sort)];
}

std::string_view to_string(QueueSort sort) noexcept {
  constexpr std::array<std::string_view, 4> names{"name", "ready", "working", "oldest"};
  return names[static_cast<std::size_t>(sort)];
}

Rows rows_of(const view::Snapshot& snapshot, const State& state) {
  std::string wanted = state.filter;
  std::ranges::transform(wanted, wanted.begin(), lower);
  Rows rows;
  const auto keep = [&](const auto& all, auto& kept) {
    for (const auto& row : all) {
      if (fits(*row, wanted)) kept.push_back(row);
    }
    rows.size = kept.size();
    rows.of = all.size();
  };
  switch (state.tab) {
    case Tab::locks:
      keep(snapshot.locks, rows.locks);
      sort(rows.locks, state.lock_sort, state.is_reversed());
      for (const auto& row : rows.locks) {
        rows.longest_key = std::max(rows.longest_key, row->key.size());
        rows.longest_holder = std::max(rows.longest_holder, row->holder.size());
      }
      break;
    case Tab::tasks:
      keep(snapshot.tasks, rows.tasks);
      sort(rows.tasks, state.task_sort, state.is_reversed());
      for (const auto& row : rows.tasks) {
        rows.longest_key = std::max(rows.longest_key, row->method.size());
        rows.longest_holder = std::max(rows.longest_holder, row->owner.size());
      }
      break;
    case Tab::events:
      if (!snapshot.events) break;
      for (const auto& event : *snapshot.events) {
        if (fits(event, wanted)) rows.events.push_back(&event);
      }
      if (!state.is_reversed()) std::ranges::reverse(rows.events);
      rows.size = rows.events.size();
      rows.of = snapshot.events->size();
      break;
    case Tab::queues:
      keep(snapshot.queues, rows.queues);
      sort(rows.queues, state.queue_sort, state.is_reversed());
      break;
  }
  return rows;
}

std::string id_of(const Rows& rows, Tab tab, std::size_t row) {
  switch (tab) {
    case Tab::locks:
      return rows.locks[row]->key;
    case Tab::tasks:
      return rows.tasks[row]->owner + ":" + rows.tasks[row]->id;
    case Tab::events:
      return std::to_string(rows.events[row]->sequence);
    case Tab::queues:
      return rows.queues[row]->name;
  }
  return {};
}

}  // namespace holdfast::cli::top
