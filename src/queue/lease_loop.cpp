#include "queue/lease_loop.hpp"

#include <algorithm>

namespace holdfast::queue {
namespace {

using std::chrono::milliseconds;

/// As locks::proof_end, for a length that an engine returned.
BootTime proof_of(BootTime sent, milliseconds length) noexcept {
  return sent + length - milliseconds(1) - BootClock::duration(length) / 1000;
}

BootClock::duration period_of(Ttl lease) {
  return std::min<BootClock::duration>(BootClock::duration(lease.length()) / 3, LeaseLoop::longest_period);
}

BootClock::duration retry_delay_of(Ttl lease) {
  return std::clamp<BootClock::duration>(BootClock::duration(lease.length()) / 30, milliseconds(5),
                                         std::chrono::seconds(1));
}

}  // namespace

LeaseLoop::Id LeaseLoop::add(Granted granted) {
  // A limit that the clock may not be able to express is none.
  constexpr milliseconds longest_limit = std::chrono::years(100);
  const bool is_limited = granted.limit > milliseconds(0) && granted.limit <= longest_limit;
  const auto length = is_limited ? std::min(lease_.length(), granted.limit) : lease_.length();
  Held held{
      .lease = std::move(granted.lease),
      .proof_end = proof_of(granted.sent, length),
      .hold_until = is_limited ? proof_of(granted.sent, granted.limit) : never,
      .notice = granted.notice.before_end(lease_.length(), is_limited ? granted.limit : milliseconds(0)),
      .version = granted.version,
      .limited = is_limited && granted.limit <= lease_.length()};
  first_loss_ = std::min(first_loss_, lose_at(held));
  // Also beside lost leases only, for which no renewal is due.
  if (pending_ == 0) renew_at_ = std::min(renew_at_, granted.sent + period_of(lease_));
  held_.emplace(++last_, std::move(held));
  return last_;
}

BootTime LeaseLoop::lose_at(const Held& held) noexcept {
  return std::min(held.proof_end, held.hold_until) - held.notice;
}

BootTime LeaseLoop::proven_until(Id id) const {
  const auto found = held_.find(id);
  if (found == held_.end()) return {};
  return std::min(found->second.proof_end, found->second.hold_until);
}

bool LeaseLoop::at_risk(Id id) const {
  const auto found = held_.find(id);
  return found != held_.end() && found->second.at_risk;
}

void LeaseLoop::knows_version(Id id, std::uint64_t version) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  found->second.version = version == 0 ? 0 : std::max(found->second.version, version);
}

LeaseLoop::Due LeaseLoop::tick(BootTime now) {
  Due due;
  first_loss_ = never;
  for (auto& [id, held] : held_) {
    if (held.lost) continue;
    if (now >= lose_at(held)) {
      held.lost = true;
      const bool too_long = held.limited || held.hold_until <= held.proof_end;
      due.lost.push_back({id, too_long ? LossReason::max_hold : LossReason::unproven});
    } else {
      first_loss_ = std::min(first_loss_, lose_at(held));
    }
  }
  if (pending_ > 0 && now >= risk_at_) {
    risk_at_ = never;
    for (auto& [id, held] : held_) {
      if (held.lost || !held.asked || held.at_risk) continue;
      held.at_risk = true;
      due.risky.push_back(id);
    }
  }
  if (pending_ > 0 || now < renew_at_) return due;
  renew_at_ = never;
  risk_at_ = now + locks::risk_delay(lease_.length());
  for (auto& [id, held] : held_) {
    if (held.lost) continue;
    if (due.renewals.empty() || due.renewals.back().ids.size() == max_renewed_leases) {
      // Late enough for a slow store, and early enough for two more attempts.
      const auto deadline = now + BootClock::duration(lease_.length()) / 3;
      due.renewals.push_back(
          {.ids = {},
           .request = {.owner = owner_, .leases = {}, .lease = lease_.length(), .deadline = deadline},
           .sent = now});
    }
    due.renewals.back().ids.push_back(id);
    due.renewals.back().request.leases.push_back(held.lease);
    held.asked = true;
  }
  pending_ = due.renewals.size();
  return due;
}

BootTime LeaseLoop::next_tick() const noexcept {
  if (held_.empty()) return never;
  return std::min(first_loss_, pending_ > 0 ? risk_at_ : renew_at_);
}

LeaseLoop::Answered LeaseLoop::answered(const Renewal& renewal,
                                        const Result<std::vector<RenewedLease>>& answer, BootTime now) {
  --pending_;
  Answered news;
  const auto next = answer ? renewal.sent + period_of(lease_) : now + retry_delay_of(lease_);
  renew_at_ = std::min(renew_at_, std::max(next, now));
  for (std::size_t i = 0; i < renewal.ids.size(); ++i) {
    const auto found = held_.find(renewal.ids[i]);
    if (found == held_.end()) continue;
    auto& held = found->second;
    held.asked = false;
    const bool is_answered = answer && i < answer->size();
    if (is_answered && !(*answer)[i].is_held) held.proof_end = {};
    if (held.lost) continue;  // its holder has been notified: never revived
    if (held.at_risk == is_answered) {
      held.at_risk = !is_answered;
      news.risky.push_back(found->first);
    }
    if (!is_answered) continue;
    const auto& renewed = (*answer)[i];
    if (!renewed.is_held) {
      held.lost = true;
      news.not_held.push_back(found->first);
      continue;
    }
    held.limited = renewed.lasts < lease_.length();
    held.proof_end = proof_of(renewal.sent, std::min(renewed.lasts, lease_.length()));
    first_loss_ = std::min(first_loss_, lose_at(held));
    if (renewed.version > held.version) {
      held.version = renewed.version;
      news.changed.push_back(found->first);
    }
  }
  return news;
}

}  // namespace holdfast::queue
