#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/redis/wire/command.hpp"

namespace holdfast::redis {

/// The highest fence that this client was granted, for each of the keys that it acquired last. An acquire
/// carries it as a floor: a server that lost its newest writes cannot repeat that fence to this client.
/// Thread-safe.
///
/// Fences of two authorities are not compared. An authority may be the store's or, in some layouts, a key's:
/// so each fence is remembered with its own.
class RememberedFences {
 public:
  static constexpr std::size_t usual_most = 10'000;

  explicit RememberedFences(std::size_t most = usual_most) : most_(most) {}

  [[nodiscard]] RememberedFence of(std::string_view key) const {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return {};
    auto remembered = found->second->highest;
    remembered.key_exists = true;
    return remembered;
  }

  enum class Authority : std::uint8_t {
    same,          ///< that of the key's last grant, or its first one
    replaced,      ///< another one: the store lost its data
    also_replaced  ///< the same, and another key has shown it already
  };
  Authority granted(std::string_view key, const RememberedFence& grant, std::string_view authority) {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      by_age_.splice(by_age_.end(), by_age_, found->second);
      auto& entry = *found->second;
      if (entry.authority == authority) {
        // Grants may be reported out of order: their answers arrive on several threads.
        if (grant.fence > entry.highest.fence) entry.highest = grant;
        return Authority::same;
      }
      entry.highest = grant;
      entry.authority = authority;
      if (last_replacement_ == authority) return Authority::also_replaced;
      last_replacement_ = authority;
      return Authority::replaced;
    }
    if (by_age_.size() == most_) {
      places_.erase(by_age_.front().key);
      by_age_.pop_front();
    }
    by_age_.push_back({std::string(key), grant, std::string(authority)});
    places_.emplace(by_age_.back().key, std::prev(by_age_.end()));
    return Authority::same;
  }

 private:
  struct Entry {
    std::string key;
    RememberedFence highest;
    std::string authority;
  };

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::list<Entry> by_age_;  ///< the key that was granted last is at the end
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;  ///< the keys are the list's
  std::string last_replacement_;
};

}  // namespace holdfast::redis
