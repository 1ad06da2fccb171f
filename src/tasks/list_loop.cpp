#include "tasks/list_loop.hpp"

#include <algorithm>

#include "core/digest.hpp"
#include "core/number.hpp"
#include "core/percent.hpp"
#include "core/wall_time.hpp"
#include "tasks/address.hpp"
#include "tasks/record.hpp"

namespace holdfast::tasks {
namespace {

/// Whether the record is that of a task in no queue, or of one that no worker has.
bool has_no_worker(const StoredRecord& record) {
  return !record.queue || record.queue->place != QueuePlace::leased;
}

/// Detects text that is not a cursor of ours. It does not stop forgery: a forger gains only another page of
/// its own tasks.
constexpr std::size_t check_bytes = 6;

Error unreadable_task(const UnreadableRecord& record) {
  return Error(record.why.code(), "the task " + record.task + " cannot be read: " + record.why.message(),
               record.why.cause())
      .about(record.task, {});
}

}  // namespace

Result<std::string> cursor_at(const ListPosition& position, std::string_view stored_owner) {
  const auto place =
      std::to_string(core::to_ms(position.created_at)) + '.' + core::percent_encoded(position.task);
  const auto digest = core::sha256(place + ':' + std::string(stored_owner));
  if (!digest) return digest.error();
  return core::base64url(std::span(*digest).first(check_bytes)) + '.' + place;
}

Result<ListPosition> position_of(std::string_view cursor, std::string_view stored_owner) {
  const Error bad(ErrorCode::BadCursor, "the cursor is not from this owner's list; start without a cursor");
  const auto first = cursor.find('.');
  const auto second = first == std::string_view::npos ? first : cursor.find('.', first + 1);
  if (second == std::string_view::npos) return bad;
  ListPosition position;
  const auto created_at = core::whole_number<std::int64_t>(cursor.substr(first + 1, second - first - 1));
  auto task = core::percent_decoded(cursor.substr(second + 1));
  if (!created_at || !task) return bad;
  position.created_at = core::from_ms(*created_at);
  position.task = *std::move(task);
  const auto good = cursor_at(position, stored_owner);
  if (!good) return good.error();
  if (*good != cursor) return bad;
  return position;
}

ListLoop::ListLoop(std::string owner, std::string stored_owner, const ListTasks& what,
                   std::optional<WallTime> created_before)
    : owner_(std::move(owner)),
      stored_owner_(std::move(stored_owner)),
      what_(what),
      created_before_(created_before) {
  what_.limit = std::clamp<std::size_t>(what_.limit, 1, max_record_page);
}

ListLoop::Action ListLoop::start() {
  if (what_.cursor.empty()) {
    // Newest first, the list begins behind all that are too young.
    if (!created_before_ || what_.oldest_first) return next_request(std::nullopt);
    return next_request(ListPosition{.created_at = *created_before_, .task = {}});
  }
  auto after = position_of(what_.cursor, stored_owner_);
  if (!after) return Finished{after.error()};
  return next_request(*std::move(after));
}

ListRecords ListLoop::next_request(std::optional<ListPosition> after) const {
  // A filter usually drops most records: read many at once, so that one or two round trips suffice.
  constexpr std::size_t filtered_page = 500;
  return {
      .prefix = stored_owner_ + ':',
      .after = std::move(after),
      .limit = is_filtered() ? std::max(what_.limit, filtered_page) : what_.limit,
      .order = what_.oldest_first ? ListOrder::oldest_first : ListOrder::newest_first,
      // Those of a queue are few among many, and have an order of their own: by when they failed, not by age.
      .only_dead = what_.status == TaskStatus::failed && !created_before_ &&
                   queue_stored_as(stored_owner_).has_value()};
}

ListLoop::Action ListLoop::resume(const Result<RecordPage>& answer) {
  if (!answer) return Finished{answer.error()};
  auto unreadable = answer->unreadable.begin();
  const auto name_unreadable = [&](std::size_t up_to) {
    for (; unreadable != answer->unreadable.end() && unreadable->follows <= up_to; ++unreadable) {
      ++looked_at_;
      page_.unreadable.push_back(unreadable_task(*unreadable));
    }
  };
  for (std::size_t i = 0; i < answer->records.size(); ++i) {
    const auto& listed = answer->records[i];
    if (what_.oldest_first && created_before_ && listed.created_at >= *created_before_) {
      return finished(std::nullopt);  // all that follow are younger
    }
    name_unreadable(i);
    ++looked_at_;
    const auto record = TaskRecord::parse(listed.record.data, listed.key.task());
    if (!record) {
      page_.unreadable.push_back(record.error());
      continue;
    }
    if (record->owner() != owner_ || (what_.status && record->status() != *what_.status)) continue;
    if (what_.unclaimed && (record->status() != TaskStatus::working || !has_no_worker(listed.record))) {
      continue;
    }
    page_.tasks.push_back(record->task(listed.record));
    const bool last_one = i + 1 == answer->records.size() && !answer->next;
    if (page_.tasks.size() == what_.limit && !last_one) {
      // Unreadable records after this one are reported by the next page.
      return finished(ListPosition{.created_at = listed.created_at, .task = std::string(listed.key.task())});
    }
  }
  name_unreadable(answer->records.size());
  if (answer->next && page_.tasks.size() < what_.limit && looked_at_ < max_records_looked_at &&
      is_filtered()) {
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
