#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/queue_requests.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "locks/notice.hpp"

namespace holdfast::queue {

/// The leases of one queue that this process holds with one length: until when each is proven, when they are
/// renewed, which is at risk, which is lost. All are renewed together, so that a process with many jobs sends
/// few requests. Pure: no clock, no threads, no I/O.
///
/// The proof of a lease runs from before its last answered request was sent. All renewals ask for one length,
/// so one that is carried out late, its answer lost, never ends a lease earlier than an answered one did: an
/// unanswered renewal changes no proof.
///
/// As with a lock, a lease is lost its notice before its proof ends, and stays proven until then.
class LeaseLoop {
 public:
  using Id = std::uint64_t;

  /// Leases are also how a worker learns that its task was cancelled, so they are renewed this often at
  /// least.
  static constexpr std::chrono::milliseconds longest_period{1000};

  /// All its ids are greater than `after`.
  LeaseLoop(std::string owner, Ttl lease, Id after = 0)
      : owner_(std::move(owner)), lease_(lease), last_(after) {}

  struct Granted {
    LeaseReference lease;
    /// Read before the claim was sent.
    BootTime sent{};
    /// The version that the claim returned.
    std::uint64_t version = 0;
    /// The longest time that the claim may last; zero: no limit.
    std::chrono::milliseconds limit{};
    locks::Notice notice = {};
  };
  Id add(Granted granted);
  /// The lease was ended, or its end no longer matters.
  void remove(Id id) { held_.erase(id); }
  [[nodiscard]] bool empty() const noexcept { return held_.empty() && pending_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }
  /// The holder must have stopped by then. Never later once the lease is lost; the epoch if the engine does
  /// not have it any more, or it was removed.
  [[nodiscard]] BootTime proven_until(Id id) const;
  /// The last renewal failed, or has had no answer for a sixth of the lease.
  [[nodiscard]] bool at_risk(Id id) const;
  /// The holder has written: a version up to this one is no news. Zero: every version is news.
  void knows_version(Id id, std::uint64_t version);

  /// A lease that is not renewed any more.
  struct Lost {
    Id id = 0;
    LossReason why{};
  };
  struct Renewal {
    std::vector<Id> ids;
    RenewLeases request;
    BootTime sent{};
  };
  struct Due {
    std::vector<Lost> lost;
    std::vector<Id> risky;          ///< at_risk has changed
    std::vector<Renewal> renewals;  ///< to be sent now; each is to be answered once
  };
  [[nodiscard]] Due tick(BootTime now);
  [[nodiscard]] BootTime next_tick() const noexcept;

  struct Answered {
    std::vector<Id> not_held;  ///< the engine has no such lease any more
    std::vector<Id> changed;   ///< another client has changed the record
    std::vector<Id> risky;     ///< at_risk has changed
  };
  [[nodiscard]] Answered answered(const Renewal& renewal, const Result<std::vector<RenewedLease>>& answer,
                                  BootTime now);

 private:
  struct Held {
    LeaseReference lease;
    BootTime proof_end{};
    BootTime hold_until{};
    BootClock::duration notice{};
    std::uint64_t version = 0;
    bool limited = false;  ///< the attempt's limit ends it, not the lease
    bool asked = false;    ///< a renewal of it is unanswered
    bool at_risk = false;
    bool lost = false;
  };
  [[nodiscard]] static BootTime lose_at(const Held& held) noexcept;

  std::string owner_;
  Ttl lease_;
  std::map<Id, Held> held_;
  Id last_;
  BootTime renew_at_ = never;
  BootTime first_loss_ = never;  ///< not later than the first time at which a lease is lost
  BootTime risk_at_ = never;     ///< pending renewals that have no answer by then put their leases at risk
  std::size_t pending_ = 0;      ///< renewals without an answer
};

}  // namespace holdfast::queue
