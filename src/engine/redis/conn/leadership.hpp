#pragma once

#include <algorithm>
#include <thread>
#include <vector>

namespace holdfast::redis {

/// Which thread does the I/O of a connection: one at a time, the leader. A thread that waits for something
/// from the connection leads when no other thread does, so that what it waits for costs no switch of threads.
/// Otherwise it follows: it sleeps until it has what it waits for, or is nudged to lead.
///
/// Every thread that stops leading or waiting calls `appoint`. So a follower that was nudged, but needs
/// nothing more, passes the turn on. If there is no follower, the owner has to find a thread.
///
/// All functions require the owner's mutex, which turns and sleeps may unlock.
template <class Follower, auto nudge>
class Leadership {
 public:
  [[nodiscard]] bool led() const noexcept { return leader_ != std::thread::id(); }
  [[nodiscard]] bool led_by_this_thread() const noexcept { return leader_ == std::this_thread::get_id(); }
  [[nodiscard]] bool has_followers() const noexcept { return !followers_.empty(); }

  /// One turn as the leader. Requires that no other thread leads; inside a turn of this thread, it is part of
  /// that turn. noexcept: a leader that unwound, after a failed allocation for example, would leave behind
  /// what points to its stack.
  template <class Turn>
  void lead(Turn&& turn) noexcept {
    const bool is_inner = led();
    leader_ = std::this_thread::get_id();
    turn();
    if (!is_inner) leader_ = {};
  }

  /// For a thread that waits: leads for one turn; or sleeps, if another thread leads.
  template <class Turn, class Sleep>
  void step(Follower& follower, Turn&& turn, Sleep&& sleep) noexcept {
    if (!led() || led_by_this_thread()) return lead(turn);
    followers_.push_back(&follower);
    sleep();
    followers_.erase(std::ranges::find(followers_, &follower));
  }

  /// Returns false if there is neither a leader nor a follower that could become one.
  bool appoint() noexcept {
    if (led()) return true;
    if (followers_.empty()) return false;
    (followers_.front()->*nudge)();
    return true;
  }

 private:
  std::thread::id leader_;
  std::vector<Follower*> followers_;  ///< in the order they came
};

}  // namespace holdfast::redis
