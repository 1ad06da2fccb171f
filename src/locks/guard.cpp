#include <holdfast/guard.hpp>

#include "locks/held_lock.hpp"
#include "os/process.hpp"

namespace holdfast {

using runtime::Flow;
using runtime::Op;

std::string_view to_string(LossReason reason) noexcept {
  switch (reason) {
    case LossReason::unproven:
      return "unproven";
    case LossReason::gone:
      return "gone";
    case LossReason::max_hold:
      return "max_hold";
  }
  return "unproven";
}

Guard& Guard::operator=(Guard&& other) noexcept {
  if (this != &other) {
    const Guard old(std::move(held_));
    held_ = std::move(other.held_);
  }
  return *this;
}

void Guard::dispose() noexcept {
  if (held_->in_own_process()) {
    held_->dispose();
  } else {
    // In a forked child the lock belongs to the parent, and any mutex may be locked: leak it untouched.
    new std::shared_ptr<HeldLock>(std::move(held_));
  }
}

void Guard::release_in_background() noexcept {
  // In a forked child the destructor handles it.
  if (!held_ || !held_->in_own_process()) return;
  const auto last = std::move(held_);
  last->dispose_in_background();
}

Guard::operator bool() const noexcept {
  // A pending non-blocking detach does not empty the guard.
  return held_ != nullptr && (!held_->in_own_process() || held_->is_held());
}

std::optional<Error> Guard::unusable() const {
  if (!held_) {
    return Error(ErrorCode::InvalidArgument, "this guard is empty: it was moved from, released or detached");
  }
  if (!held_->in_own_process()) return os::used_after_fork();
  return std::nullopt;
}

HeldLock& Guard::held() const {
  if (const auto why = unusable()) throw *why;
  return *held_;
}

const std::string& Guard::key() const {
  return held().key();
}
const LockId& Guard::id() const {
  return held().id();
}
Fence Guard::fence() const {
  return held().fence();
}
FencingToken Guard::token() const {
  const auto& of = held();
  return {.authority = of.authority(), .lock_key = of.key(), .fence = of.fence()};
}
const std::string& Guard::authority() const {
  return held().authority();
}
std::optional<std::uint32_t> Guard::replicas() const {
  return held().replicas();
}
WallTime Guard::expires_at() const {
  return held().expires_at();
}

std::chrono::nanoseconds Guard::remaining() const noexcept {
  return held_ && held_->in_own_process() ? held_->remaining() : std::chrono::nanoseconds::zero();
}

bool Guard::still_held() const noexcept {
  return remaining() > std::chrono::nanoseconds::zero();
}

std::stop_token Guard::lost() const noexcept {
  return held_ ? held_->lost() : std::stop_token();
}

std::optional<Error> Guard::renewal_error() const {
  return held_ && held_->in_own_process() ? held_->renewal_error() : std::nullopt;
}

std::optional<LossReason> Guard::loss_reason() const noexcept {
  return held_ && held_->in_own_process() ? held_->loss_reason() : std::nullopt;
}

void Guard::on_lost(std::function<void(LossReason)> callback) {
  held().on_lost(std::move(callback));
}

bool Guard::at_risk() const noexcept {
  return held_ && held_->in_own_process() && held_->at_risk();
}

void Guard::on_at_risk(std::function<void(bool)> callback) {
  held().on_at_risk(std::move(callback));
}

void Guard::on_release_error(std::function<void(const Error&)> callback) {
  held().on_release_error(std::move(callback));
}

bool Guard::release(std::stop_token stop) {
  if (!held_) return false;
  held();  // throws in a forked child
  return Op<bool>::run(HeldLock::release(Flow::blocking(), std::move(held_), std::move(stop)))
      .value_or_throw();
}

bool Guard::extend(std::chrono::milliseconds ttl, std::stop_token stop) {
  held();
  return Op<bool>::run(HeldLock::extend(Flow::blocking(), held_, ttl, std::move(stop))).value_or_throw();
}

std::optional<Lease> Guard::detach(std::stop_token stop) {
  held();
  auto detached = Op<std::optional<Lease>>::run(HeldLock::detach(Flow::blocking(), held_, std::move(stop)))
                      .value_or_throw();
  if (detached) held_.reset();
  return detached;
}

void Guard::release(std::stop_token stop, Done<bool> done) {
  if (!held_) return done(false);
  if (auto why = unusable()) return done(*std::move(why));
  const auto flow = held_->completing();
  Op<bool>::start(HeldLock::release(flow, std::move(held_), std::move(stop)), std::move(done));
}

void Guard::extend(std::chrono::milliseconds ttl, std::stop_token stop, Done<bool> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<bool>::start(HeldLock::extend(held_->completing(), held_, ttl, std::move(stop)), std::move(done));
}

void Guard::wait_lost(std::stop_token stop, Done<LossReason> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<LossReason>::start(HeldLock::wait_lost(held_->completing(), held_, std::move(stop)), std::move(done));
}

void Guard::detach(std::stop_token stop, Done<std::optional<Lease>> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<std::optional<Lease>>::start(HeldLock::detach(held_->completing(), held_, std::move(stop)),
                                  std::move(done));
}

}  // namespace holdfast
