#include "top/columns.hpp"

#include <algorithm>
#include <cmath>

#include "terminal/output.hpp"

namespace holdfast::cli::top {
namespace {

using view::EventKind;

constexpr std::size_t gap = 2;
/// A screen narrower than this has no room for all columns, one narrower than that only for the most needed.
constexpr std::size_t wide_screen = 76;
constexpr std::size_t medium_screen = 52;

Style style_of(TaskStatus status) noexcept {
  switch (status) {
    case TaskStatus::working:
      return Style::plain;
    case TaskStatus::input_required:
      return Style::warn;
    case TaskStatus::completed:
      return Style::good;
    case TaskStatus::failed:
      return Style::bad;
    case TaskStatus::cancelled:
      return Style::dim;
  }
  return Style::plain;
}

Style style_of(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::lock_granted:
    case EventKind::store_reachable:
      return Style::good;
    case EventKind::lock_expired:
    case EventKind::lock_broken:
    case EventKind::queue_paused:
    case EventKind::queue_workers_died:
    case EventKind::stale_write_refused:
      return Style::warn;
    case EventKind::queue_task_failed:
    case EventKind::store_unreachable:
      return Style::bad;
    case EventKind::lock_ended:
    case EventKind::lock_released:
    case EventKind::queue_resumed:
    case EventKind::task_created:
    case EventKind::task_changed:
    case EventKind::task_ended:
    case EventKind::task_removed:
      return Style::plain;
  }
  return Style::plain;
}

std::string_view words_of(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::lock_granted:
      return "lock granted";
    case EventKind::lock_released:
      return "lock released";
    case EventKind::lock_expired:
      return "lease expired";
    case EventKind::lock_broken:
      return "lock broken";
    case EventKind::lock_ended:
      return "ended unseen";
    case EventKind::task_created:
      return "task created";
    case EventKind::task_changed:
      return "task changed";
    case EventKind::task_ended:
      return "task ended";
    case EventKind::task_removed:
      return "task removed";
    case EventKind::queue_paused:
      return "queue paused";
    case EventKind::queue_resumed:
      return "queue resumed";
    case EventKind::queue_task_failed:
      return "task failed";
    case EventKind::queue_workers_died:
      return "workers died";
    case EventKind::stale_write_refused:
      return "write refused";
    case EventKind::store_unreachable:
      return "unreachable";
    case EventKind::store_reachable:
      return "reachable";
  }
  return "";
}

std::string subject_of(const view::Event& event) {
  if (!event.key.empty()) return event.key;
  if (!event.task_id.empty()) return event.owner + " " + event.task_id;
  if (!event.owner.empty()) return event.owner;
  return event.text;
}

/// What an event adds to its subject.
std::string more_of(const view::Event& event) {
  std::string text;
  if (event.status) text += std::string(to_string(*event.status)) + " ";
  if (event.fence) {
    text += "fence " + std::to_string(event.fence->value());
    if (event.old_fence) text += " after " + std::to_string(event.old_fence->value());
    text += " ";
  }
  // Where a task or a queue is the subject, the text is not.
  const bool tells_more = event.holder.empty() && !event.owner.empty();
  return text + (tells_more ? event.text : event.holder);
}

}  // namespace

std::string utc(WallTime time) {
  auto text = iso_time(time).substr(0, 19);
  text[10] = ' ';
  return text + "Z";
}

Columns::Columns(const Rows& rows, const State& state, const FrameInput& around, WallTime engine_now)
    : rows_(rows), state_(state), around_(around), now_(engine_now) {
  switch (state.tab) {
    case Tab::locks:
      choose_lock_columns();
      break;
    case Tab::tasks:
      choose_task_columns();
      break;
    case Tab::events:
      choose_event_columns();
      break;
    case Tab::queues:
      choose_queue_columns();
      break;
  }
}

void Columns::choose_lock_columns() {
  const auto all = around_.size.columns;
  std::size_t fence = 5;
  if (all >= wide_screen) {
    const auto first = state_.position().first;
    for (auto row = first; row < std::min(rows_.size, first + around_.size.lines); ++row) {
      fence = std::max(fence, std::to_string(rows_.locks[row]->fence.value()).size());
    }
  }
  const std::size_t lease = all >= 120 ? 25 : all >= wide_screen ? 15 : 11;
  const auto fixed =
      all >= wide_screen ? fence + lease + 4 + 4 + 5 * gap : lease + (all >= medium_screen ? 2 : 1) * gap;
  const auto flexible = all > fixed ? all - fixed : 1;
  if (all < medium_screen) {
    columns_ = {{.what = What::key, .width = flexible}, {.what = What::lease, .width = lease}};
    return;
  }
  // What one of them does not need, the other gets.
  auto key = flexible / 2;
  const auto holder_needs = std::max<std::size_t>(rows_.longest_holder, 6);
  if (holder_needs < flexible - key) key = flexible - holder_needs;
  const auto key_needs = std::max({rows_.longest_key, std::size_t{3}, flexible / 4});
  key = std::min(key, key_needs);
  columns_ = {{.what = What::key, .width = key}, {.what = What::holder, .width = flexible - key}};
  if (all >= wide_screen) columns_.push_back({.what = What::fence, .width = fence, .right = true});
  columns_.push_back({.what = What::lease, .width = lease});
  if (all >= wide_screen) {
    columns_.push_back({.what = What::waiters, .width = 4, .right = true});
    columns_.push_back({.what = What::held, .width = 4, .right = true});
  }
}

void Columns::choose_task_columns() {
  const auto all = around_.size.columns;
  constexpr std::size_t status = 14;
  if (all < medium_screen) {
    const std::size_t progress = 4;
    const auto fixed = status + progress + 2 * gap;
    columns_ = {{.what = What::method, .width = all > fixed ? all - fixed : 1},
                {.what = What::status, .width = status},
                {.what = What::progress, .width = progress, .right = true}};
    return;
  }
  const std::size_t progress = all >= 120 ? 25 : 13;
  const auto fixed = status + progress + 4 + (all >= wide_screen ? 5 : 3) * gap;
  const auto flexible = all > fixed ? all - fixed : 3;
  if (all < wide_screen) {
    columns_ = {{.what = What::method, .width = flexible},
                {.what = What::status, .width = status},
                {.what = What::progress, .width = progress},
                {.what = What::age, .width = 4, .right = true}};
    return;
  }
  const auto owner = std::clamp<std::size_t>(rows_.longest_holder, 5, flexible / 4);
  const auto method = std::min((flexible - owner) / 2, std::max<std::size_t>(rows_.longest_key, 36));
  columns_ = {{.what = What::owner, .width = owner},
              {.what = What::method, .width = method},
              {.what = What::status, .width = status},
              {.what = What::progress, .width = progress},
              {.what = What::worker, .width = flexible - owner - method},
              {.what = What::age, .width = 4, .right = true}};
}

void Columns::choose_event_columns() {
  const auto all = around_.size.columns;
  constexpr std::size_t time = 8, event = 13;
  const auto fixed = time + event + (all >= medium_screen ? 3 : 2) * gap;
  const auto flexible = all > fixed ? all - fixed : 1;
  columns_ = {{.what = What::time, .width = time}, {.what = What::event, .width = event}};
  columns_.push_back({.what = What::key, .width = all >= medium_screen ? flexible / 2 : flexible});
  if (all >= medium_screen) columns_.push_back({.what = What::holder, .width = flexible - flexible / 2});
}

void Columns::choose_queue_columns() {
  const auto all = around_.size.columns;
  columns_ = {{.what = What::queue, .width = 1}};
  if (all >= medium_screen) columns_.push_back({.what = What::state, .width = 6});
  columns_.push_back({.what = What::ready, .width = 7, .right = true});
  if (all >= wide_screen) columns_.push_back({.what = What::delayed, .width = 7, .right = true});
  if (all >= medium_screen) columns_.push_back({.what = What::working, .width = 9, .right = true});
  if (all >= wide_screen) {
    columns_.push_back({.what = What::exhausted, .width = 9, .right = true});
    columns_.push_back({.what = What::tasks, .width = 7, .right = true});
  }
  columns_.push_back({.what = What::oldest, .width = 6, .right = true});
  std::size_t fixed = 0;
  for (const auto& column : columns_) fixed += column.width + gap;
  if (all > fixed - gap) columns_.front().width += all - (fixed - gap);
}

std::string_view Columns::name_of(What what) noexcept {
  switch (what) {
    case What::key:
      return "KEY";
    case What::holder:
      return "HOLDER";
    case What::fence:
      return "FENCE";
    case What::lease:
      return "LEASE";
    case What::waiters:
      return "WAIT";
    case What::held:
      return "HELD";
    case What::owner:
      return "OWNER";
    case What::method:
      return "METHOD";
    case What::status:
      return "STATUS";
    case What::progress:
      return "PROGRESS";
    case What::worker:
      return "WORKER";
    case What::age:
      return "AGE";
    case What::time:
      return "TIME UTC";
    case What::event:
      return "EVENT";
    case What::queue:
      return "QUEUE";
    case What::state:
      return "STATE";
    case What::ready:
      return "READY";
    case What::delayed:
      return "DELAYED";
    case What::working:
      return "WORKING";
    case What::exhausted:
      return "EXHAUSTED";
    case What::tasks:
      return "TASKS";
    case What::oldest:
      return "OLDEST";
  }
  return "";
}

Line Columns::heading() const {
  Line line(around_.size.columns);
  std::size_t end = 0;
  for (const auto& column : columns_) {
    end += column.width;
    auto name = name_of(column.what);
    if (state_.tab == Tab::events && column.what == What::key) name = "LOCK OR TASK";
    if (state_.tab == Tab::events && column.what == What::holder) name = "DETAILS";
    if (column.what == What::progress && column.width < 8) name = "DONE";
    add_cell(line, column, end, name, Style::heading);
    end += gap;
  }
  return line;
}

Line Columns::row(std::size_t index) const {
  Line line(around_.size.columns);
  std::size_t end = 0;
  for (const auto& column : columns_) {
    end += column.width;
    switch (state_.tab) {
      case Tab::locks:
        add_lock_cell(line, column, end, *rows_.locks[index]);
        break;
      case Tab::tasks:
        add_task_cell(line, column, end, *rows_.tasks[index]);
        break;
      case Tab::events:
        add_event_cell(line, column, end, *rows_.events[index]);
        break;
      case Tab::queues:
        add_queue_cell(line, column, end, *rows_.queues[index]);
        break;
    }
    end += gap;
  }
  return line;
}

std::string Columns::shortened(std::string_view text, std::size_t width) const {
  return cut(safe(text), width, around_.unicode ? "…" : "~");
}

void Columns::add_cell(Line& line, const Column& column, std::size_t end, std::string_view text,
                       Style style) const {
  const auto fitted = shortened(text, column.width);
  line.to(column.right ? end - std::min(end, columns_of(fitted)) : end - column.width).add(fitted, style);
}

void Columns::add_bar(Line& line, double fraction, std::size_t width, std::string_view text,
                      Style style) const {
  const auto drawn = bar(fraction, width, around_.unicode);
  // The empty part is there to see the whole, not to be looked at.
  const auto empty = drawn.find(around_.unicode ? "░" : ".");
  line.add(drawn.substr(0, empty), style);
  if (empty != std::string::npos) line.add(drawn.substr(empty), Style::dim);
  line.add(" ").add(text);
}

void Columns::add_lock_cell(Line& line, const Column& column, std::size_t end,
                            const view::LockRow& row) const {
  switch (column.what) {
    case What::key:
      return add_cell(line, column, end, row.key, Style::plain);
    case What::holder:
      return row.holder.empty() ? add_cell(line, column, end, "-", Style::dim)
                                : add_cell(line, column, end, row.holder, Style::plain);
    case What::fence:
      return add_cell(line, column, end, std::to_string(row.fence.value()), Style::plain);
    case What::waiters:
      return row.waiters.value_or(0) == 0
                 ? add_cell(line, column, end, row.waiters ? "0" : "-", Style::dim)
                 : add_cell(line, column, end, std::to_string(*row.waiters), Style::warn);
    case What::held:
      return add_cell(line, column, end, short_duration(now_ - row.acquired_at), Style::plain);
    case What::lease: {
      line.to(end - column.width);
      const auto left = row.expires_at - now_;
      if (left.count() <= 0) {
        line.add("expired?", Style::dim);  // not read since: it may have been renewed
        return;
      }
      const auto fraction = row.lease.count() > 0
                                ? static_cast<double>(left.count()) / static_cast<double>(row.lease.count())
                                : 1;
      const auto style = fraction > 0.34 ? Style::good : fraction > 0.1 ? Style::warn : Style::bad;
      return add_bar(line, fraction, column.width - 5, short_duration(left), style);
    }
    default:
      return;
  }
}

void Columns::add_task_cell(Line& line, const Column& column, std::size_t end,
                            const view::TaskRow& row) const {
  switch (column.what) {
    case What::owner:
      return add_cell(line, column, end, row.owner, Style::plain);
    case What::method:
      return row.method.empty() ? add_cell(line, column, end, row.id, Style::dim)
                                : add_cell(line, column, end, row.method, Style::plain);
    case What::status:
      return add_cell(line, column, end, to_string(row.status), style_of(row.status));
    case What::worker:
      if (!row.has_worker) return add_cell(line, column, end, "-", Style::dim);
      return add_cell(line, column, end, row.worker.empty() ? "no label" : row.worker, Style::plain);
    case What::age:
      return add_cell(line, column, end,
                      row.created_at == WallTime() ? "-" : short_duration(now_ - row.created_at),
                      Style::plain);
    case What::progress: {
      if (!row.progress) return add_cell(line, column, end, row.progress_text, Style::plain);
      const auto percent = std::to_string(std::lround(*row.progress * 100)) + "%";
      if (column.width < 8) return add_cell(line, column, end, percent, Style::plain);
      line.to(end - column.width);
      return add_bar(line, *row.progress, column.width - 5, percent, Style::accent);
    }
    default:
      return;
  }
}

void Columns::add_event_cell(Line& line, const Column& column, std::size_t end,
                             const view::Event& event) const {
  switch (column.what) {
    case What::time:
      return add_cell(line, column, end, utc(event.at).substr(11, 8), Style::dim);
    case What::event:
      return add_cell(line, column, end, words_of(event.kind), style_of(event.kind));
    case What::key:
      return add_cell(line, column, end, subject_of(event), Style::plain);
    case What::holder:
      return add_cell(line, column, end, more_of(event), Style::dim);
    default:
      return;
  }
}

void Columns::add_queue_cell(Line& line, const Column& column, std::size_t end,
                             const view::QueueRow& row) const {
  const auto add_count = [&](std::size_t count, Style style) {
    add_cell(line, column, end, std::to_string(count), count == 0 ? Style::dim : style);
  };
  switch (column.what) {
    case What::queue:
      return add_cell(line, column, end, row.name, Style::plain);
    case What::state:
      return add_cell(line, column, end, row.paused ? "paused" : "active",
                      row.paused ? Style::warn : Style::dim);
    case What::ready:
      // No worker takes them.
      return add_count(row.ready, row.working == 0 ? Style::warn : Style::plain);
    case What::delayed:
      return add_count(row.delayed, Style::plain);
    case What::working:
      if (!row.limit) return add_count(row.working, Style::good);
      return add_cell(line, column, end, std::to_string(row.working) + "/" + std::to_string(*row.limit),
                      Style::good);
    case What::exhausted:
      return add_count(row.exhausted, Style::bad);
    case What::tasks:
      return add_count(row.tasks, Style::plain);
    case What::oldest:
      if (!row.oldest_ready) return add_cell(line, column, end, "-", Style::dim);
      return add_cell(line, column, end, short_duration(now_ - *row.oldest_ready), Style::plain);
    default:
      return;
  }
}

}  // namespace holdfast::cli::top
