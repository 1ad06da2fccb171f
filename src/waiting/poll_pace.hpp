#pragma once

#include <algorithm>
#include <chrono>
#include <holdfast/clock.hpp>
#include <optional>

namespace holdfast::waiting {

/// When many waiters may poll together, so that their polls take at most a fifth of the time that a
/// connection has. Otherwise, where a poll of all takes longer than their interval, polls would fill the
/// connection without end, and a change that ends a wait would queue behind them.
///
/// Polls are made in rounds. A round ends when all its polls are answered. The next one begins after four
/// times as long as this one took, or when a poll is due, whichever is later.
class PollPace {
 public:
  /// A poll begins: of this round, or of a new one.
  void begin(BootTime now) noexcept {
    if (!began_) began_ = now;
  }
  /// No poll may begin before this. `pending`: polls are unanswered.
  [[nodiscard]] BootTime next(BootTime now, bool pending) noexcept {
    if (!began_) return next_;
    // As long as the round is not over, this is the least that will be added to it.
    next_ = now + pause_factor * (now - *began_);
    if (!pending) {
      began_.reset();
    } else {
      next_ = std::max<BootTime>(next_, now + shortest_pause);
    }
    return next_;
  }

 private:
  static constexpr int pause_factor = 4;
  /// Before it is checked again whether a round is over.
  static constexpr BootClock::duration shortest_pause = std::chrono::milliseconds(1);
  std::optional<BootTime> began_;  ///< the round
  BootTime next_{};
};

}  // namespace holdfast::waiting
