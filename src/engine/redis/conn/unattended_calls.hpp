#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/redis/conn/call.hpp"

namespace holdfast::redis {

/// The calls that no thread waits for, and which thread leads for them if no other thread leads or follows: a
/// guest, if all of them are guests' calls, else the background thread. A thread that was chosen is on its
/// way until it arrives, and no other is chosen meanwhile. See docs/internals/redis.md, "The guest".
class UnattendedCalls {
 public:
  enum class Leader : std::uint8_t {
    none,        ///< none is needed, or one is on its way
    guest,       ///< the guest that stands by: wake it
    background,  ///< start the background thread
  };

  void queued(const Call& call) noexcept {
    all_ += call.awaited ? 0 : 1;
    of_guests_ += call.by_idle_io ? 1 : 0;
  }
  /// The completion of a call with these properties has run.
  void completed(bool awaited, bool by_idle_io) noexcept {
    all_ -= awaited ? 0 : 1;
    of_guests_ -= by_idle_io ? 1 : 0;
  }
  [[nodiscard]] bool any() const noexcept { return all_ != 0; }
  [[nodiscard]] bool any_of_guests() const noexcept { return of_guests_ != 0; }
  /// Calls that a guest must not complete.
  [[nodiscard]] bool any_of_others() const noexcept { return all_ != of_guests_; }

  /// A guest is on its way: it has sent a call, or it was called away and will be back.
  void guest_comes() noexcept { guest_ = Guest::on_its_way; }
  /// A guest has arrived and found another leader. It comes when it is woken.
  void guest_stands_by() noexcept { guest_ = Guest::stands_by; }
  /// A guest has arrived, or does not come back.
  void guest_is_not_coming() noexcept { guest_ = Guest::away; }
  void background_arrived() noexcept { background_comes_ = false; }

  /// Requires that no thread leads or follows.
  [[nodiscard]] Leader appoint() noexcept {
    if (!any() || background_comes_) return Leader::none;
    if (!any_of_others() && guest_ == Guest::on_its_way) return Leader::none;
    if (!any_of_others() && guest_ == Guest::stands_by) {
      guest_ = Guest::on_its_way;
      return Leader::guest;
    }
    background_comes_ = true;
    return Leader::background;
  }

 private:
  enum class Guest : std::uint8_t { away, on_its_way, stands_by };
  std::size_t all_ = 0;
  std::size_t of_guests_ = 0;
  Guest guest_ = Guest::away;
  bool background_comes_ = false;
};

}  // namespace holdfast::redis
