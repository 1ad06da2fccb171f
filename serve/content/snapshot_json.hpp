#pragma once

#include <cstddef>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "serve/content/json_text.hpp"
#include "view/snapshot.hpp"

namespace holdfast::serve {

// Snapshots as JSON: openapi.json describes their members. Times are milliseconds since the epoch by the
// engine's clock; fences are texts, since they are larger than the numbers of JavaScript.

void write_lock(JsonText& json, const view::LockRow& row);
void write_task(JsonText& json, const view::TaskRow& row);
void write_queue(JsonText& json, const view::QueueRow& row);
/// A task of a queue: its place, attempts and worker, without its data.
void write_queue_task(JsonText& json, const Task& task);
void write_event(JsonText& json, const view::Event& event);
/// The members of the object `store`: counters, age and reachability at the time `now`.
void write_store(JsonText& json, const view::Snapshot& snapshot, BootTime now);

/// Everything: for a viewer that begins.
[[nodiscard]] std::string whole_json(const view::Snapshot& snapshot, BootTime now);
/// What differs: rows that are new or changed, names of those that are gone, and the events since.
[[nodiscard]] std::string changes_json(const view::Snapshot& before, const view::Snapshot& after,
                                       BootTime now);

/// Some rows, for programs that do not follow the events.
struct RowFilter {
  std::string_view text = {};  ///< rows that contain it, in any case of ASCII letters
  std::optional<TaskStatus> status = std::nullopt;
  std::size_t limit = 1000;
};
[[nodiscard]] std::string locks_json(const view::Snapshot& snapshot, const RowFilter& filter, BootTime now);
[[nodiscard]] std::string tasks_json(const view::Snapshot& snapshot, const RowFilter& filter, BootTime now);
[[nodiscard]] std::string queues_json(const view::Snapshot& snapshot, const RowFilter& filter, BootTime now);

}  // namespace holdfast::serve
