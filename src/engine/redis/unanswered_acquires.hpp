#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/lock_types.hpp>
#include <map>
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
/// given up, the copy was carried out or is lost. In a cluster that must be the server that has the copy:
/// others say nothing about its input.
class UnansweredAcquires {
 public:
  static constexpr std::size_t most = 65536;

  /// `server`: that the copy was sent to, see server_of_connection.
  void add(const LockId& id, std::uint64_t server, BootTime now) {
    const std::lock_guard lock(mutex_);
    // If there are too many, the oldest is dropped: it is the least likely to arrive.
    if (count_.load() == most) {
      auto oldest = by_age_.begin();
      for (auto at = oldest; at != by_age_.end(); ++at) {
        if (at->second.front().at < oldest->second.front().at) oldest = at;
      }
      forget_oldest(oldest->second);
      if (oldest->second.empty()) by_age_.erase(oldest);
    }
    by_age_[server].push_back({id, now});
    ++copies_[id];
    ++count_;
  }
  /// Called after any answer of the server.
  void answered(std::uint64_t server) {
    if (count_.load() == 0) return;
    answered(server, BootClock::now());
  }
  void answered(std::uint64_t server, BootTime now) {
    const std::lock_guard lock(mutex_);
    const auto at = by_age_.find(server);
    if (at == by_age_.end()) return;
    while (!at->second.empty() && at->second.front().at + request_may_be_late <= now)
      forget_oldest(at->second);
    if (at->second.empty()) by_age_.erase(at);
  }
  [[nodiscard]] bool contains(const LockId& id) const {
    if (count_.load() == 0) return false;
    const std::lock_guard lock(mutex_);
    return copies_.contains(id);
  }

 private:
  struct Entry {
    LockId id;
    BootTime at;
  };

  void forget_oldest(std::deque<Entry>& entries) {
    // A later copy of the same id has its own entry.
    if (const auto id = copies_.find(entries.front().id); --id->second == 0) copies_.erase(id);
    entries.pop_front();
    --count_;
  }

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::deque<Entry>> by_age_;  ///< by server; none is empty
  std::unordered_map<LockId, std::size_t, core::LockIdHash> copies_;
  std::atomic<std::size_t> count_ = 0;  ///< of all entries
};

}  // namespace holdfast::redis
