#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace holdfast::redis {

/// The highest fence that this client was granted, for each of the keys that it acquired last. An acquire
/// carries it as a floor: a server that lost its newest writes cannot repeat that fence to this client.
/// Fences belong to their authority, so a grant of another authority makes it forget the others. Thread-safe.
class RememberedFences {
 public:
  static constexpr std::size_t usual_most = 10'000;

  explicit RememberedFences(std::size_t most = usual_most) : most_(most) {}

  /// 0: none.
  [[nodiscard]] std::uint64_t of(std::string_view key) const {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    return found == places_.end() ? 0 : found->second->fence;
  }

  enum class Store : std::uint8_t {
    same,     ///< the authority of the grants before, or the first
    replaced  ///< another one: the store lost its data
  };
  Store granted(std::string_view key, std::uint64_t fence, std::string_view authority) {
    const std::lock_guard lock(mutex_);
    const auto store = authority_.empty() || authority_ == authority ? Store::same : Store::replaced;
    if (authority_ != authority) {
      places_.clear();
      by_age_.clear();
      authority_ = authority;
    }
    if (const auto found = places_.find(key); found != places_.end()) {
      // Grants may be reported out of order: their answers arrive on several threads.
      found->second->fence = std::max(found->second->fence, fence);
      by_age_.splice(by_age_.end(), by_age_, found->second);
      return store;
    }
    if (by_age_.size() == most_) {
      places_.erase(by_age_.front().key);
      by_age_.pop_front();
    }
    by_age_.push_back({std::string(key), fence});
    places_.emplace(by_age_.back().key, std::prev(by_age_.end()));
    return store;
  }

 private:
  struct Entry {
    std::string key;
    std::uint64_t fence;
  };

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::list<Entry> by_age_;  ///< the key that was granted last is at the end
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;  ///< the keys are the list's
  std::string authority_;
};

}  // namespace holdfast::redis
