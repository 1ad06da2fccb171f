#include "view/read_pace.hpp"

#include <algorithm>

namespace holdfast::view {
namespace {

using namespace std::chrono_literals;
using Duration = BootClock::duration;

constexpr Duration probe_interval = 5s;
constexpr Duration shortest_pause = 250ms;
constexpr Duration longest_pause = 5s;
/// What a request costs a store at least, however fast it is answered.
constexpr Duration least_cost = 10us;
/// After this long without viewers, what is known is of no use.
constexpr Duration forgotten_after = 1min;
/// Even urgent rounds leave this much time between their begins.
constexpr Duration urgent_interval = 100ms;

}  // namespace

ReadPace::ReadPace(const Options& options, BootTime now)
    : options_(options),
      refilled_at_(now),
      allowance_(options.burst),
      probe_at_(now),
      next_hint_at_(now - 1s),
      round_at_(now),
      retry_at_(now) {}

void ReadPace::set_viewers(std::size_t count, BootTime now) {
  if (viewers_ == 0 && count > 0) {
    // What was read before is old: begin again. The budget is that of a pause.
    part_ = Part::none;
    hints_.clear();
    known_hints_.clear();
    round_at_ = now;
    tasks_are_urgent_ = locks_are_urgent_ = true;
  }
  viewers_ = count;
}

void ReadPace::hint_lock(std::string_view key) {
  add_hint({.what = Reading::What::lock, .owner = {}, .key = std::string(key)});
}

void ReadPace::hint_task(std::string_view owner, std::string_view id) {
  add_hint({.what = Reading::What::task, .owner = std::string(owner), .key = std::string(id)});
}

void ReadPace::add_hint(Hint hint) {
  if (viewers_ == 0) return;
  if (hints_.size() >= max_hints) return hint_anything();
  if (known_hints_.insert(hint).second) hints_.push_back(std::move(hint));
}

double ReadPace::share(BootTime now) const noexcept {
  const bool is_first = whole_at_ == BootTime() || now - whole_at_ > forgotten_after;
  return is_first ? std::max(options_.first_share, options_.share) : options_.share;
}

BootTime ReadPace::affordable_at(BootTime now) const noexcept {
  const auto of_store = share(now);
  if (of_store >= 1) return now;
  const auto earned = (now - refilled_at_) * of_store;
  const auto missing = -std::chrono::duration_cast<Duration>(allowance_ + earned);
  if (missing <= 0ns) return now;
  return now + std::chrono::duration_cast<Duration>(missing / of_store);
}

BootTime ReadPace::next_at(BootTime now) const noexcept {
  if (viewers_ == 0) return never;
  auto wanted = round_at_;
  if (part_ != Part::none) wanted = now;
  if (round_is_urgent_) wanted = std::min(wanted, round_at_ - options_.interval + urgent_interval);
  if (!hints_.empty()) wanted = std::min(wanted, next_hint_at_);
  return std::max({wanted, affordable_at(now), retry_at_});
}

bool ReadPace::may_read_hint(BootTime now) const noexcept {
  return !hints_.empty() && now >= next_hint_at_;
}

Reading ReadPace::next(BootTime now) {
  refill(now);
  if (now >= probe_at_) {
    probe_at_ = now + probe_interval;
    return {.what = Reading::What::probe};
  }
  if (may_read_hint(now)) {
    auto hint = std::move(hints_.front());
    hints_.pop_front();
    known_hints_.erase(hint);
    // A second's worth may be read at once after a pause.
    next_hint_at_ = std::max(next_hint_at_, now - 1s) + Duration(1s) / options_.hints_per_second;
    return {.what = hint.what, .owner = std::move(hint.owner), .key = std::move(hint.key)};
  }
  if (part_ == Part::none) {
    part_ = Part::locks;
    cursor_.clear();
    round_at_ = now + options_.interval;
    round_is_urgent_ = false;
    all_locks_ = !locks_heard_ || locks_are_urgent_ || now - all_locks_at_ >= options_.heard_interval;
    if (all_locks_) all_locks_at_ = now;
    locks_are_urgent_ = false;
    return {.what = Reading::What::lock_page, .begins_round = true, .all_locks = all_locks_};
  }
  if (part_ == Part::locks) {
    return {.what = Reading::What::lock_page, .cursor = cursor_, .all_locks = all_locks_};
  }
  if (owners_.empty()) return {.what = Reading::What::owners, .cursor = cursor_};
  return {.what = Reading::What::task_page, .owner = owners_.front(), .cursor = task_cursor_};
}

Completed ReadPace::finished(const Reading& reading, const ReadingResult& result, BootTime now) {
  refill(now);
  charge(reading, result);
  if (result.answered) {
    pause_ = {};
    return advance(reading, result, now);
  }
  // A round that was interrupted begins again: its cursors may mean nothing to the store that comes back.
  pause_ = std::clamp(pause_ * 2, shortest_pause, longest_pause);
  retry_at_ = now + pause_;
  tasks_are_urgent_ = locks_are_urgent_ = true;
  part_ = Part::none;
  round_at_ = now;
  return Completed::nothing;
}

Completed ReadPace::advance(const Reading& reading, const ReadingResult& result, BootTime now) {
  switch (reading.what) {
    case Reading::What::probe:
    case Reading::What::lock:
    case Reading::What::task:
      return Completed::nothing;
    case Reading::What::lock_page:
      cursor_ = result.cursor;
      if (!cursor_.empty()) return Completed::nothing;
      if (!tasks_are_due(now)) {
        part_ = Part::none;
        return Completed::locks;
      }
      part_ = Part::tasks;
      tasks_are_urgent_ = false;
      tasks_cost_ = {};
      owners_.clear();
      task_cursor_.clear();
      return Completed::locks;
    case Reading::What::owners:
      owners_.assign(result.owners.begin(), result.owners.end());
      cursor_ = result.cursor;
      more_owners_ = !cursor_.empty();
      break;
    case Reading::What::task_page:
      task_cursor_ = result.cursor;
      if (task_cursor_.empty() && !owners_.empty()) owners_.pop_front();
      break;
  }
  if (!owners_.empty() || more_owners_) return Completed::nothing;
  part_ = Part::none;
  whole_at_ = now;
  return Completed::tasks;
}

bool ReadPace::tasks_are_due(BootTime now) const noexcept {
  if (!tasks_heard_ || tasks_are_urgent_) return true;
  // Finding all owners takes a scan of its own: at most a quarter of the budget, so that grants are found.
  const auto affordable = std::chrono::duration_cast<Duration>(tasks_cost_ * 4 / options_.share);
  return now - whole_at_ >= std::max(options_.heard_interval, affordable);
}

void ReadPace::refill(BootTime now) noexcept {
  const auto earned = std::chrono::duration_cast<Duration>((now - refilled_at_) * share(now));
  allowance_ = std::min(options_.burst, allowance_ + earned);
  refilled_at_ = now;
}

void ReadPace::charge(const Reading& reading, const ReadingResult& result) noexcept {
  if (reading.what == Reading::What::probe && result.answered) {
    probes_[probe_count_++ % probes_.size()] = result.took;
  }
  const auto way = shortest_way() * std::max(1, result.round_trips);
  // A request that was not answered in time cost the store nothing that can be known: the pause comes anyway.
  const auto cost = result.answered ? std::max(least_cost, result.took - way) : least_cost;
  allowance_ -= cost;
  if (reading.what == Reading::What::owners || reading.what == Reading::What::task_page) tasks_cost_ += cost;
}

BootClock::duration ReadPace::shortest_way() const noexcept {
  const auto count = std::min(probe_count_, probes_.size());
  if (count == 0) return {};
  return *std::min_element(probes_.begin(), probes_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace holdfast::view
