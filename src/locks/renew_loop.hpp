#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_types.hpp>
#include <optional>

#include "locks/notice.hpp"

namespace holdfast::locks {

/// Spreads the guards of an engine that are renewed at the same moment. Thousands that were acquired or
/// delayed together would otherwise load the server together at every renewal. So all but the first ones are
/// renewed sooner the next time.
class RenewalCrowd {
 public:
  /// For the next guard renewed at `now`: by how many grid steps its following renewal comes sooner.
  [[nodiscard]] int next(BootTime now) noexcept;

 private:
  BootTime at_;
  int renewed_ = 0;
};

/// One guard's lease: until when it is proven, when to renew it, whether it is at risk, when it is lost.
/// Pure: no clock, no threads, no I/O. The caller ensures that extends never overlap, the holder's and the
/// renewals alike.
///
/// A lease that is lost because it was not renewed, or was held for too long, is *ending*: it stays proven
/// for its notice, during which the holder stops. What is answered then changes nothing for the holder,
/// because it has been notified already.
class RenewLoop {
 public:
  /// `sent` was read before the first send of the id's acquire. `max_hold`: the proof ends after that time at
  /// the latest; zero: no limit.
  RenewLoop(Ttl ttl, BootTime sent, bool auto_renew, std::chrono::milliseconds max_hold,
            const Notice& notice) noexcept;

  /// The moment by which the holder must have stopped. While an extend is unanswered it is the earlier of the
  /// old proof and that extend's, because either may be the one in the engine. Never later once the lease is
  /// lost; in the past if the engine reported that this id holds nothing.
  [[nodiscard]] BootTime proven_until() const noexcept;
  /// When the lease is lost unless it is renewed: the notice before the end of the proof.
  [[nodiscard]] BootTime lose_at() const noexcept;
  /// The last granted ttl, which renewals request again.
  [[nodiscard]] Ttl ttl() const noexcept { return ttl_; }
  /// How much of the ttl an answer proves. An extend that was never answered may still be carried out, at any
  /// time t. The lease then expires at t plus *its* ttl, whatever was answered before. Everything answered
  /// before was sent before t. So, counted from the send of an answered extend, only the shortest ttl that
  /// was ever left unanswered is certain.
  [[nodiscard]] Ttl provable_ttl() const noexcept;
  /// tick returned `extend`, and no extend was sent since.
  [[nodiscard]] bool renewal_due() const noexcept { return renewal_due_; }
  [[nodiscard]] std::optional<LossReason> lost() const noexcept { return lost_; }
  /// The last extend failed, or has had no answer for a sixth of the ttl.
  [[nodiscard]] bool at_risk() const noexcept { return at_risk_; }
  /// When the lease expires in the engine, as far as known, regardless of the longest hold.
  [[nodiscard]] BootTime lease_end() const noexcept { return proof_end_; }
  /// The send of the last acquire or extend that was answered.
  [[nodiscard]] BootTime confirmed_at() const noexcept { return confirmed_at_; }

  enum class Step : std::uint8_t { none, extend, look_up, lose };
  /// The step that is due. For `extend` the caller sends one and reports it. For `look_up` it checks whether
  /// this id still holds the lock and reports that. After `lose` the guard is lost.
  [[nodiscard]] Step tick(BootTime now) noexcept;
  /// When to call tick next.
  [[nodiscard]] BootTime next_tick() const noexcept;

  /// The store may have lost its data. Checks this lock at once: by a renewal, or by a look-up for a guard
  /// without renewal. A pending renewal is answered first.
  void check_at_once() noexcept {
    check_wanted_ = true;
    check_at_ = {};
  }
  /// Each answers the last `look_up`.
  void look_up_found_it() noexcept { looking_up_ = false; }
  void look_up_failed(BootTime now) noexcept;
  /// Returns true if that loses the guard.
  bool look_up_found_nothing() noexcept;

  /// The renewal after the one that is due now comes this many grid steps sooner.
  void renew_sooner(int steps) noexcept { steps_sooner_ = steps; }

  void extend_sent(BootTime now, Ttl ttl) noexcept;
  /// Each answers the last extend_sent.
  void extend_granted() noexcept;
  /// A copy of a request for this ttl may still be carried out: counts as unanswered.
  void may_be_repeated(Ttl ttl) noexcept;
  void extend_unanswered(BootTime now) noexcept;
  /// The extend was not and never will be carried out: the state before it is restored. A renewal is retried
  /// after a pause. `failed`: no stop request of the caller was the reason.
  void extend_not_begun(BootTime now, bool failed) noexcept;
  /// The engine answered that this id no longer holds the lock: the proof ends. Returns true if that loses
  /// the guard.
  bool extend_found_nothing() noexcept;

 private:
  struct Extend {
    BootTime sent;
    Ttl ttl;
    BootTime proof_before;
  };

  /// The ttl that may count: the provable one, or that of the extend under way if it is shorter.
  [[nodiscard]] Ttl counted_ttl() const noexcept;
  [[nodiscard]] bool renews() const noexcept { return auto_renew_ && proof_end_ < hold_until_; }
  /// When the next renewal or look-up is due; `never` while one is pending.
  [[nodiscard]] BootTime due_at() const noexcept;
  bool found_nothing() noexcept;
  void expect_answer(BootTime now) noexcept;
  void failed() noexcept;

  Ttl ttl_;
  Notice notice_;
  std::chrono::milliseconds max_hold_;
  BootTime proof_end_;
  BootTime hold_until_;
  BootTime renew_at_;
  BootTime risk_at_ = never;  ///< without an answer by then, the holder is at risk
  bool auto_renew_;
  bool at_risk_ = false;
  bool renewal_due_ = false;
  bool looking_up_ = false;
  bool check_wanted_ = false;  ///< check_at_once was called, and no request was sent since
  BootTime check_at_;
  BootTime confirmed_at_;
  int steps_sooner_ = 0;
  std::optional<Extend> under_way_;
  std::optional<Ttl> shortest_unanswered_;
  std::optional<LossReason> lost_;
};

}  // namespace holdfast::locks
