#include "locks/held_lock.hpp"

#include <algorithm>

#include "locks/await.hpp"
#include "locks/runtime.hpp"

namespace holdfast {

using std::chrono::milliseconds;

HeldLock::HeldLock(std::shared_ptr<LockRuntime> runtime, Grant grant, const LockOptions& options)
    : runtime_(std::move(runtime)),
      grant_(std::move(grant)),
      dispose_timeout_(options.dispose_timeout),
      lease_(
          grant_.ttl, grant_.sent, options.auto_renew,
          options.max_hold == milliseconds::zero() ? never : saturating_add(grant_.sent, options.max_hold)),
      expires_at_ms_(grant_.expires_at_ms) {}

HeldLock::~HeldLock() {
  runtime_->timer.cancel(*this);
}

std::shared_ptr<HeldLock> HeldLock::start(std::shared_ptr<LockRuntime> runtime, Grant grant,
                                          const LockOptions& options) {
  auto held = std::make_shared<HeldLock>(std::move(runtime), std::move(grant), options);
  try {
    held->runtime_->timer.schedule(*held, held->lease_.next_tick());
  } catch (...) {
    held->dispose();  // no thread to watch the lease: better no lock than one that cannot be lost
    throw;
  }
  return held;
}

const std::string& HeldLock::authority() const noexcept {
  return runtime_->authority;
}

bool HeldLock::is_home() const noexcept {
  return runtime_->home.is_here();
}

std::int64_t HeldLock::expires_at_ms() const {
  const std::lock_guard lock(mutex_);
  return expires_at_ms_;
}

std::chrono::nanoseconds HeldLock::remaining() const noexcept {
  const std::lock_guard lock(mutex_);
  if (hold_ == Hold::ended || lease_.lost()) return std::chrono::nanoseconds::zero();
  return std::max(lease_.proven_until() - BootClock::now(), std::chrono::nanoseconds::zero());
}

std::optional<LossReason> HeldLock::loss_reason() const {
  const std::lock_guard lock(mutex_);
  return lease_.lost();
}

void HeldLock::on_lost(std::function<void(LossReason)> callback) {
  bool too_late = false;
  {
    const std::lock_guard lock(mutex_);
    on_lost_.swap(callback);  // the old one ends after the mutex is free
    too_late = lease_.lost().has_value();
  }
  if (too_late) announce_loss();
}

void HeldLock::on_release_error(std::function<void(const Error&)> callback) {
  const std::lock_guard lock(mutex_);
  on_release_error_.swap(callback);  // the old one ends after the mutex is free
}

BootTime HeldLock::on_time(BootTime now) {
  auto step = locks::RenewLoop::Step::none;
  BootTime next = never;
  {
    const std::lock_guard lock(mutex_);
    if (hold_ == Hold::ended) return never;
    step = lease_.tick(now);
    next = lease_.next_tick();
  }
  if (step == locks::RenewLoop::Step::extend)
    runtime_->renewer.post([self = shared_self()] { self->renew(); });
  if (step == locks::RenewLoop::Step::lose) announce_loss();
  return next;
}

void HeldLock::announce_loss() {
  runtime_->callbacks.post([self = shared_self()] {
    std::function<void(LossReason)> callback;
    LossReason reason{};
    {
      const std::lock_guard lock(self->mutex_);
      if (self->hold_ == Hold::ended) return;
      callback = std::exchange(self->on_lost_, nullptr);
      reason = *self->lease_.lost();
      ++self->announcers_;
    }
    self->loss_.request_stop();
    try {
      if (callback) callback(reason);
    } catch (...) {
      self->runtime_->log_debug("an on_lost callback threw");
    }
    callback = nullptr;
    const std::lock_guard lock(self->mutex_);
    --self->announcers_;
    self->changed_.notify_all();
  });
}

Result<ExtendOutcome> HeldLock::extend_once(std::unique_lock<std::mutex>& lock, Ttl ttl,
                                            Durability durability) {
  changed_.wait(lock, [this] { return !extending_; });
  if (hold_ == Hold::ended || lease_.lost()) return Absence::not_found;
  extending_ = true;
  lease_.extend_sent(BootClock::now(), ttl);
  runtime_->timer.schedule(*this, lease_.next_tick());  // a shorter ttl may have moved the loss forward
  const ExtendRequest request{.lock = {.id = grant_.id, .key = grant_.key},
                              .ttl = ttl,
                              .durability = durability,
                              .deadline = lease_.proven_until()};
  lock.unlock();
  auto answer = locks::extend(*runtime_->backend, request);
  lock.lock();

  extending_ = false;
  bool found_lost = false;
  if (!answer) {
    lease_.extend_unanswered(BootClock::now());
  } else if (const auto* extended = std::get_if<Extended>(&*answer)) {
    if (extended->may_be_repeated) lease_.may_be_repeated(ttl);
    lease_.extend_granted();
    expires_at_ms_ = extended->expires_at_ms;
  } else {
    found_lost = lease_.extend_found_nothing() && hold_ == Hold::held;
  }
  changed_.notify_all();
  if (hold_ == Hold::held) runtime_->timer.schedule(*this, lease_.next_tick());
  if (found_lost) {
    lock.unlock();
    announce_loss();
    lock.lock();
  }
  return answer;
}

void HeldLock::renew() {
  std::unique_lock lock(mutex_);
  if (!lease_.renewal_due() || extending_) return;  // the holder extends by hand meanwhile
  // What went wrong shows in the lease: it tries again until the proof ends, then the holder is told.
  (void)extend_once(lock, lease_.ttl(), Durability::process);
}

bool HeldLock::extend(milliseconds ttl) {
  const auto checked = Ttl::of(ttl).value_or_throw();
  std::unique_lock lock(mutex_);
  const auto answer = extend_once(lock, checked, Durability::process).value_or_throw();
  return std::holds_alternative<Extended>(answer) && !lease_.lost();
}

std::optional<DetachedLock> HeldLock::detach() {
  std::function<void(LossReason)> unused;  // end here, see end_hold
  std::function<void(const Error&)> unused_too;
  std::unique_lock lock(mutex_);
  // Whoever adopts it proves from this ttl, and knows nothing of extends of ours that may come late.
  const Ttl ttl = lease_.provable_ttl();
  const auto answer = extend_once(lock, ttl, Durability::machine).value_or_throw();
  const auto* extended = std::get_if<Extended>(&answer);
  if (extended == nullptr || hold_ == Hold::ended || lease_.lost()) return std::nullopt;
  hold_ = Hold::ended;
  runtime_->timer.cancel(*this);
  unused.swap(on_lost_);
  unused_too.swap(on_release_error_);
  return DetachedLock{.key = grant_.key,
                      .id = grant_.id,
                      .ttl = ttl,
                      .fence = grant_.fence,
                      .expires_at_ms = extended->expires_at_ms};
}

bool HeldLock::end_hold(BootTime deadline) {
  std::function<void(LossReason)> unused;  // ends here, not on the thread that drops the last reference
  std::unique_lock lock(mutex_);
  if (hold_ == Hold::ended) return false;
  hold_ = Hold::ended;
  runtime_->timer.cancel(*this);
  unused.swap(on_lost_);
  // A loss callback that runs now still uses what its owner may destroy after us.
  const auto idle = [this] { return announcers_ == 0; };
  if (sys::WorkerPool::on_library_thread()) return true;
  if (deadline == never) {
    changed_.wait(lock, idle);
  } else {
    changed_.wait_for(lock, deadline - BootClock::now(), idle);
  }
  return true;
}

/// A second try after an unanswered one that finds nothing was preceded by a first that worked, as long as
/// the lease cannot have ended by itself.
Result<bool> HeldLock::release_now(BootTime deadline) {
  const ReleaseRequest request{
      .lock = {.id = grant_.id, .key = grant_.key}, .durability = Durability::process, .deadline = deadline};
  auto& backend = *runtime_->backend;
  auto answer = locks::release(backend, request);
  const bool unanswered = !answer && answer.error().transient();
  if (unanswered) answer = locks::release(backend, request);
  if (!answer) return answer.error().about(key(), id().str());
  if (std::holds_alternative<Released>(*answer)) return true;
  const std::lock_guard lock(mutex_);
  return unanswered && BootClock::now() < lease_.proven_until();
}

bool HeldLock::release() {
  if (!end_hold(never)) return false;
  const auto unused = take_release_error_callback();
  return release_now(never).value_or_throw();
}

void HeldLock::dispose() noexcept {
  const auto deadline =
      dispose_timeout_ == milliseconds::zero() ? never : saturating_add(BootClock::now(), dispose_timeout_);
  if (!end_hold(deadline)) return;
  if (!sys::WorkerPool::on_library_thread()) return dispose_now(deadline);
  runtime_->renewer.post([self = shared_self(), deadline] { self->dispose_now(deadline); });
}

void HeldLock::dispose_now(BootTime deadline) noexcept {
  auto callback = take_release_error_callback();
  const auto released = release_now(deadline);
  if (!released) return report(released.error(), std::move(callback));
  // User code, its destructors included, does not belong on the renewing thread.
  if (callback && sys::WorkerPool::on_library_thread()) {
    runtime_->callbacks.post([unused = std::move(callback)] {});
  }
}

std::function<void(const Error&)> HeldLock::take_release_error_callback() {
  const std::lock_guard lock(mutex_);
  return std::exchange(on_release_error_, nullptr);
}

void HeldLock::report(const Error& error, std::function<void(const Error&)> callback) noexcept {
  if (!callback) {
    runtime_->log_debug("a lock could not be released and ends with its lease: " +
                        std::string(to_string(error.code())) + " " + error.cause());
    return;
  }
  auto call = [callback = std::move(callback), error, runtime = runtime_] {
    try {
      callback(error);
    } catch (...) {
      runtime->log_debug("an on_release_error callback threw");
    }
  };
  if (sys::WorkerPool::on_library_thread()) {
    runtime_->callbacks.post(std::move(call));
  } else {
    call();
  }
}

}  // namespace holdfast
