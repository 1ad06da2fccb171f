#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_types.hpp>
#include <optional>

namespace holdfast::locks {

/// Those guards of an engine that are renewed at the same moment. Thousands, acquired or kept waiting
/// together, would come to the server together ever after; so all but the first ones are renewed sooner the
/// next time.
class RenewalCrowd {
 public:
  /// By how many steps of its grid the guard that is renewed next, at `now`, comes sooner the next time.
  [[nodiscard]] int next(BootTime now) noexcept;

 private:
  BootTime at_;
  int renewed_ = 0;
};

/// One guard's lease: until when it is proven, when to renew it, when it is lost. Pure: no clock, no
/// threads, no I/O. Extends, whoever asks for them, never overlap; the caller sees to that.
class RenewLoop {
 public:
  /// `sent` is from before the first send of the id's acquire. `hold_until`: lost then at the latest.
  RenewLoop(Ttl ttl, BootTime sent, bool auto_renew, BootTime hold_until) noexcept;

  /// The moment the holder must have stopped. While an extend is unanswered it is the lesser of the old
  /// proof and of what that extend would give, because either may be what the engine counts.
  [[nodiscard]] BootTime proven_until() const noexcept;
  /// What was granted last, and what renewals ask for.
  [[nodiscard]] Ttl ttl() const noexcept { return ttl_; }
  /// How much of it an answer proves. An extend that was never answered may still be carried out, at any
  /// time t, and then the lease ends at t plus *its* ttl, whatever was answered before. Everything answered
  /// before was sent before t. So from the send of an answered extend on, the shortest ttl that was ever
  /// left unanswered is certain, and no more.
  [[nodiscard]] Ttl provable_ttl() const noexcept;
  /// tick said `extend`, and nothing was sent since.
  [[nodiscard]] bool renewal_due() const noexcept { return renewal_due_; }
  [[nodiscard]] std::optional<LossReason> lost() const noexcept { return lost_; }
  /// Until when the engine keeps the lock as far as is known, however long it may be held.
  [[nodiscard]] BootTime lease_end() const noexcept { return proof_end_; }
  /// The send of the last acquire or extend that was answered.
  [[nodiscard]] BootTime confirmed_at() const noexcept { return confirmed_at_; }

  enum class Step : std::uint8_t { none, extend, look_up, lose };
  /// What is due. After `extend` the caller sends one and reports it; after `look_up` it looks whether this
  /// id still holds the lock and reports that; after `lose` the guard is lost.
  [[nodiscard]] Step tick(BootTime now) noexcept;
  /// When to call tick next.
  [[nodiscard]] BootTime next_tick() const noexcept;

  /// The store may have lost its data: whether this lock was among it is found out at once, by a renewal, or
  /// by a look-up for a guard that is not to be renewed. After a renewal that is under way.
  void check_at_once() noexcept {
    check_wanted_ = true;
    check_at_ = {};
  }
  /// Each answers the last `look_up`.
  void look_up_found_it() noexcept { looking_up_ = false; }
  void look_up_failed(BootTime now) noexcept;
  /// Returns true if the guard is lost by this.
  bool look_up_found_nothing() noexcept;

  /// The renewal after the one that is due now comes by so many steps of the grid sooner.
  void renew_sooner(int steps) noexcept { steps_sooner_ = steps; }

  void extend_sent(BootTime now, Ttl ttl) noexcept;
  /// Each answers the last extend_sent.
  void extend_granted() noexcept;
  /// A copy of a request for this ttl may still be carried out: as if it had gone unanswered.
  void may_be_repeated(Ttl ttl) noexcept;
  void extend_unanswered(BootTime now) noexcept;
  /// It was not and will never be carried out: all is as before it. A renewal is tried again after a pause.
  void extend_not_begun(BootTime now) noexcept;
  /// The engine says that this id holds nothing any more. Returns true if the guard is lost by this.
  bool extend_found_nothing() noexcept;

 private:
  struct Extend {
    BootTime sent;
    Ttl ttl;
    BootTime proof_before;
  };

  [[nodiscard]] BootTime lose_at() const noexcept;
  [[nodiscard]] bool renews() const noexcept { return auto_renew_ && proof_end_ < hold_until_; }
  /// When the next renewal or look-up is due; `never` while one is under way.
  [[nodiscard]] BootTime due_at() const noexcept;
  bool found_nothing() noexcept;

  Ttl ttl_;
  BootTime proof_end_;
  BootTime hold_until_;
  BootTime renew_at_;
  bool auto_renew_;
  bool renewal_due_ = false;
  bool looking_up_ = false;
  bool check_wanted_ = false;  ///< check_at_once, and nothing was sent since
  BootTime check_at_;
  BootTime confirmed_at_;
  int steps_sooner_ = 0;
  std::optional<Extend> under_way_;
  std::optional<Ttl> shortest_unanswered_;
  std::optional<LossReason> lost_;
};

}  // namespace holdfast::locks
