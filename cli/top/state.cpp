#include "top/state.hpp"

#include <algorithm>

namespace holdfast::cli::top {
namespace {

using Name = Key::Name;

/// Bytes of a filter or a reason.
constexpr std::size_t longest_input = 200;

void remove_last_character(std::string& text) {
  while (!text.empty()) {
    const auto last = static_cast<unsigned char>(text.back());
    text.pop_back();
    if ((last & 0xC0U) != 0x80U) return;
  }
}

/// Whether the key edits a line of text.
bool edit(std::string& text, const Key& key) {
  if (key.name == Name::text) {
    if (text.size() + key.text.size() <= longest_input) text += key.text;
  } else if (key.name == Name::backspace) {
    remove_last_character(text);
  } else if (key.name == Name::kill_line) {
    text.clear();
  } else {
    return false;
  }
  return true;
}

void select(State& state, const Rows& rows, std::size_t row, std::size_t visible) {
  auto& position = state.position();
  position.selected = rows.size == 0 ? 0 : std::min(row, rows.size - 1);
  position.id = rows.size == 0 ? std::string() : id_of(rows, state.tab, position.selected);
  position.chosen = true;
  settle(state, rows, visible);
}

/// Whether the key moves the selection.
bool move(State& state, const Key& key, const Rows& rows, std::size_t visible) {
  const auto at = state.position().selected;
  const auto page = std::max<std::size_t>(visible, 1);
  const auto up = [&](std::size_t by) { select(state, rows, at - std::min(at, by), visible); };
  if (key.name == Name::up || key.text == "k") {
    up(1);
  } else if (key.name == Name::down || key.text == "j") {
    select(state, rows, at + 1, visible);
  } else if (key.name == Name::page_up) {
    up(page);
  } else if (key.name == Name::page_down) {
    select(state, rows, at + page, visible);
  } else if (key.name == Name::home || key.text == "g") {
    select(state, rows, 0, visible);
    state.position().chosen = false;
  } else if (key.name == Name::end || key.text == "G") {
    select(state, rows, rows.size, visible);
  } else {
    return false;
  }
  return true;
}

void show_tab(State& state, Tab tab) {
  state.tab = tab;
  state.mode = Mode::table;
}

void next_sort(State& state) {
  if (state.tab == Tab::locks) {
    state.lock_sort = static_cast<LockSort>((static_cast<int>(state.lock_sort) + 1) % 6);
  } else if (state.tab == Tab::tasks) {
    state.task_sort = static_cast<TaskSort>((static_cast<int>(state.task_sort) + 1) % 6);
  } else if (state.tab == Tab::queues) {
    state.queue_sort = static_cast<QueueSort>((static_cast<int>(state.queue_sort) + 1) % 4);
  }
}

void complain_in(State& state, std::string message) {
  state.message = std::move(message);
  state.is_bad = true;
}

void ask_for_reason(State& state, const Rows& rows) {
  if (state.tab != Tab::locks) return complain_in(state, "b breaks a lock: press 1 for the locks");
  if (rows.size == 0) return complain_in(state, "no lock is selected");
  const auto& row = *rows.locks[state.position().selected];
  state.target = LockTarget{.key = row.key, .holder = row.holder, .fence = row.fence};
  state.input.clear();
  state.back = state.mode;
  state.mode = Mode::reason;
}

void ask_to_cancel(State& state, const Rows& rows) {
  if (state.tab != Tab::tasks) return complain_in(state, "c cancels a task: press 2 for the tasks");
  if (rows.size == 0) return complain_in(state, "no task is selected");
  const auto& row = *rows.tasks[state.position().selected];
  if (is_final(row.status)) {
    return complain_in(state, "the task is already " + std::string(to_string(row.status)));
  }
  state.target = TaskTarget{.owner = row.owner, .id = row.id, .incarnation = row.incarnation};
  state.back = state.mode;
  state.mode = Mode::confirm;
}

Action press_in_reason(State& state, const Key& key) {
  if (edit(state.input, key)) return {};
  if (key.name == Name::enter) {
    if (state.input.find_first_not_of(' ') == std::string::npos) {
      complain_in(state, "a reason is needed: it is logged");
      return {};
    }
    state.mode = state.back;
    return BreakLock{.lock = std::get<LockTarget>(state.target), .reason = state.input};
  }
  if (key.name == Name::escape) {
    state.mode = state.back;
    state.message = "nothing was changed";
  }
  return {};
}

Action press_in_confirm(State& state, const Key& key) {
  state.mode = state.back;
  if (key.text == "y" || key.text == "Y") return CancelTask{.task = std::get<TaskTarget>(state.target)};
  state.message = "nothing was changed";
  return {};
}

void press_in_filter(State& state, const Key& key) {
  if (edit(state.filter, key)) return;
  if (key.name == Name::escape) state.filter.clear();
  if (key.name == Name::escape || key.name == Name::enter) state.mode = Mode::table;
}

Action press_in_view(State& state, const Key& key, const Rows& rows, std::size_t visible) {
  if (key.text == "q") return Quit{};
  if (key.name == Name::redraw) return Redraw{};
  if (key.name == Name::escape) {
    if (state.mode == Mode::table) state.filter.clear();
    state.mode = Mode::table;
  } else if (key.text == "?") {
    state.mode = state.mode == Mode::help ? Mode::table : Mode::help;
  } else if (state.mode == Mode::help) {
    state.mode = Mode::table;  // any key
  } else if (key.text == "1" || key.text == "2" || key.text == "3" || key.text == "4") {
    show_tab(state, static_cast<Tab>(key.text[0] - '1'));
  } else if (key.name == Name::tab || key.name == Name::right) {
    show_tab(state, static_cast<Tab>((static_cast<std::size_t>(state.tab) + 1) % tab_count));
  } else if (key.name == Name::back_tab || key.name == Name::left) {
    show_tab(state, static_cast<Tab>((static_cast<std::size_t>(state.tab) + tab_count - 1) % tab_count));
  } else if (key.name == Name::enter) {
    const bool has_details = state.mode == Mode::table && rows.size > 0;
    state.mode = has_details ? Mode::details : Mode::table;
  } else if (key.text == "/") {
    state.mode = Mode::filter;
  } else if (key.text == "s") {
    next_sort(state);
  } else if (key.text == "r") {
    auto& reversed = state.reversed[static_cast<std::size_t>(state.tab)];
    reversed = !reversed;
  } else if (key.text == " ") {
    state.paused = !state.paused;
  } else if (key.text == "b") {
    ask_for_reason(state, rows);
  } else if (key.text == "c") {
    ask_to_cancel(state, rows);
  } else {
    static_cast<void>(move(state, key, rows, visible));
  }
  return {};
}

}  // namespace

void settle(State& state, const Rows& rows, std::size_t visible) {
  auto& position = state.position();
  if (rows.size == 0) {
    position = {};
    if (state.mode == Mode::details) state.mode = Mode::table;
    return;
  }
  position.selected = std::min(position.selected, rows.size - 1);
  const bool follows = !position.chosen && (state.mode == Mode::table || state.mode == Mode::filter);
  if (follows) position.selected = position.first = 0;
  if (position.id.empty() || follows) {
    position.id = id_of(rows, state.tab, position.selected);
  } else if (id_of(rows, state.tab, position.selected) != position.id) {
    for (std::size_t row = 0; row < rows.size; ++row) {
      if (id_of(rows, state.tab, row) != position.id) continue;
      position.selected = row;
      break;
    }
    // A row that is gone leaves the selection at its place, on another row; its details are gone with it.
    if (const auto now = id_of(rows, state.tab, position.selected); now != position.id) {
      position.id = now;
      if (state.mode == Mode::details) {
        state.mode = Mode::table;
        if (state.message.empty()) {
          state.message = state.tab == Tab::tasks    ? "the task is gone"
                          : state.tab == Tab::queues ? "the queue is gone"
                                                     : "the lock is free";
        }
      }
    }
  }
  const auto page = std::max<std::size_t>(visible, 1);
  position.first = std::min(position.first, position.selected);
  if (position.selected >= position.first + page) position.first = position.selected - page + 1;
  position.first = std::min(position.first, rows.size - std::min(rows.size, page));
}

Action press(State& state, const Key& key, const Rows& rows, std::size_t visible) {
  state.message.clear();
  state.is_bad = false;
  switch (state.mode) {
    case Mode::reason:
      return press_in_reason(state, key);
    case Mode::confirm:
      return press_in_confirm(state, key);
    case Mode::filter:
      press_in_filter(state, key);
      return {};
    case Mode::table:
    case Mode::details:
    case Mode::help:
      return press_in_view(state, key, rows, visible);
  }
  return {};
}

}  // namespace holdfast::cli::top
