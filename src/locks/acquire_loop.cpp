#include "locks/acquire_loop.hpp"

#include <algorithm>
#include <holdfast/printable.hpp>
#include <string>
#include <utility>

#include "locks/notice.hpp"
#include "locks/proof.hpp"

namespace holdfast::locks {
namespace {

using std::chrono::milliseconds;

/// After a refusal at the holder's expiry (the lease was renewed, or the next holder has a short one), the
/// waiter retries at the new expiry, but not before this pause: an engine that keeps reporting "now" must not
/// cause a busy loop. The pause doubles with each such retry until a poll comes first.
constexpr auto first_expiry_pause = milliseconds(10);

/// The first pause between attempts after one wake-up, while they get no answer.
constexpr auto first_wake_pause = milliseconds(100);
constexpr auto longest_wake_pause = std::chrono::seconds(1);

/// A waiter that polls more often uses up a core; one that polls more rarely is useless.
constexpr milliseconds shortest_delay(1);
constexpr milliseconds longest_delay = std::chrono::hours(24);

std::string seconds_text(BootClock::duration length) {
  const auto tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(length).count();
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Result<AcquirePolicy> AcquirePolicy::from(const LockOptions& options) {
  const auto ttl = Ttl::of(options.ttl);
  if (!ttl) return ttl.error();
  const auto wait = options.wait.value_or(std::chrono::seconds(5));
  if (std::min({wait, options.base_delay, options.max_delay, options.max_hold, options.dispose_timeout}) <
      milliseconds::zero()) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid options: wait, delay, max_hold and timeout must not be negative");
  }
  if (options.notice) {
    if (auto why = Notice::refusal(*options.notice, options.ttl, options.max_hold, "ttl")) return *why;
  }
  return AcquirePolicy{.ttl = *ttl,
                       .wait = wait,
                       .retries = options.retries.value_or(options.wait ? no_retry_limit : 10),
                       .base_delay = std::min(options.base_delay, longest_delay),
                       .max_delay = std::min(options.max_delay, longest_delay),
                       .backoff = options.backoff,
                       .jitter = options.jitter,
                       .must_prove = true};
}

Result<AcquirePolicy> AcquirePolicy::once(const LockOptions& options) {
  LockOptions single = options;
  single.wait = milliseconds::zero();
  return from(single);
}

AcquireLoop::AcquireLoop(const AcquirePolicy& policy, double (*random)()) noexcept
    : policy_(policy), random_(random) {}

AcquireLoop::Action AcquireLoop::start(BootTime now) {
  started_ = now;
  give_up_at_ = saturating_add(now, policy_.wait);
  return attempt(now);
}

AcquireLoop::Action AcquireLoop::resume(const Event& event, BootTime now) {
  return std::visit([&](const auto& happened) { return on(happened, now); }, event);
}

AcquireLoop::Action AcquireLoop::attempt(BootTime now) {
  // Half of the lease has passed without an answer: too little of it would be left to prove.
  if (id_is_unanswered_ && now - id_first_sent_ >= policy_.ttl.length() / 2) id_is_spent_ = true;
  // A single attempt is bounded by the engine's time limit; a waiter's attempt also by its timeout.
  const auto deadline = policy_.wait == milliseconds::zero() ? never : give_up_at_;
  Attempt next{.fresh_id = id_is_spent_, .abandon = id_is_spent_ && id_is_unanswered_, .deadline = deadline};
  if (id_is_spent_) {
    id_first_sent_ = now;
    id_is_spent_ = id_is_unanswered_ = false;
  }
  return next;
}

AcquireLoop::Action AcquireLoop::on(const Granted&, BootTime now) {
  if (!policy_.must_prove || now < proof_end(id_first_sent_, policy_.ttl)) return Won{};
  id_is_unanswered_ = id_is_spent_ = true;  // held, but the lease is too short: release it and retry
  last_error_ = Error(ErrorCode::NetworkTimeout,
                      "the reply of the store came too late to prove the lease of " +
                          std::to_string(policy_.ttl.length().count()) + " ms; use a longer ttl");
  return wait_or_give_up(now);
}

AcquireLoop::Action AcquireLoop::on(const Refused& refused, BootTime now) {
  id_is_spent_ = true;
  spent_in_a_row_ = false;
  wake_is_unused_ = false;
  wake_pause_ = {};
  last_error_.reset();
  was_refused_ = true;
  holder_ = refused.holder != nullptr ? *refused.holder : nullptr;
  expiry_at_ = never;
  if (refused.free_in) {
    expiry_at_ = saturating_add(now, std::max(*refused.free_in, milliseconds(1)));
    expiry_at_ = std::max(expiry_at_, saturating_add(now, expiry_pause_));
  }
  if (now < give_up_at_ && !watching_) return StartWatching{give_up_at_};
  return wait_or_give_up(now);
}

AcquireLoop::Action AcquireLoop::on(const Failed& failed, BootTime now) {
  const Error& error = *failed.error;
  if (!error.transient()) {
    // An unreadable answer may have been a grant.
    const bool may_be_granted = error.code() == ErrorCode::Internal && error.effect() != Effect::none;
    return lose(error, id_is_unanswered_ || may_be_granted);
  }
  const auto effect = error.effect();
  // The engine has released this id, or it never held the lock: a fresh id's lease is proven for longer.
  id_is_spent_ |= effect == Effect::id_is_spent || (effect == Effect::none && !id_is_unanswered_);
  id_is_unanswered_ |= effect == Effect::unknown;
  // An attempt that came too late to be made says nothing about the lock: what the one before it found
  // counts.
  const bool was_made =
      error.code() != ErrorCode::NetworkTimeout || error.effect() != Effect::none || now < give_up_at_;
  if (was_made || !was_refused_) last_error_ = error;
  was_refused_ = was_refused_ && !was_made;
  expiry_at_ = never;
  // The wake-up reported a free lock, which may still be free: retry soon, even if this waiter polls slowly.
  if (wake_is_unused_) {
    wake_pause_ = std::clamp<BootClock::duration>(wake_pause_ * 2, first_wake_pause, longest_wake_pause);
    expiry_at_ = saturating_add(now, wake_pause_);
  }
  return wait_or_give_up(now);
}

/// The id held the lock, and an operator broke it (or it was released) before the answer came. The lock may
/// be free, so a fresh id is tried at once. If the engine keeps answering so, retries slow down to the polls.
AcquireLoop::Action AcquireLoop::on(const IdSpent&, BootTime now) {
  id_is_spent_ = true;
  last_error_ = Error(ErrorCode::ServiceUnavailable,
                      "the lock was granted, but broken by an operator before the reply arrived");
  expiry_at_ = never;
  if (std::exchange(spent_in_a_row_, true)) return wait_or_give_up(now);
  const bool too_late = policy_.wait != milliseconds::zero() && now >= give_up_at_;
  return too_late ? give_up(now) : attempt(now);
}

/// The lock may have been freed between the refusal and the start of the watch. So one more attempt is needed
/// before it is safe to sleep.
AcquireLoop::Action AcquireLoop::on(const Watching&, BootTime now) {
  watching_ = true;
  return now >= give_up_at_ ? give_up(now) : attempt(now);
}

AcquireLoop::Action AcquireLoop::on(const Woken&, BootTime now) {
  wake_is_unused_ = true;
  return now >= give_up_at_ ? give_up(now) : attempt(now);
}

AcquireLoop::Action AcquireLoop::on(const TimeUp&, BootTime now) {
  if (now >= give_up_at_) return give_up(now);
  if (now >= poll_at_) {
    ++retries_;
    poll_is_set_ = false;
    expiry_pause_ = {};
  } else {
    expiry_pause_ = std::max<BootClock::duration>(expiry_pause_ * 2, first_expiry_pause);
  }
  return attempt(now);
}

AcquireLoop::Action AcquireLoop::on(const Stopped&, BootTime) {
  return lose(Error(ErrorCode::Aborted, "the wait for the lock was stopped"), id_is_unanswered_);
}

AcquireLoop::Action AcquireLoop::wait_or_give_up(BootTime now) {
  if (now >= give_up_at_ || retries_ >= policy_.retries) return give_up(now);
  // A wake-up does not postpone the next poll: otherwise a busy lock could keep a waiter from ever polling.
  if (!poll_is_set_) {
    poll_at_ = now + std::max<BootClock::duration>(next_delay(), shortest_delay);
    poll_is_set_ = true;
  }
  return Wait{.until = std::min({poll_at_, expiry_at_, give_up_at_}), .at_latest = give_up_at_};
}

AcquireLoop::Action AcquireLoop::give_up(BootTime now) {
  if (last_error_) return Lost{.abandon = id_is_unanswered_};
  std::string message = "the lock is already held";
  if (holder_) message += " by " + printable(holder_->str());
  if (policy_.wait != milliseconds::zero()) {
    message += "; gave up after " + seconds_text(now - started_) + " and " + std::to_string(retries_) +
               (retries_ == 1 ? " retry" : " retries") + ". Wait longer, or retry later";
  }
  const Error error(ErrorCode::AcquisitionTimeout, std::move(message));
  return lose(holder_ ? error.held_by(holder_->str()) : error, id_is_unanswered_);
}

AcquireLoop::Action AcquireLoop::lose(Error why, bool abandon) {
  last_error_ = std::move(why);
  return Lost{.abandon = abandon};
}

BootClock::duration AcquireLoop::next_delay() {
  BootClock::duration delay = policy_.base_delay;
  if (policy_.backoff == Backoff::exponential) {
    const BootClock::duration cap = policy_.max_delay;
    for (std::uint32_t i = 0; i < retries_ && delay > BootClock::duration::zero() && delay < cap; ++i)
      delay *= 2;
    delay = std::min(delay, cap);
  }
  const auto random_part = [&](BootClock::duration of) {
    return BootClock::duration(static_cast<BootClock::rep>(static_cast<double>(of.count()) * random_()));
  };
  switch (policy_.jitter) {
    case Jitter::equal:
      return delay / 2 + random_part(delay / 2);
    case Jitter::full:
      return random_part(delay);
    case Jitter::none:
      return delay;
  }
  return delay;
}

}  // namespace holdfast::locks
