#pragma once

#include <atomic>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/lock_types.hpp>
#include <mutex>
#include <unordered_map>

#include "core/lock_id_hash.hpp"
#include "engine/redis/lock_layout.hpp"

namespace holdfast::redis {

/// The lock ids with an acquire of which some copy was never answered. Such a copy may still be in the
/// server's input when the id is released, and would then be granted without a holder for its whole ttl. So
/// the release of such an id leaves a tombstone. Thread-safe; costs one load while it is empty.
///
/// When is an id forgotten? A stopped server may keep the copy in its input for any time; a server that
/// answers reads its input. So once the server has answered anything `request_may_be_late` after the copy was
/// given up, the copy was carried out or is lost.
class UnansweredAcquires {
 public:
  static constexpr std::size_t most = 65536;

  void add(const LockId& id, BootTime now) {
    const std::lock_guard lock(mutex_);
    // If there are too many, the oldest is dropped: it is the least likely to arrive.
    if (by_age_.size() == most) forget_oldest();
    by_age_.push_back({id, now});
    last_[id] = now;
    count_ = by_age_.size();
  }
  /// Called after any answer of the server.
  void answered() {
    if (count_.load() == 0) return;
    answered(BootClock::now());
  }
  void answered(BootTime now) {
    const std::lock_guard lock(mutex_);
    while (!by_age_.empty() && by_age_.front().at + request_may_be_late <= now) forget_oldest();
    count_ = by_age_.size();
  }
  [[nodiscard]] bool contains(const LockId& id) const {
    if (count_.load() == 0) return false;
    const std::lock_guard lock(mutex_);
    return last_.contains(id);
  }

 private:
  struct Entry {
    LockId id;
    BootTime at;
  };

  void forget_oldest() {
    const auto& [id, at] = by_age_.front();
    // A later copy of the same id has its own entry.
    if (const auto entry = last_.find(id); entry != last_.end() && entry->second == at) last_.erase(entry);
    by_age_.pop_front();
  }

  mutable std::mutex mutex_;
  std::deque<Entry> by_age_;
  std::unordered_map<LockId, BootTime, core::LockIdHash> last_;
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace holdfast::redis
