#include "tasks/list_loop.hpp"

#include <algorithm>

#include "tasks/cursor.hpp"
#include "tasks/record.hpp"

namespace holdfast::tasks {

ListLoop::ListLoop(std::string owner, std::string stored_owner, const ListTasks& what)
    : owner_(std::move(owner)), stored_owner_(std::move(stored_owner)), what_(what) {
  what_.limit = std::clamp<std::size_t>(what_.limit, 1, max_record_page);
}

ListLoop::Action ListLoop::start() {
  if (what_.cursor.empty()) return next_request(std::nullopt);
  auto after = position_of(what_.cursor, stored_owner_);
  if (!after) return Finished{after.error()};
  return next_request(*std::move(after));
}

ListRecords ListLoop::next_request(std::optional<ListPosition> after) const {
  // A filter drops most records, as a rule: ask for many at once, so that it stays one or two round trips.
  constexpr std::size_t filtered_page = 500;
  return {.prefix = stored_owner_ + ':',
          .after = std::move(after),
          .limit = what_.status ? std::max(what_.limit, filtered_page) : what_.limit,
          .order = ListOrder::newest_first};
}

ListLoop::Action ListLoop::resume(const Result<RecordPage>& answer) {
  if (!answer) return Finished{answer.error()};
  for (const auto& listed : answer->records) {
    ++looked_at_;
    const auto record = TaskRecord::parse(listed.record.data, listed.key.task());
    if (!record && !what_.skip_unreadable) return Finished{record.error()};
    if (!record) {
      page_.unreadable.push_back(record.error());
      continue;
    }
    if (record->owner() != owner_ || (what_.status && record->status() != *what_.status)) continue;
    page_.tasks.push_back(
        record->task(listed.record.version, listed.record.incarnation, listed.record.guarded_by));
    const bool last_one = &listed == &answer->records.back() && !answer->next;
    if (page_.tasks.size() == what_.limit && !last_one) {
      return finished(
          ListPosition{.created_at_ms = listed.created_at_ms, .task = std::string(listed.key.task())});
    }
  }
  if (answer->next && page_.tasks.size() < what_.limit && looked_at_ < max_records_looked_at &&
      what_.status) {
    return next_request(answer->next);
  }
  return finished(answer->next);
}

ListLoop::Finished ListLoop::finished(const std::optional<ListPosition>& next) {
  if (next) {
    auto cursor = cursor_at(*next, stored_owner_);
    if (!cursor) return {cursor.error()};
    page_.cursor = *std::move(cursor);
  }
  return {std::move(page_)};
}

}  // namespace holdfast::tasks
