#include "locks/wait_for_lock.hpp"

#include "locks/await.hpp"
#include "sys/random.hpp"
#include "sys/sleep.hpp"

namespace holdfast::locks {
namespace {

class Waiter {
 public:
  Waiter(LockRuntime& runtime, LockKey key, const AcquirePolicy& policy, Durability durability,
         const std::stop_token& stop)
      : runtime_(runtime), key_(std::move(key)), policy_(policy), durability_(durability), stop_(stop) {}

  Result<HeldLock::Grant> run() {
    AcquireLoop loop(policy_, sys::jitter_fraction);
    auto action = loop.start(BootClock::now());
    for (;;) {
      if (std::holds_alternative<AcquireLoop::Won>(action)) return std::move(*grant_);
      if (const auto* lost = std::get_if<AcquireLoop::Lost>(&action)) {
        if (woken_) watch_->pass_on();
        if (lost->abandon) runtime_.abandon(key_, *id_);
        return lost->error.about(key_.str(), {});
      }
      const auto event = std::visit([this](const auto& step) { return perform(step); }, action);
      action = loop.resume(event, BootClock::now());
    }
  }

 private:
  AcquireLoop::Event perform(const AcquireLoop::Attempt& attempt) {
    if (attempt.abandon) runtime_.abandon(key_, *id_);
    if (attempt.fresh_id) {
      id_ = LockId::generate();
      first_sent_ = BootClock::now();
    }
    const auto answer = acquire(*runtime_.backend,
                                {.id = *id_,
                                 .key = key_,
                                 .ttl = policy_.ttl,
                                 .durability = durability_,
                                 .deadline = attempt.deadline},
                                stop_);
    if (!answer) {
      // An engine stops only what has not begun, so the wake-up that led here is still unused.
      if (answer.error().code() != ErrorCode::Aborted) woken_ = false;
      return AcquireLoop::Failed{answer.error()};
    }
    woken_ = false;
    if (const auto* refused = std::get_if<Refused>(&*answer)) return AcquireLoop::Refused{refused->free_in};
    const auto& granted = std::get<Granted>(*answer);
    grant_ = HeldLock::Grant{.key = key_,
                             .id = *id_,
                             .fence = granted.fence,
                             .expires_at_ms = granted.expires_at_ms,
                             .ttl = policy_.ttl,
                             .sent = first_sent_};
    return AcquireLoop::Granted{};
  }

  AcquireLoop::Event perform(const AcquireLoop::StartWatching& start) {
    watch_ = runtime_.backend->watch(key_, start.at_latest, stop_);
    if (stop_.stop_requested()) return AcquireLoop::Stopped{};
    return AcquireLoop::Watching{};
  }

  AcquireLoop::Event perform(const AcquireLoop::Wait& wait) {
    if (!watch_) sys::sleep_until(wait.until, stop_);
    woken_ = watch_ && watch_->wait(wait.until, wait.at_latest, stop_);
    if (stop_.stop_requested()) return AcquireLoop::Stopped{};
    if (woken_) return AcquireLoop::Woken{};
    return AcquireLoop::TimeUp{};
  }

  // run() has dealt with these.
  AcquireLoop::Event perform(const AcquireLoop::Won&) { return AcquireLoop::Stopped{}; }
  AcquireLoop::Event perform(const AcquireLoop::Lost&) { return AcquireLoop::Stopped{}; }

  LockRuntime& runtime_;
  const LockKey key_;
  const AcquirePolicy& policy_;
  const Durability durability_;
  const std::stop_token& stop_;
  std::unique_ptr<Watch> watch_;
  bool woken_ = false;  ///< by the watch, and no attempt was made since
  std::optional<LockId> id_;
  BootTime first_sent_;
  std::optional<HeldLock::Grant> grant_;
};

}  // namespace

Result<HeldLock::Grant> wait_for_lock(LockRuntime& runtime, LockKey key, const AcquirePolicy& policy,
                                      Durability durability, const std::stop_token& stop) {
  // Checked here because the engine's own answer is a transient error, which a waiter would retry.
  if (!runtime.home.is_here()) return sys::used_after_fork().about(key.str(), {});
  return Waiter(runtime, std::move(key), policy, durability, stop).run();
}

}  // namespace holdfast::locks
