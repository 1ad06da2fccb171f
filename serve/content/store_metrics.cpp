#include "serve/content/store_metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace holdfast::serve {
namespace {

/// How many queues have series of their own, in the order of their names.
constexpr std::size_t max_queue_series = 100;

class GaugePage {
 public:
  explicit GaugePage(std::string_view engine) : engine_(engine) {}

  void family(std::string_view name, std::string_view help) {
    text_.append("# HELP ").append(name).append(" ").append(help);
    text_.append("\n# TYPE ").append(name).append(" gauge\n");
    name_ = name;
  }
  void value(double number, std::string_view more_labels = {}) {
    text_.append(name_).append("{backend=\"").append(engine_).append("\"").append(more_labels).append("} ");
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text_.append(digits.data(), end).append("\n");
  }
  void value(std::size_t number, std::string_view more_labels = {}) {
    value(static_cast<double>(number), more_labels);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string engine_;
  std::string name_;
  std::string text_;
};

double in_seconds(std::chrono::nanoseconds length) noexcept {
  return std::chrono::duration<double>(length).count();
}

/// As the text format wants the values of labels. No two texts become the same value: a scrape with one
/// series twice is refused as a whole.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '\n') value += '\\';
    value += c == '\n' ? 'n' : c;
  }
  return value;
}

/// Queues are few, and named in the configuration of their workers: that is why a name may be a label. A
/// program that makes up names must not make up series, so their number is limited.
void add_queues(GaugePage& page, const view::Snapshot& snapshot, BootTime now) {
  page.family("holdfast_store_queues", "Queues in the store, those without series of their own included.");
  page.value(snapshot.queue_count());
  page.family("holdfast_store_queues_read_age_seconds", "Age of what is known about queues.");
  page.value(in_seconds(snapshot.queues_age(now)));
  const auto shown = std::span(snapshot.queues).first(std::min(snapshot.queues.size(), max_queue_series));
  const auto label_of = [](const view::QueueRow& row) { return ",queue=\"" + label_value(row.name) + "\""; };
  if (shown.empty()) return;
  page.family("holdfast_queue_tasks", "Unfinished tasks of a queue, by their place.");
  for (const auto& row : shown) {
    const auto label = label_of(*row);
    page.value(row->ready, label + ",place=\"ready\"");
    page.value(row->delayed, label + ",place=\"delayed\"");
    page.value(row->working, label + ",place=\"working\"");
    page.value(row->expired, label + ",place=\"expired\"");
    page.value(row->exhausted, label + ",place=\"exhausted\"");
    page.value(row->parked, label + ",place=\"parked\"");
  }
  page.family("holdfast_queue_dead_tasks", "Failed tasks of a queue that are kept.");
  for (const auto& row : shown) page.value(row->dead, label_of(*row));
  page.family("holdfast_queue_oldest_ready_seconds",
              "How long the next task of a queue has been ready or due; 0 if none is.");
  for (const auto& row : shown) {
    const auto engine_now = snapshot.engine_time_at(now);
    // A delayed task that is due counts as delayed until a claim finds it: without workers it stays so.
    const auto since =
        std::min({row->oldest_ready.value_or(engine_now), row->next_due.value_or(engine_now), engine_now});
    page.value(in_seconds(engine_now - since), label_of(*row));
  }
  page.family("holdfast_queue_stored_tasks", "All tasks of a queue, finished ones included.");
  for (const auto& row : shown) page.value(row->tasks, label_of(*row));
  page.family("holdfast_queue_paused", "Whether a queue is paused.");
  for (const auto& row : shown) page.value(row->paused ? 1.0 : 0.0, label_of(*row));
}

void add_locks(GaugePage& page, const view::Snapshot& snapshot, BootTime now) {
  page.family("holdfast_store_read_age_seconds", "Age of what is known about locks.");
  page.value(in_seconds(snapshot.age(now)));
  page.family("holdfast_store_locks", "Locks that are held in the store, by any process.");
  page.value(snapshot.lock_count());
  std::uint64_t waiters = 0;
  bool waiters_known = snapshot.locks.empty();
  WallTime oldest = snapshot.engine_time_at(now);
  for (const auto& lock : snapshot.locks) {
    waiters_known = waiters_known || lock->waiters;
    waiters += lock->waiters.value_or(0);
    oldest = std::min(oldest, lock->acquired_at);
  }
  page.family("holdfast_store_oldest_lock_seconds",
              "How long the lock that is held longest has been held; 0 without locks.");
  page.value(in_seconds(snapshot.engine_time_at(now) - oldest));
  if (waiters_known) {
    page.family("holdfast_store_waiters", "Processes that wait for a held lock, as far as the engine knows.");
    page.value(static_cast<double>(waiters));
  }
}

void add_tasks(GaugePage& page, const view::Snapshot& snapshot, BootTime now) {
  page.family("holdfast_store_tasks_read_age_seconds", "Age of what is known about tasks.");
  page.value(in_seconds(snapshot.tasks_age(now)));
  page.family("holdfast_store_tasks", "Unexpired tasks in the store, by their status.");
  for (std::size_t i = 0; i < snapshot.tasks_by_status.size(); ++i) {
    std::string label = ",status=\"";
    label.append(to_string(static_cast<TaskStatus>(i))).append("\"");
    page.value(snapshot.tasks_by_status.at(i), label);
  }
  page.family("holdfast_store_tasks_unreadable", "Stored tasks that cannot be read.");
  page.value(snapshot.tasks_unreadable);
  std::size_t workers = 0;
  for (const auto& task : snapshot.tasks) workers += task->has_worker ? 1 : 0;
  page.family("holdfast_store_tasks_claimed", "Tasks whose lock is held by a worker.");
  page.value(workers);
}

}  // namespace

std::string store_metrics(const view::Snapshot& snapshot, const ServerFigures& figures, BootTime now) {
  GaugePage page(snapshot.engine);
  page.family("holdfast_store_up", "Whether the store answered the last request.");
  page.value(snapshot.is_up(now) ? 1.0 : 0.0);
  page.family("holdfast_serve_connections", "Open HTTP connections of this process.");
  page.value(figures.connections);
  page.family("holdfast_serve_event_streams", "Event streams among them.");
  page.value(figures.event_streams);
  if (!snapshot.whole) return page.take();  // numbers of a part would look like all

  add_locks(page, snapshot, now);
  if (!snapshot.tasks_refused) add_tasks(page, snapshot, now);
  if (snapshot.queues_known() && !snapshot.queues_refused) add_queues(page, snapshot, now);
  return page.take();
}

}  // namespace holdfast::serve
