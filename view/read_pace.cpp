#include "view/read_pace.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace holdfast::view {
namespace {

using namespace std::chrono_literals;
using Duration = BootClock::duration;

constexpr Duration probe_interval = 5s;
constexpr Duration shortest_pause = 250ms;
constexpr Duration longest_pause = 5s;
/// What a request costs a store at least, however fast it is answered.
constexpr Duration least_cost = 10us;
/// What a page costs a store at most.
constexpr Duration most_cost = 20ms;
/// After this long without viewers, what is known is of no use.
constexpr Duration forgotten_after = 1min;
/// What is kept of the share for hints of locks.
constexpr double kept_for_hints = 0.25;
/// What a request for single locks costs a store at most, and each lock of it.
constexpr Duration most_hint_cost = 100us;
constexpr Duration most_hint_cost_per_lock = 20us;
/// A time in the future is rounded down: so much may be missing then.
constexpr Duration rounding = 1us;
/// Even urgent rounds leave this much time between their begins.
constexpr Duration urgent_interval = 100ms;

}  // namespace

bool KeyWindow::contains(std::string_view key) const noexcept {
  const auto hash = static_cast<std::uint32_t>(std::hash<std::string_view>()(key));
  return static_cast<std::uint32_t>(hash - from) < size;
}

ReadPace::ReadPace(const Options& options, BootTime now)
    : options_(options),
      refilled_at_(now),
      allowance_(options.burst),
      hint_allowance_(options.hint_burst),
      probe_at_(now),
      next_hint_at_(now - 1s),
      round_at_(now),
      retry_at_(now) {}

void ReadPace::set_viewers(std::size_t count, BootTime now) {
  if (viewers_ == 0 && count > 0) {
    // What was read before is old: begin again. The budget is that of a pause.
    part_ = Part::none;
    lock_hints_.clear();
    task_hints_.clear();
    round_at_ = now;
    tasks_are_urgent_ = locks_are_urgent_ = true;
    is_first_round_ = is_first_round_ || now - whole_at_ > forgotten_after;
  }
  viewers_ = count;
}

void ReadPace::hint_lock(std::string_view key) {
  if (viewers_ == 0) return;
  if (lock_hints_.full()) return hint_anything();
  lock_hints_.add(std::string(key));
}

void ReadPace::hint_grant(std::string_view key) {
  if (viewers_ == 0) return;
  if (lock_hints_.full()) return hint_grants();
  lock_hints_.add(std::string(key));
}

void ReadPace::hint_task(std::string_view owner, std::string_view id) {
  if (viewers_ == 0) return;
  if (task_hints_.full()) return hint_anything();
  task_hints_.add({std::string(owner), std::string(id)});
}

void ReadPace::know_queue(std::string_view name) {
  if (viewers_ > 0 && known_queues_.size() < options_.max_queues) known_queues_.emplace(name);
}

double ReadPace::share() const noexcept {
  return is_first_round_ ? std::max(options_.first_share, options_.share) : options_.share;
}

BootTime ReadPace::affordable_at(BootTime now, Duration allowance, double share_of_store) const noexcept {
  if (share() >= 1) return now;
  const auto earned = (now - refilled_at_) * share_of_store;
  const auto missing = -std::chrono::duration_cast<Duration>(allowance + earned);
  if (missing <= rounding) return now;
  return now + std::chrono::duration_cast<Duration>(missing / share_of_store);
}

BootTime ReadPace::rounds_affordable_at(BootTime now) const noexcept {
  const bool all = hint_allowance_ >= options_.hint_burst;
  return affordable_at(now, allowance_, share() * (all ? 1 : 1 - kept_for_hints));
}

BootTime ReadPace::hints_affordable_at(BootTime now) const noexcept {
  return affordable_at(now, hint_allowance_, share() * kept_for_hints);
}

BootTime ReadPace::next_at(BootTime now) const noexcept {
  if (viewers_ == 0) return never;
  auto wanted = round_at_;
  if (part_ != Part::none) wanted = now;
  if (round_is_urgent_) wanted = std::min(wanted, round_at_ - options_.interval + urgent_interval);
  if (!task_hints_.empty()) wanted = std::min(wanted, next_hint_at_);
  wanted = std::max(wanted, rounds_affordable_at(now));
  if (!lock_hints_.empty()) wanted = std::min(wanted, std::max(next_hint_at_, hints_affordable_at(now)));
  return std::max(wanted, retry_at_);
}

Reading ReadPace::next(BootTime now) {
  refill(now);
  if (now >= probe_at_) {
    probe_at_ = now + probe_interval;
    return {.what = Reading::What::probe};
  }
  const bool reads_locks = !lock_hints_.empty() && hints_affordable_at(now) <= now;
  const bool reads_task = !task_hints_.empty() && rounds_affordable_at(now) <= now;
  if (now >= next_hint_at_ && (reads_locks || reads_task)) {
    // A second's worth may be read at once after a pause.
    next_hint_at_ = std::max(next_hint_at_, now - 1s) + Duration(1s) / options_.hints_per_second;
    if (reads_locks) {
      Reading reading{.what = Reading::What::locks};
      while (!lock_hints_.empty() && reading.keys.size() < hints_at_once) {
        reading.keys.push_back(lock_hints_.take());
      }
      return reading;
    }
    auto [owner, id] = task_hints_.take();
    return {.what = Reading::What::task, .owner = std::move(owner), .key = std::move(id)};
  }
  if (part_ == Part::none) {
    part_ = Part::locks;
    cursor_.clear();
    round_at_ = now + options_.interval;
    round_is_urgent_ = false;
    begin_locks(now);
    return {.what = Reading::What::lock_page, .begins_round = true, .all_locks = all_locks_, .due = due_};
  }
  if (part_ == Part::locks) {
    return {.what = Reading::What::lock_page, .cursor = cursor_, .all_locks = all_locks_, .due = due_};
  }
  if (part_ == Part::queues) {
    if (finds_queues_) return {.what = Reading::What::queues, .cursor = cursor_};
    return {.what = Reading::What::queue, .key = queues_.front()};
  }
  if (owners_.empty()) return {.what = Reading::What::owners, .cursor = cursor_};
  return {.what = Reading::What::task_page, .owner = owners_.front(), .cursor = task_cursor_};
}

void ReadPace::begin_locks(BootTime now) noexcept {
  const auto half = std::chrono::duration_cast<Duration>(all_locks_cost_ * 2 / options_.share);
  const auto cycle = std::max(options_.heard_interval, half);
  const auto since = now - std::exchange(locks_at_, now);
  all_locks_ = !locks_heard_ || locks_are_urgent_ || since >= cycle;
  locks_are_urgent_ = false;
  // As much of all keys as of the cycle has passed, so each key has its turn once in a cycle.
  due_.from += static_cast<std::uint32_t>(due_.size);
  due_.size = static_cast<std::uint64_t>(static_cast<double>(since.count()) /
                                         static_cast<double>(cycle.count()) * 0x1p32) +
              1;
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
    case Reading::What::locks:
    case Reading::What::task:
      return Completed::nothing;
    case Reading::What::lock_page:
      cursor_ = result.cursor;
      if (!cursor_.empty()) return Completed::nothing;
      (all_locks_ ? all_locks_cost_ : scan_cost_) = locks_cost_;
      if (!tasks_are_due(now)) {
        part_ = Part::none;
        if (queues_are_due(now)) begin_queues(false);
        return Completed::locks;
      }
      part_ = Part::tasks;
      queues_are_lost_ = queues_are_lost_ || !tasks_heard_ || tasks_are_urgent_;
      tasks_are_urgent_ = false;
      tasks_cost_ = {};
      owners_.clear();
      task_cursor_.clear();
      return Completed::locks;
    case Reading::What::queues:
    case Reading::What::queue:
      return advance_queues(reading, result, now);
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
  whole_at_ = now;
  part_ = Part::none;
  const bool find = queues_are_lost_ || now - queues_found_at_ >= options_.find_queues_interval;
  if (find || queues_are_due(now)) begin_queues(find);
  return Completed::tasks;
}

void ReadPace::begin_queues(bool find) {
  part_ = Part::queues;
  finds_queues_ = is_after_tasks_ = find;
  queues_cost_ = {};
  cursor_.clear();
  found_queues_.clear();
  queues_.assign(known_queues_.begin(), known_queues_.end());
}

Completed ReadPace::advance_queues(const Reading& reading, const ReadingResult& result, BootTime now) {
  if (reading.what == Reading::What::queues) {
    for (const auto& name : result.owners) {
      if (found_queues_.size() < options_.max_queues) found_queues_.insert(name);
    }
    cursor_ = result.cursor;
    if (!cursor_.empty()) return Completed::nothing;
    finds_queues_ = queues_are_lost_ = false;
    queues_found_at_ = now;
    known_queues_ = {found_queues_.begin(), found_queues_.end()};
    queues_.assign(known_queues_.begin(), known_queues_.end());
  } else if (!queues_.empty()) {
    queues_.pop_front();
  }
  if (!queues_.empty()) return Completed::nothing;
  part_ = Part::none;
  queues_at_ = now;
  is_first_round_ = false;
  return Completed::queues;
}

bool ReadPace::queues_are_due(BootTime now) const noexcept {
  if (known_queues_.empty()) return false;
  const auto affordable = std::chrono::duration_cast<Duration>(queues_cost_ * 4 / options_.share);
  return now - queues_at_ >= std::max(options_.queue_interval, affordable);
}

bool ReadPace::tasks_are_due(BootTime now) const noexcept {
  if (!tasks_heard_ || tasks_are_urgent_) return true;
  // Finding all owners takes a scan of its own: at most a quarter of the budget, so that grants are found.
  const auto affordable = std::chrono::duration_cast<Duration>(tasks_cost_ * 4 / options_.share);
  return now - whole_at_ >= std::max(options_.heard_interval, affordable);
}

void ReadPace::refill(BootTime now) noexcept {
  const auto earned = std::chrono::duration_cast<Duration>((now - refilled_at_) * share());
  // What hints do not need is for the rounds.
  const auto kept = std::min(std::chrono::duration_cast<Duration>(earned * kept_for_hints),
                             options_.hint_burst - hint_allowance_);
  hint_allowance_ += kept;
  allowance_ = std::min(options_.burst, allowance_ + earned - kept);
  refilled_at_ = now;
}

void ReadPace::charge(const Reading& reading, const ReadingResult& result) noexcept {
  if (reading.what == Reading::What::probe && result.answered) {
    probes_[probe_count_++ % probes_.size()] = result.took;
  }
  const auto way = shortest_way() * std::max(1, result.round_trips);
  // A request that was not answered in time cost the store nothing that can be known: the pause comes anyway.
  // A page is a bounded amount of work: what takes longer is waiting, for a connection for example. Finding
  // all owners or queues is a scan of all keys, as finding all locks was.
  const bool finds = reading.what == Reading::What::owners || reading.what == Reading::What::queues;
  const auto most =
      finds ? std::max(most_cost, 2 * (scan_cost_ > 0ns ? scan_cost_ : locks_cost_)) : most_cost;
  auto cost = result.answered ? std::clamp(result.took - way, least_cost, most) : least_cost;
  if (reading.what == Reading::What::lock_page && result.answered) cost = cost_of_page(cost);
  if (reading.what == Reading::What::locks) {
    hint_allowance_ -=
        std::min<Duration>(cost, most_hint_cost + reading.keys.size() * most_hint_cost_per_lock);
    return;
  }
  allowance_ -= cost;
  if (reading.begins_round) locks_cost_ = {};
  if (reading.what == Reading::What::lock_page) locks_cost_ += cost;
  if (finds || reading.what == Reading::What::task_page) tasks_cost_ += cost;
  if (reading.what != Reading::What::queue) return;
  queues_cost_ += cost;
  if (is_after_tasks_) tasks_cost_ += cost;
}

Duration ReadPace::cost_of_page(Duration took) noexcept {
  auto& pages = pages_[all_locks_ ? 1 : 0];
  pages.took[pages.count++ % pages.took.size()] = took;
  auto sorted = pages.took;
  const auto count = static_cast<std::ptrdiff_t>(std::min(pages.count, sorted.size()));
  std::sort(sorted.begin(), sorted.begin() + count);
  return std::min(took, sorted[static_cast<std::size_t>(count / 4)]);
}

BootClock::duration ReadPace::shortest_way() const noexcept {
  const auto count = std::min(probe_count_, probes_.size());
  if (count == 0) return {};
  return *std::min_element(probes_.begin(), probes_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace holdfast::view
