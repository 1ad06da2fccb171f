#include "locks/wait_for_lock.hpp"

#include "locks/operations.hpp"
#include "os/random.hpp"
#include "runtime/callers_context.hpp"

namespace holdfast::locks {
namespace {

/// A waiter's state between the steps of its loop.
struct Waiter {
  std::unique_ptr<Watch> watch;
  bool woken = false;  ///< by the watch, and no attempt was answered since
  std::optional<LockId> id;
  BootTime first_sent;
  std::optional<Granted> granted;
  // What the last event points to.
  std::shared_ptr<const LockHolder> refused_by;
  std::optional<Error> failed;
};

AcquireLoop::Event event_of(Result<AcquireOutcome>&& answer, Waiter& waiter) {
  // After an error the wake-up may be unused: the attempt was stopped or timed out before it began. Then the
  // next waiter must get the wake-up; one too many is harmless.
  if (!answer && answer.error().effect() == Effect::id_is_spent && !answer.error().transient()) {
    return AcquireLoop::IdSpent{};
  }
  if (!answer) return AcquireLoop::Failed{&waiter.failed.emplace(answer.error())};
  waiter.woken = false;
  if (auto* refused = std::get_if<Refused>(&*answer)) {
    waiter.refused_by = std::move(refused->holder);
    return AcquireLoop::Refused{.free_in = refused->free_in, .holder = &waiter.refused_by};
  }
  waiter.granted = std::get<Granted>(*std::move(answer));
  return AcquireLoop::Granted{};
}

/// Releases an id after an attempt that was never answered: it may hold the lock, or may still get it.
void give_up(LockStore& store, const LockKey& key, const LockId& id, Ttl ttl) {
  ReleaseRequest request{.lock = {.id = id, .key = key},
                         .durability = Durability::process,
                         .deadline = saturating_add(BootClock::now(), ttl.length())};
  store.release_in_background(std::move(request), ReleaseLoop::For::id_in_doubt);
}

/// A wait that another operation awaits, which owns what this refers to. Counts its attempts in `attempts`,
/// unless that is null.
struct AwaitedWait {
  WantedLock lock;
  const AcquirePolicy& its_policy;
  std::uint32_t* attempts;

  [[nodiscard]] const AcquirePolicy& policy() const noexcept { return its_policy; }
  [[nodiscard]] WantedLock&& wanted(const LockStore&) noexcept { return std::move(lock); }
  void count_attempt() const noexcept {
    if (attempts != nullptr) ++*attempts;
  }
  [[nodiscard]] static HeldLock::Grant&& finish(const std::shared_ptr<LockStore>&,
                                                HeldLock::Grant&& grant) noexcept {
    return std::move(grant);
  }
};

/// A wait for a guard. It checks its options when it begins, and not before: an operation reports an error
/// as its result.
class WaitForGuard {
 public:
  explicit WaitForGuard(operation::Lock what) noexcept : what_(std::move(what)) {}

  [[nodiscard]] AcquirePolicy policy() {
    options_ = what_.options;  // here, because it refers to `what_`
    return AcquirePolicy::from(options_).value_or_throw();
  }
  [[nodiscard]] WantedLock wanted(const LockStore& store) {
    return {.key = std::move(what_.key).value_or_throw(),
            .durability = Durability::process,
            .counter_lifetime = what_.counter_lifetime,
            .min_replicas = options_.min_replicas,
            .holder = store.label(options_.holder)};
  }
  static void count_attempt() noexcept {}
  [[nodiscard]] Guard finish(const std::shared_ptr<LockStore>& store, HeldLock::Grant&& grant) const {
    return LockStore::guard(HeldLock::start(store, std::move(grant), options_));
  }

 private:
  operation::Lock what_;
  LockOptions options_;
};

/// Waits for the lock, and ends with what `wait` makes of the grant. One coroutine for every wait, so that a
/// guard's needs no frame of its own. What it has by reference, the operation that awaits it must own.
template <class T, class FlowHeld, class StoreHeld, class Wait>
runtime::Op<T> run_loop(FlowHeld flow, StoreHeld store, Wait wait, std::stop_token stop) {
  const AcquirePolicy policy = wait.policy();
  WantedLock wanted = wait.wanted(*store);
  auto& key = wanted.key;
  // Checked here because the engine's answer is a transient error, which a waiter would retry.
  if (!store->process.is_current()) co_return os::used_after_fork().about(key.str(), {});
  const auto& backend = store->backend;
  Waiter waiter;
  AcquireLoop loop(policy, os::jitter_fraction);
  BootTime now = BootClock::now();
  auto action = loop.start(now);
  for (;;) {
    AcquireLoop::Event event = AcquireLoop::Stopped{};
    if (const auto* attempt = std::get_if<AcquireLoop::Attempt>(&action)) {
      wait.count_attempt();
      if (attempt->abandon) give_up(*store, key, *waiter.id, policy.ttl);
      if (attempt->fresh_id) {
        waiter.id = LockId::generate();
        waiter.first_sent = now;
      }
      AcquireRequest request{.id = *waiter.id,
                             .key = key,
                             .ttl = policy.ttl,
                             .durability = wanted.durability,
                             .deadline = attempt->deadline,
                             .counter_lifetime = wanted.counter_lifetime,
                             .min_replicas = wanted.min_replicas,
                             .holder = wanted.holder};
      event = event_of(co_await flow.ask(backend, std::move(request), stop), waiter);
    } else if (const auto* start = std::get_if<AcquireLoop::StartWatching>(&action)) {
      WatchRequest request{.key = key, .deadline = start->at_latest};
      auto watch = co_await flow.ask(backend, std::move(request), stop);
      if (watch) waiter.watch = *std::move(watch);
      if (!stop.stop_requested()) event = AcquireLoop::Watching{};
    } else if (const auto* pause = std::get_if<AcquireLoop::Wait>(&action)) {
      const bool woken = co_await flow.wait(waiter.watch.get(), pause->until, pause->at_latest, stop);
      waiter.woken = waiter.woken || woken;
      if (!stop.stop_requested()) {
        event = woken ? AcquireLoop::Event(AcquireLoop::Woken{}) : AcquireLoop::TimeUp{};
      }
    } else if (const auto* lost = std::get_if<AcquireLoop::Lost>(&action)) {
      if (waiter.woken) waiter.watch->pass_on();
      if (lost->abandon) give_up(*store, key, *waiter.id, policy.ttl);
      // If an attempt is stopped halfway, the engine may report only that it got no answer.
      if (stop.stop_requested() && loop.error().transient()) {
        co_return Error(ErrorCode::Aborted, "acquiring the lock was stopped", loop.error().what())
            .about(key.str(), {});
      }
      const auto& why = loop.error();
      if (why.code() != ErrorCode::AcquisitionTimeout) co_return why.about(key.str(), {});
      co_return Error(why.code(), "\"" + std::string(key.str()) + "\": " + why.message())
          .about(key.str(), {})
          .held_by(why.holder());
    } else {
      // One authority per key says nothing of the store.
      if (!store->capabilities.authority_per_key) store->granted_by(waiter.granted->authority);
      HeldLock::Grant grant{.key = std::move(key),
                            .id = *waiter.id,
                            .fence = waiter.granted->fence,
                            .authority = std::move(waiter.granted->authority),
                            .expires_at = waiter.granted->expires_at,
                            .ttl = policy.ttl,
                            .sent = waiter.first_sent,
                            .acquire_may_be_repeated = waiter.granted->may_be_repeated,
                            .replicas = waiter.granted->replicas,
                            .holder = std::move(wanted.holder)};
      co_return wait.finish(store, std::move(grant));
    }
    now = BootClock::now();
    action = loop.resume(event, now);
  }
}

runtime::Op<HeldLock::Grant> run_awaited(const runtime::Flow& flow, const std::shared_ptr<LockStore>& store,
                                         WantedLock&& wanted, const AcquirePolicy& policy,
                                         std::stop_token stop, std::uint32_t* attempts) {
  AwaitedWait wait{.lock = std::move(wanted), .its_policy = policy, .attempts = attempts};
  return run_loop<HeldLock::Grant, const runtime::Flow&, const std::shared_ptr<LockStore>&>(
      flow, store, std::move(wait), std::move(stop));
}

/// The same, reported to the observer.
runtime::Op<HeldLock::Grant> run_observed(const runtime::Flow& flow, const std::shared_ptr<LockStore>& store,
                                          WantedLock wanted, const AcquirePolicy& policy,
                                          std::stop_token stop) {
  const auto key = wanted.key;
  auto& observer = *store->observer;
  const auto backend = store->capabilities.backend;
  std::uint32_t attempts = 0;
  auto context = runtime::context_of_caller(observer);
  observer.begun(Activity::wait, backend);
  const BootTime started = BootClock::now();
  auto loop = run_awaited(flow, store, std::move(wanted), policy, std::move(stop), &attempts);
  auto grant = co_await std::move(loop);
  Occurrence end{.activity = Activity::wait,
                 .backend = backend,
                 .started = started,
                 .ended = BootClock::now(),
                 .key = key.str(),
                 .attempts = attempts,
                 .context = context};
  if (grant) {
    end.lock_id = grant->id.str();
    end.fence = grant->fence;
    if (grant->holder) end.holder = grant->holder->str();
    grant->context = std::move(context);
  } else if (policy.wait == std::chrono::milliseconds::zero() &&
             grant.error().code() == ErrorCode::AcquisitionTimeout) {
    end.reason = Reason::locked;  // a refusal of a single attempt is not an error
  } else {
    end.error = grant.error().code();
  }
  if (!grant) end.holder = grant.error().holder();
  observer.ended(end);
  co_return grant;
}

Op<Guard> lock_observed(Flow flow, Store store, WaitForGuard wait, std::stop_token stop) {
  const AcquirePolicy policy = wait.policy();
  auto wanted = wait.wanted(*store);
  auto waiting = run_observed(flow, store, std::move(wanted), policy, std::move(stop));
  auto grant = co_await std::move(waiting);
  co_return wait.finish(store, std::move(grant).value_or_throw());
}

}  // namespace

runtime::Op<HeldLock::Grant> wait_for_lock(const runtime::Flow& flow, const std::shared_ptr<LockStore>& store,
                                           WantedLock&& wanted, const AcquirePolicy& policy,
                                           std::stop_token stop) {
  if (store->observer) return run_observed(flow, store, std::move(wanted), policy, std::move(stop));
  return run_awaited(flow, store, std::move(wanted), policy, std::move(stop), nullptr);
}

Op<Guard> perform(Flow flow, Store store, operation::Lock what, std::stop_token stop) {
  if (store->observer) {
    return lock_observed(std::move(flow), std::move(store), WaitForGuard(std::move(what)), std::move(stop));
  }
  return run_loop<Guard, Flow, Store>(std::move(flow), std::move(store), WaitForGuard(std::move(what)),
                                      std::move(stop));
}

}  // namespace holdfast::locks
