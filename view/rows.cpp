#include "view/rows.hpp"

#include <charconv>
#include <holdfast/tasks.hpp>

namespace holdfast::view {
namespace {

/// As `holdfast task list` reads it: a decimal up to 1 is a fraction, a number above 1 and up to 100 a
/// percentage. A plain 1 could be either.
std::optional<double> fraction_of(std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  const bool is_decimal = number.find_first_of(".eE") != std::string_view::npos;
  if (value >= 0 && value <= 1 && (is_decimal || value == 0)) return value;
  if (value > 1 && value <= 100) return value / 100;
  return std::nullopt;
}

void set_progress(TaskRow& row, const Json& variables) {
  // Most tasks have no progress; looking for its name is much cheaper than taking a large object apart.
  if (variables.str().find("progress") == std::string::npos) return;
  std::string_view progress;
  for (const auto& [name, value] : members_of(variables)) {
    if (name == "progress") progress = value;
  }
  if (progress.empty()) return;
  row.progress = fraction_of(progress);
  if (row.progress) return;
  const auto text = string_in(progress);
  row.progress_text = clipped(text ? std::string_view(*text) : progress);
}

}  // namespace

LockRow row_of(const LockRecord& record) {
  return {.key = record.key.str(),
          .holder = record.holder ? record.holder->str() : std::string(),
          .fence = record.fence,
          .acquired_at = record.acquired_at,
          .expires_at = record.expires_at};
}

LockRow row_of(std::string_view key, const LockInfo& info) {
  return {.key = std::string(key),
          .holder = info.holder ? info.holder->str() : std::string(),
          .fence = info.fence,
          .acquired_at = info.acquired_at,
          .expires_at = info.expires_at};
}

TaskRow row_of(const Task& task) {
  TaskRow row{.owner = task.owner,
              .id = task.id,
              .method = clipped(task.request_method),
              .status = task.status,
              .status_message = clipped(task.status_message.value_or("")),
              .created_at = task.created_at,
              .updated_at = task.last_updated_at,
              .expires_at = task.expires_at,
              .version = task.version,
              .incarnation = task.incarnation};
  if (task.bound_to) {
    row.fence = task.bound_to->fence;
    row.lock_key = task.bound_to->lock_key;
  } else {
    row.lock_key = Tasks::lock_key(task.owner, task.id);
  }
  set_progress(row, task.variables);
  return row;
}

QueueRow row_of(std::string_view name, const QueueCounts& counts) {
  return {.name = std::string(name),
          .ready = counts.ready,
          .delayed = counts.delayed,
          .working = counts.leased - counts.expired,
          .expired = counts.expired,
          .exhausted = counts.exhausted,
          .parked = counts.parked,
          .dead = counts.dead,
          .tasks = counts.records,
          .paused = counts.paused,
          .limit = counts.max_leased,
          .oldest_ready = counts.oldest_ready,
          .next_due = counts.next_due};
}

std::string clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  auto end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end));
}

}  // namespace holdfast::view
