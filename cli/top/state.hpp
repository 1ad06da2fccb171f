#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <holdfast/fence.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "top/keys.hpp"
#include "view/snapshot.hpp"

namespace holdfast::cli::top {

enum class Tab : std::uint8_t { locks, tasks, events, queues };
inline constexpr std::size_t tab_count = 4;

enum class LockSort : std::uint8_t { key, holder, lease, held, waiters, fence };
enum class TaskSort : std::uint8_t { owner, method, status, progress, worker, age };
enum class QueueSort : std::uint8_t { name, ready, working, oldest };
[[nodiscard]] std::string_view to_string(LockSort sort) noexcept;
[[nodiscard]] std::string_view to_string(TaskSort sort) noexcept;
[[nodiscard]] std::string_view to_string(QueueSort sort) noexcept;

/// A lock or a task that an action is about, as it was when the user chose it.
struct LockTarget {
  std::string key;
  std::string holder;
  Fence fence;
  friend bool operator==(const LockTarget&, const LockTarget&) = default;
};
struct TaskTarget {
  std::string owner;
  std::string id;
  std::string incarnation;
  friend bool operator==(const TaskTarget&, const TaskTarget&) = default;
};

enum class Mode : std::uint8_t {
  table,
  filter,   ///< a filter is typed
  details,  ///< of the selected row
  help,
  reason,  ///< the reason for breaking `target` is typed: Enter breaks it
  confirm  ///< cancelling `target` is to be confirmed
};

/// Which row of a tab is selected, and which is the first on the screen.
struct Position {
  std::string id;  ///< of the selected row: it stays selected when others come and go
  std::size_t selected = 0;
  std::size_t first = 0;
  bool chosen = false;  ///< by the user; otherwise the first row is selected, whichever it is
};

/// What the user has chosen; changed by keys only.
struct State {
  Tab tab = Tab::locks;
  LockSort lock_sort = LockSort::key;
  TaskSort task_sort = TaskSort::age;
  QueueSort queue_sort = QueueSort::name;
  std::array<bool, tab_count> reversed = {};
  std::string filter;
  Mode mode = Mode::table;
  Mode back = Mode::table;  ///< where a prompt returns to
  std::string input;        ///< typed so far: the reason
  std::variant<std::monostate, LockTarget, TaskTarget> target;
  std::array<Position, tab_count> positions = {};
  bool paused = false;  ///< the snapshot on the screen stays
  std::string message;  ///< about the last action; until the next key
  bool is_bad = false;  ///< the message is about a failure

  [[nodiscard]] Position& position() noexcept { return positions[static_cast<std::size_t>(tab)]; }
  [[nodiscard]] const Position& position() const noexcept { return positions[static_cast<std::size_t>(tab)]; }
  [[nodiscard]] bool is_reversed() const noexcept { return reversed[static_cast<std::size_t>(tab)]; }
};

/// The rows of one tab, filtered and sorted.
struct Rows {
  view::Snapshot::Locks locks;
  view::Snapshot::Tasks tasks;
  view::Snapshot::Queues queues;
  std::vector<const view::Event*> events;  ///< newest first; point into the snapshot
  std::size_t size = 0;                    ///< of the tab that is shown
  std::size_t of = 0;                      ///< how many there are without the filter
  /// The longest texts in bytes, as a measure for the columns.
  std::size_t longest_key = 0, longest_holder = 0;
};
/// Returns the rows that `state` selects. The snapshot must outlive them.
[[nodiscard]] Rows rows_of(const view::Snapshot& snapshot, const State& state);
/// Returns what identifies a row of the tab that is shown.
[[nodiscard]] std::string id_of(const Rows& rows, Tab tab, std::size_t row);

struct Quit {};
struct BreakLock {
  LockTarget lock;
  std::string reason;
};
struct CancelTask {
  TaskTarget task;
};
struct Redraw {};
using Action = std::variant<std::monostate, Quit, BreakLock, CancelTask, Redraw>;

/// Changes the state as a key asks for; a pure function. `rows` are those of the state, `visible` is how many
/// of them the screen shows.
[[nodiscard]] Action press(State& state, const Key& key, const Rows& rows, std::size_t visible);
/// Keeps the selected row selected and on the screen, after rows or screen have changed.
void settle(State& state, const Rows& rows, std::size_t visible);

}  // namespace holdfast::cli::top
