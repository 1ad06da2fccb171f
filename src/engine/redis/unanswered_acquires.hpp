#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <holdfast/lock_types.hpp>
#include <mutex>

namespace holdfast::redis {

/// The lock ids of which some acquire was never answered, though a copy of it may have been. Such a copy may
/// still be in the server's input when the id is released, and would then be granted to nobody for its whole
/// ttl; so the release of such an id leaves a tombstone. Thread-safe; costs one load while it is empty.
class UnansweredAcquires {
 public:
  void add(const LockId& id) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(ids_, id) != ids_.end()) return;
    // Ids leave when they are released, which is soon unless a lock is held. The oldest go first: a request
    // is not under way for as long as it takes for so many to break.
    if (ids_.size() == most) ids_.pop_front();
    ids_.push_back(id);
    count_ = ids_.size();
  }
  [[nodiscard]] bool contains(const LockId& id) const {
    if (count_.load() == 0) return false;
    const std::lock_guard lock(mutex_);
    return std::ranges::find(ids_, id) != ids_.end();
  }
  void remove(const LockId& id) {
    if (count_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    std::erase(ids_, id);
    count_ = ids_.size();
  }

 private:
  static constexpr std::size_t most = 4096;
  mutable std::mutex mutex_;
  std::deque<LockId> ids_;
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace holdfast::redis
