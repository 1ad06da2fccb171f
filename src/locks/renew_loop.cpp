#include "locks/renew_loop.hpp"

#include <algorithm>
#include <utility>

#include "locks/proof.hpp"

namespace holdfast::locks {
namespace {

using std::chrono::milliseconds;

constexpr int crowd_size = 256;
constexpr int most_steps_sooner = 8;

/// At the latest a third of the ttl after the last send: that leaves half of the ttl for further attempts
/// before the holder is notified, and a third with the longest notice. All guards of one ttl share a grid of
/// times, so that renewals due at about the same time share one wake-up and one write to the server.
BootTime renewal_time(BootTime sent, Ttl ttl, int steps_sooner) {
  const auto period = BootClock::duration(ttl.length()) / 3;
  const auto step = period / std::max<BootClock::rep>(64, period / milliseconds(100));
  const auto at_latest = sent + period - steps_sooner * step;
  return at_latest - at_latest.time_since_epoch() % step;
}

BootClock::duration retry_delay(Ttl ttl) {
  return std::clamp<BootClock::duration>(BootClock::duration(ttl.length()) / 30, milliseconds(5),
                                         std::chrono::seconds(1));
}

}  // namespace

int RenewalCrowd::next(BootTime now) noexcept {
  if (now != at_) renewed_ = 0;
  at_ = now;
  return std::min(renewed_++ / crowd_size, most_steps_sooner);
}

RenewLoop::RenewLoop(Ttl ttl, BootTime sent, bool auto_renew, milliseconds max_hold,
                     const Notice& notice) noexcept
    : ttl_(ttl),
      notice_(notice),
      max_hold_(max_hold),
      proof_end_(proof_end(sent, ttl)),
      hold_until_(max_hold == milliseconds::zero() ? never : saturating_add(sent, max_hold)),
      renew_at_(renewal_time(sent, ttl, 0)),
      auto_renew_(auto_renew),
      confirmed_at_(sent) {}

BootTime RenewLoop::proven_until() const noexcept {
  return std::min(proof_end_, hold_until_);
}

Ttl RenewLoop::provable_ttl() const noexcept {
  return std::min(ttl_, shortest_unanswered_.value_or(ttl_));
}

Ttl RenewLoop::counted_ttl() const noexcept {
  // A requested ttl counts from its send, as it does for the proof.
  return under_way_ ? std::min(provable_ttl(), under_way_->ttl) : provable_ttl();
}

BootTime RenewLoop::lose_at() const noexcept {
  return proven_until() - notice_.before_end(counted_ttl().length(), max_hold_);
}

BootTime RenewLoop::due_at() const noexcept {
  if (renewal_due_ || looking_up_ || under_way_) return never;
  if (check_wanted_) return check_at_;
  return renews() ? renew_at_ : never;
}

RenewLoop::Step RenewLoop::tick(BootTime now) noexcept {
  if (lost_) return Step::none;
  if (now >= lose_at()) {
    lost_ = hold_until_ <= proof_end_ ? LossReason::max_hold : LossReason::unproven;
    hold_until_ = proven_until();  // no late answer moves it
    return Step::lose;
  }
  if (now >= risk_at_) failed();
  if (now < due_at()) return Step::none;
  if (renews()) {
    renewal_due_ = true;
    expect_answer(now);
    return Step::extend;
  }
  check_wanted_ = false;
  looking_up_ = true;
  return Step::look_up;
}

BootTime RenewLoop::next_tick() const noexcept {
  return lost_ ? never : std::min({due_at(), lose_at(), risk_at_});
}

/// From when a renewal is due, because the thread that sends it may be blocked.
void RenewLoop::expect_answer(BootTime now) noexcept {
  if (!at_risk_) risk_at_ = std::min(risk_at_, now + risk_delay(counted_ttl().length()));
}

void RenewLoop::failed() noexcept {
  at_risk_ = true;
  risk_at_ = never;
}

void RenewLoop::extend_sent(BootTime now, Ttl ttl) noexcept {
  renewal_due_ = check_wanted_ = false;
  under_way_ = Extend{now, ttl, proof_end_};
  proof_end_ = std::min(proof_end_, proof_end(now, ttl));
  expect_answer(now);
}

void RenewLoop::extend_granted() noexcept {
  const Extend extend = *under_way_;
  under_way_.reset();
  proof_end_ = proof_end(extend.sent, std::min(extend.ttl, shortest_unanswered_.value_or(extend.ttl)));
  // Too late for the holder. The engine has the lock for longer, which is how long a release is tried.
  if (lost_) return;
  ttl_ = extend.ttl;
  confirmed_at_ = extend.sent;
  renew_at_ = renewal_time(extend.sent, provable_ttl(), std::exchange(steps_sooner_, 0));
  at_risk_ = false;
  risk_at_ = never;
}

void RenewLoop::extend_unanswered(BootTime now) noexcept {
  may_be_repeated(under_way_->ttl);
  under_way_.reset();
  renew_at_ = now + retry_delay(provable_ttl());
  failed();
}

void RenewLoop::extend_not_begun(BootTime now, bool failed) noexcept {
  proof_end_ = under_way_->proof_before;
  under_way_.reset();
  if (renew_at_ <= now) renew_at_ = now + retry_delay(provable_ttl());
  risk_at_ = never;
  if (failed) this->failed();
}

void RenewLoop::may_be_repeated(Ttl ttl) noexcept {
  shortest_unanswered_ = std::min(ttl, shortest_unanswered_.value_or(ttl));
}

void RenewLoop::look_up_failed(BootTime now) noexcept {
  looking_up_ = false;
  check_wanted_ = true;
  check_at_ = now + retry_delay(provable_ttl());
}

bool RenewLoop::look_up_found_nothing() noexcept {
  looking_up_ = false;
  return found_nothing();
}

bool RenewLoop::extend_found_nothing() noexcept {
  under_way_.reset();
  return found_nothing();
}

bool RenewLoop::found_nothing() noexcept {
  hold_until_ = {};
  if (lost_) return false;
  lost_ = LossReason::gone;
  return true;
}

}  // namespace holdfast::locks
