#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/storage_backend.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/queue_step_decisions.hpp"

namespace holdfast::memory {

/// The order of one queue, and its settings. Each record that has not left the queue, and each dead letter,
/// is in one set, by the place in its entry; a leased one with a limit key is in a second one. The names are
/// views of the keys of the record table.
class QueueOrder {
 public:
  bool paused = false;
  std::optional<std::size_t> max_leased;

  [[nodiscard]] std::uint64_t next_sequence() const noexcept { return last_sequence_ + 1; }

  void add(const core::QueueEntry& entry, std::string_view task) {
    last_sequence_ = std::max(last_sequence_, entry.sequence);
    switch (entry.state.place) {
      case QueuePlace::delayed:
        delayed_.emplace(entry.state.due_at, task);
        break;
      case QueuePlace::ready:
        ready_.insert(ready_key(entry, task));
        break;
      case QueuePlace::leased:
        leased_.emplace(entry.lease_deadline, task);
        if (core::has_limit_key(entry)) leased_by_key_[entry.state.terms.limit_key].insert(task);
        break;
      case QueuePlace::exhausted:
        exhausted_.emplace(entry.sequence, task);
        break;
      case QueuePlace::parked:
        parked_[entry.state.terms.limit_key].insert(ready_key(entry, task));
        ++parked_count_;
        break;
      case QueuePlace::dead:
        dead_.emplace(entry.died_at, task);
        break;
      case QueuePlace::finished:
        break;
    }
  }
  void remove(const core::QueueEntry& entry, std::string_view task) {
    switch (entry.state.place) {
      case QueuePlace::delayed:
        delayed_.erase({entry.state.due_at, task});
        break;
      case QueuePlace::ready:
        ready_.erase(ready_key(entry, task));
        break;
      case QueuePlace::leased:
        leased_.erase({entry.lease_deadline, task});
        if (core::has_limit_key(entry)) remove_of_key(leased_by_key_, entry, task);
        break;
      case QueuePlace::exhausted:
        exhausted_.erase({entry.sequence, task});
        break;
      case QueuePlace::parked:
        parked_count_ -= remove_of_key(parked_, entry, ready_key(entry, task));
        break;
      case QueuePlace::dead:
        dead_.erase({entry.died_at, task});
        break;
      case QueuePlace::finished:
        break;
    }
  }

  [[nodiscard]] std::optional<std::string_view> first_ready() const {
    return ready_.empty() ? std::nullopt : std::optional(std::get<2>(*ready_.begin()));
  }
  [[nodiscard]] std::optional<std::string_view> first_due(WallTime now) const {
    if (delayed_.empty() || !core::is_due(delayed_.begin()->first, now)) return std::nullopt;
    return delayed_.begin()->second;
  }
  [[nodiscard]] std::optional<std::string_view> first_expired(std::chrono::milliseconds now) const {
    if (leased_.empty() || !core::is_due(leased_.begin()->first, now)) return std::nullopt;
    return leased_.begin()->second;
  }
  [[nodiscard]] std::size_t count_expired(std::chrono::milliseconds now) const {
    const auto live =
        std::ranges::find_if(leased_, [now](const auto& at) { return !core::is_due(at.first, now); });
    return static_cast<std::size_t>(std::distance(leased_.begin(), live));
  }
  [[nodiscard]] std::vector<std::string> exhausted(std::size_t most) const {
    std::vector<std::string> names;
    for (auto at = exhausted_.begin(); at != exhausted_.end() && names.size() < most; ++at) {
      names.emplace_back(at->second);
    }
    return names;
  }
  [[nodiscard]] std::size_t leased_of(std::string_view limit_key) const {
    const auto at = leased_by_key_.find(limit_key);
    return at == leased_by_key_.end() ? 0 : at->second.size();
  }
  [[nodiscard]] std::optional<std::string_view> first_parked(std::string_view limit_key) const {
    const auto at = parked_.find(limit_key);
    return at == parked_.end() ? std::nullopt : std::optional(std::get<2>(*at->second.begin()));
  }
  /// By when they died, and then by name.
  [[nodiscard]] const std::set<std::pair<WallTime, std::string_view>>& dead() const noexcept { return dead_; }
  [[nodiscard]] std::optional<WallTime> next_due() const {
    return delayed_.empty() ? std::nullopt : std::optional(delayed_.begin()->first);
  }
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_deadline() const {
    return leased_.empty() ? std::nullopt : std::optional(leased_.begin()->first);
  }

  [[nodiscard]] core::QueueHead head() const {
    return {.paused = paused,
            .max_leased = max_leased,
            .ready = ready_.size(),
            .leased = leased_.size(),
            .dead = dead_.size(),
            .next_sequence = next_sequence()};
  }
  /// Whether nothing would be lost with it.
  [[nodiscard]] bool is_unused() const noexcept {
    return !paused && !max_leased && ready_.empty() && delayed_.empty() && leased_.empty() &&
           exhausted_.empty() && parked_.empty() && dead_.empty();
  }

  [[nodiscard]] QueueCounts counts() const {
    return {.ready = ready_.size(),
            .delayed = delayed_.size(),
            .leased = leased_.size(),
            .exhausted = exhausted_.size(),
            .parked = parked_count_,
            .dead = dead_.size(),
            .paused = paused,
            .max_leased = max_leased,
            .next_due = next_due()};
  }

 private:
  using ReadyKey = std::tuple<std::int32_t, std::uint64_t, std::string_view>;  // -priority, sequence, task
  static ReadyKey ready_key(const core::QueueEntry& entry, std::string_view task) {
    return {-entry.state.terms.priority, entry.sequence, task};
  }

  /// Removes it from the set of its limit key, and the set if it is the last one. Returns how many it
  /// removed.
  template <class Sets, class Element>
  static std::size_t remove_of_key(Sets& sets, const core::QueueEntry& entry, const Element& element) {
    const auto at = sets.find(entry.state.terms.limit_key);
    if (at == sets.end()) return 0;
    const auto removed = at->second.erase(element);
    if (at->second.empty()) sets.erase(at);
    return removed;
  }

  std::set<ReadyKey> ready_;
  std::set<std::pair<WallTime, std::string_view>> delayed_;
  std::set<std::pair<std::chrono::milliseconds, std::string_view>> leased_;
  std::set<std::pair<std::uint64_t, std::string_view>> exhausted_;
  // By limit key; no set is empty.
  std::map<std::string, std::set<std::string_view>, std::less<>> leased_by_key_;
  std::map<std::string, std::set<ReadyKey>, std::less<>> parked_;
  std::size_t parked_count_ = 0;
  std::set<std::pair<WallTime, std::string_view>> dead_;
  std::uint64_t last_sequence_ = 0;
};

}  // namespace holdfast::memory
