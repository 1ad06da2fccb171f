#include "top/frame.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "top/columns.hpp"

namespace holdfast::cli::top {
namespace {

using std::chrono::milliseconds;
using view::Reachability;
using view::Snapshot;

/// Lines above the rows of a table: title, tabs, heading.
constexpr std::size_t lines_above = 3;

std::size_t lines_below(const State& state, Size size) {
  const std::size_t wanted = state.mode == Mode::reason || state.mode == Mode::confirm ? 4 : 1;
  return std::min(wanted, size.lines > lines_above + 1 ? size.lines - lines_above - 1 : 1);
}

bool is_down(const Snapshot& snapshot) {
  return snapshot.reachability == Reachability::down;
}

// -- the first lines

/// Of what the tab shows.
milliseconds age_of(const Snapshot& snapshot, const State& state, BootTime now) {
  if (state.tab == Tab::queues)
    return snapshot.queues_known() ? snapshot.queues_age(now) : milliseconds::zero();
  return state.tab == Tab::tasks ? snapshot.tasks_age(now) : snapshot.age(now);
}

std::string state_of(const Snapshot& snapshot, const State& state, BootTime now) {
  if (state.paused) return "paused, " + short_duration(age_of(snapshot, state, now)) + " old";
  if (is_down(snapshot)) {
    return "unreachable for " +
           short_duration(std::chrono::duration_cast<milliseconds>(now - snapshot.down_since));
  }
  if (snapshot.reachability == Reachability::unknown) return "connecting";
  if (!snapshot.whole || (state.tab == Tab::queues && !snapshot.queues_known())) return "reading";
  return short_duration(age_of(snapshot, state, now)) + " old";
}

Line title(const Snapshot& snapshot, const State& state, const FrameInput& around) {
  Line line(around.size.columns);
  const auto age = state_of(snapshot, state, around.now);
  const auto style =
      is_down(snapshot) ? Style::bad
      : state.paused || !snapshot.whole || age_of(snapshot, state, around.now) > std::chrono::seconds(10)
          ? Style::warn
          : Style::dim;
  line.add("holdfast top", Style::strong).add("  ");
  const auto left = around.size.columns - std::min(around.size.columns, line.columns() + age.size() + 2);
  line.add(cut(safe(around.store), left, around.unicode ? "…" : "~"), Style::dim);
  return line.right(age, style);
}

std::string count_of(std::size_t shown, std::size_t all) {
  return shown == all ? std::to_string(all) : std::to_string(shown) + "/" + std::to_string(all);
}

Line tabs(const Snapshot& snapshot, const Rows& rows, const State& state, const FrameInput& around) {
  struct TabText {
    Tab tab;
    std::string name, count;
  };
  const auto tasks = snapshot.tasks_refused ? "?" : count_of(snapshot.tasks.size(), snapshot.task_count());
  std::vector<TabText> all{
      {Tab::locks, "1 Locks", " " + count_of(snapshot.locks.size(), snapshot.lock_count())},
      {Tab::tasks, "2 Tasks", " " + tasks},
      {Tab::events, "3 Events", ""}};
  // Many stores have none, and the line is short.
  if (snapshot.queue_count() > 0 || state.tab == Tab::queues) {
    all.push_back({Tab::queues, "4 Queues", " " + count_of(snapshot.queues.size(), snapshot.queue_count())});
  }
  // On a narrow terminal only the active tab has a count, or none.
  const auto drop_counts = [&](const auto& of) {
    std::size_t width = 0;
    for (const auto& one : all) width += one.name.size() + one.count.size() + 2;
    if (width <= around.size.columns) return;
    for (auto& one : all) {
      if (of(one.tab)) one.count.clear();
    }
  };
  drop_counts([&](Tab tab) { return tab != state.tab; });
  drop_counts([](Tab) { return true; });
  Line line(around.size.columns);
  for (const auto& one : all) {
    const bool active = state.tab == one.tab;
    const auto text = one.name + one.count;
    line.add(active ? "[" + text + "]" : " " + text + " ", active ? Style::strong : Style::dim);
  }
  std::string right;
  if (!state.filter.empty() || state.mode == Mode::filter) {
    right = "/" + safe(state.filter) + " " + std::to_string(rows.size) + " of " + std::to_string(rows.of);
  } else if (state.tab != Tab::events) {
    right = "by " +
            std::string(state.tab == Tab::locks   ? to_string(state.lock_sort)
                        : state.tab == Tab::tasks ? to_string(state.task_sort)
                                                  : to_string(state.queue_sort)) +
            (state.is_reversed() ? ", reversed" : "");
  }
  return line.right(cut(right, around.size.columns / 2, "~"),
                    state.filter.empty() ? Style::dim : Style::accent);
}

// -- details and help

using Fields = std::vector<std::pair<std::string_view, std::string>>;

std::string time_and_age(WallTime time, WallTime now) {
  if (time == WallTime()) return "unknown";
  const auto text = utc(time);
  return time <= now ? text + "  (" + short_duration(now - time) + " ago)"
                     : text + "  (in " + short_duration(time - now) + ")";
}

Fields fields_of(const view::LockRow& row, WallTime now) {
  return {{"key", row.key},
          {"holder", row.holder.empty() ? "no label" : row.holder},
          {"fence", row.fence.to_string()},
          {"acquired", time_and_age(row.acquired_at, now)},
          {"lease expires", time_and_age(row.expires_at, now)},
          {"waiters", row.waiters ? std::to_string(*row.waiters) : "unknown"}};
}

Fields fields_of(const view::TaskRow& row, WallTime now) {
  Fields fields{{"owner", row.owner},
                {"task", row.id},
                {"method", row.method},
                {"status", std::string(to_string(row.status))},
                {"message", row.status_message},
                {"progress",
                 row.progress ? std::to_string(std::lround(*row.progress * 100)) + " %" : row.progress_text},
                {"worker", !row.has_worker      ? "none"
                           : row.worker.empty() ? "no label"
                                                : row.worker},
                {"created", time_and_age(row.created_at, now)},
                {"updated", time_and_age(row.updated_at, now)},
                {"expires", row.expires_at ? time_and_age(*row.expires_at, now) : "never"},
                {"version", std::to_string(row.version)},
                {"highest fence", row.fence ? row.fence->to_string() : "none"},
                {"lock", row.lock_key}};
  std::erase_if(fields, [](const auto& field) { return field.second.empty(); });
  return fields;
}

Fields fields_of(const view::QueueRow& row, WallTime now) {
  return {{"queue", row.name},
          {"state", row.paused ? "paused: no task is claimed" : "active"},
          {"ready", std::to_string(row.ready)},
          {"oldest ready", row.oldest_ready ? time_and_age(*row.oldest_ready, now) : "none"},
          {"delayed", std::to_string(row.delayed)},
          {"next due", row.next_due ? time_and_age(*row.next_due, now) : "none"},
          {"parked", std::to_string(row.parked)},
          {"working", std::to_string(row.working)},
          {"limit", row.limit ? std::to_string(*row.limit) : "none"},
          {"expired", std::to_string(row.expired)},
          {"exhausted", std::to_string(row.exhausted)},
          {"dead", std::to_string(row.dead)},
          {"tasks", std::to_string(row.tasks) + ", finished ones included"}};
}

Fields fields_of(const view::Event& event) {
  Fields fields{{"event", std::string(to_string(event.kind))},
                {"time", utc(event.at)},
                {"lock", event.key},
                {"owner", event.owner},
                {"task", event.task_id},
                {"holder", event.holder},
                {"status", event.status ? std::string(to_string(*event.status)) : ""},
                {"fence", event.fence ? event.fence->to_string() : ""},
                {"fence before", event.old_fence ? event.old_fence->to_string() : ""},
                {"text", event.text}};
  std::erase_if(fields, [](const auto& field) { return field.second.empty(); });
  return fields;
}

void add_details(Frame& frame, const Rows& rows, const State& state, const FrameInput& around, WallTime now) {
  const auto selected = state.position().selected;
  if (selected >= rows.size) return;
  const auto fields = state.tab == Tab::locks    ? fields_of(*rows.locks[selected], now)
                      : state.tab == Tab::tasks  ? fields_of(*rows.tasks[selected], now)
                      : state.tab == Tab::queues ? fields_of(*rows.queues[selected], now)
                                                 : fields_of(*rows.events[selected]);
  const std::size_t indent = around.size.columns >= 60 ? 17 : 2;
  for (const auto& [name, value] : fields) {
    Line first(around.size.columns);
    first.add(" ").add(name, Style::heading);
    if (indent == 2) frame.lines.push_back(std::exchange(first, Line(around.size.columns)));
    for (const auto& text : wrapped(safe(value), around.size.columns - indent)) {
      frame.lines.push_back(first.to(indent).add(text));
      first = Line(around.size.columns);
    }
  }
}

void add_help(Frame& frame, const FrameInput& around) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> keys{{
      {"1 2 3 4, Tab", "locks, tasks, events, queues"},
      {"Up Down, j k", "select; also PgUp PgDn Home End"},
      {"Enter", "details of the selected row"},
      {"/", "show only rows with this text; Esc clears it"},
      {"s", "sort by the next column"},
      {"r", "reverse the order"},
      {"Space", "pause: the screen stays as it is"},
      {"b", "break the selected lock (asks for a reason)"},
      {"c", "cancel the selected task (asks)"},
      {"Ctrl-L", "draw the screen again"},
      {"q", "quit"},
      {"", ""},
      {"N old", "when the last complete reading began"},
  }};
  for (const auto& [key, text] : keys) {
    frame.lines.push_back(Line(around.size.columns).add(" ").add(key, Style::accent).to(15).add(text));
  }
}

// -- the last lines

void add_prompt(Frame& frame, const State& state, const FrameInput& around) {
  const auto columns = around.size.columns;
  const auto* lock = std::get_if<LockTarget>(&state.target);
  const auto* task = std::get_if<TaskTarget>(&state.target);
  const std::string_view ending = around.unicode ? "…" : "~";
  std::vector<Line> lines;
  if (state.mode == Mode::reason && lock != nullptr) {
    lines.push_back(Line(columns)
                        .add("Break ", Style::bad)
                        .add(cut(safe(lock->key), columns / 2, ending), Style::strong)
                        .add(lock->holder.empty() ? "" : ", held by " + safe(lock->holder)));
    lines.push_back(Line(columns).add("Fence " + std::to_string(lock->fence.value()) +
                                      ". Until the holder notices, only fence checks reject its writes."));
    lines.push_back(Line(columns).add("Enter breaks the lock, Esc does nothing.", Style::dim));
    Line typed(columns);
    typed.add("Reason: ", Style::strong);
    // The end of a long text is where it is typed.
    auto text = safe(state.input);
    while (columns_of(text) + typed.columns() + 1 > columns && !text.empty()) text.erase(0, 1);
    lines.push_back(typed.add(text));
  } else if (state.mode == Mode::confirm && task != nullptr) {
    lines.push_back(Line(columns)
                        .add("Cancel the task ", Style::bad)
                        .add(cut(safe(task->id), columns / 2, ending), Style::strong)
                        .add(" of " + safe(task->owner)));
    lines.push_back(
        Line(columns).add("Its worker is notified where it waits for that, else at its next write."));
    lines.emplace_back(columns);
    lines.push_back(Line(columns).add("Cancel it? ", Style::strong).add("y cancels, any other key does not"));
  }
  // If there is little room, the question matters most.
  const auto room = lines_below(state, around.size);
  if (lines.size() > room) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(room));
  for (auto& line : lines) frame.lines.push_back(std::move(line));
}

Line footer(const State& state, const FrameInput& around) {
  Line line(around.size.columns);
  if (!state.message.empty()) return line.add(safe(state.message), state.is_bad ? Style::bad : Style::good);
  if (state.mode == Mode::filter) {
    return line.add("Filter: ", Style::strong)
        .add(safe(state.filter))
        .add("  ")
        .right("Enter keeps it, Esc clears it", Style::dim);
  }
  const auto add = [&](std::string_view key, std::string_view text) {
    if (line.columns() + key.size() + text.size() + 3 > around.size.columns) return;
    if (line.columns() > 0) line.add("  ");
    line.add(key, Style::accent).add(" ").add(text, Style::dim);
  };
  if (state.mode == Mode::help) {
    add("any key", "back");
    return line;
  }
  add("q", "quit");
  add("?", "help");
  if (state.mode == Mode::details) {
    add("Esc", "back");
  } else {
    add("Enter", "details");
    add("/", "filter");
    if (state.tab != Tab::events) add("s", "sort");
  }
  if (state.tab == Tab::locks) add("b", "break");
  if (state.tab == Tab::tasks) add("c", "cancel");
  add("Space", state.paused ? "go on" : "pause");
  return line;
}

std::string nothing_to_show(const Snapshot& snapshot, const Rows& rows, const State& state) {
  if (rows.of > 0) return "no row contains the filter; Esc clears it";
  if (state.tab == Tab::events) return "no events since this view began";
  if (!snapshot.whole) return "";
  const bool is_refused = (state.tab == Tab::tasks && snapshot.tasks_refused) ||
                          (state.tab == Tab::queues && snapshot.queues_refused);
  if (is_refused) return "this user may not read them: see `holdfast doctor`";
  if (state.tab == Tab::queues) return snapshot.queues_known() ? "there are no queues" : "";
  return state.tab == Tab::locks ? "no lock is held" : "there are no tasks";
}

}  // namespace

std::size_t visible_rows(const Snapshot& snapshot, const State& state, Size size) {
  const auto others = lines_above + lines_below(state, size) + (is_down(snapshot) ? 1 : 0);
  return size.lines > others ? size.lines - others : 0;
}

Frame compose(const Snapshot& snapshot, const Rows& rows, const State& state, const FrameInput& around) {
  const auto [columns, lines] = around.size;
  const auto engine_now = snapshot.engine_time_at(around.now);
  Frame frame;
  frame.lines.push_back(title(snapshot, state, around));
  frame.lines.push_back(tabs(snapshot, rows, state, around));
  if (is_down(snapshot)) {
    frame.lines.push_back(Line(columns).add(cut(safe(snapshot.error), columns, "~"), Style::bad));
  }
  if (state.mode == Mode::help) {
    frame.lines.emplace_back(columns);
    add_help(frame, around);
  } else if (state.mode == Mode::details ||
             (state.back == Mode::details && (state.mode == Mode::reason || state.mode == Mode::confirm))) {
    frame.lines.emplace_back(columns);
    add_details(frame, rows, state, around, engine_now);
  } else {
    const Columns table(rows, state, around, engine_now);
    frame.lines.push_back(table.heading());
    const auto first = state.position().first;
    const auto end = std::min(rows.size, first + visible_rows(snapshot, state, around.size));
    for (auto row = first; row < end; ++row) {
      auto line = table.row(row);
      if (row == state.position().selected) line.to(columns).select();
      frame.lines.push_back(std::move(line));
    }
    if (rows.size == 0) {
      frame.lines.push_back(Line(columns).add(" " + nothing_to_show(snapshot, rows, state), Style::dim));
    }
  }
  const auto below = lines_below(state, around.size);
  frame.lines.resize(lines > below ? lines - below : 0, Line(columns));
  if (state.mode == Mode::reason || state.mode == Mode::confirm) {
    add_prompt(frame, state, around);
    // A message about what was typed takes the place of the explanation above it.
    if (!state.message.empty() && below > 1) {
      frame.lines[frame.lines.size() - 2] = Line(columns).add(safe(state.message), Style::bad);
    }
    frame.cursor = {frame.lines.size() - 1, std::min(frame.lines.back().columns(), columns - 1)};
  } else {
    frame.lines.push_back(footer(state, around));
    if (state.mode == Mode::filter) {
      frame.cursor = {frame.lines.size() - 1, std::min(columns - 1, 8 + columns_of(safe(state.filter)))};
    }
  }
  frame.lines.resize(lines, Line(columns));
  return frame;
}

std::string short_duration(milliseconds length) {
  const auto ms = std::max<std::int64_t>(length.count(), 0);
  if (ms < 9'950) return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + "s";
  const auto seconds = ms / 1000;
  if (seconds < 100) return std::to_string(seconds) + "s";
  const auto in_units = [seconds](std::int64_t unit, const char* name) {
    const auto whole = std::to_string(seconds / unit);
    return seconds < 10 * unit ? whole + "." + std::to_string(seconds % unit * 10 / unit) + name
                               : whole + name;
  };
  if (seconds < 6'000) return in_units(60, "m");
  if (seconds < 172'800) return in_units(3'600, "h");
  return std::to_string(std::min<std::int64_t>(seconds / 86'400, 999)) + "d";
}

std::string bar(double fraction, std::size_t columns, bool unicode) {
  constexpr std::array<std::string_view, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto clamped = std::clamp(fraction, 0.0, 1.0);
  std::string text;
  if (!unicode) {
    const auto filled = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(columns)));
    text.append(filled, '#');
    return text.append(columns - filled, '.');
  }
  const auto parts = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(columns) * 8));
  for (std::size_t i = 0; i < parts / 8; ++i) text += "█";
  text += eighths[parts % 8];
  for (auto used = (parts + 7) / 8; used < columns; ++used) text += "░";
  return text;
}

}  // namespace holdfast::cli::top
