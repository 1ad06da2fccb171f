#pragma once

#include <cstddef>
#include <holdfast/change_feed.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace holdfast::waiting {

/// The changes that a feed has not delivered yet, in bounded memory: those of one key once, and one
/// `anything` in place of all if they are too many.
class ChangeQueue {
 public:
  explicit ChangeQueue(std::size_t most = ChangeFeed::most_pending) noexcept : most_(most) {}

  void add(Change change) {
    if (change.kind == Change::Kind::anything || changes_.size() >= most_) {
      changes_.clear();
      keys_.clear();
      change = {};
      covers_all_ = true;
    } else if (is_hint(change.kind)) {
      // `anything` covers it; an event, such as a refused write, is shown for its own sake.
      if (covers_all_ || !keys_.insert(change.key).second) return;
    }
    changes_.push_back(std::move(change));
  }
  [[nodiscard]] bool empty() const noexcept { return changes_.empty(); }
  [[nodiscard]] std::vector<Change> take() {
    keys_.clear();
    covers_all_ = false;
    return std::exchange(changes_, {});
  }

 private:
  /// To read the key. One feed has only one kind of these.
  static bool is_hint(Change::Kind kind) noexcept {
    return kind == Change::Kind::changed || kind == Change::Kind::acquired || kind == Change::Kind::written;
  }

  const std::size_t most_;
  std::vector<Change> changes_;
  std::unordered_set<std::string> keys_;  ///< of the entries that are hints
  bool covers_all_ = false;               ///< there is an `anything`
};

}  // namespace holdfast::waiting
