#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/lock_decisions.hpp"
#include "core/repeated_release.hpp"
#include "core/wall_time.hpp"
#include "engine/redis/calls.hpp"
#include "engine/redis/clock_jumps.hpp"
#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/incidents.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_replies.hpp"
#include "engine/redis/remembered_fences.hpp"
#include "engine/redis/replica_wait.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/unanswered_acquires.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {

// The operations of the lock contract, as ScriptCall and Acknowledged carry them out.

/// The authority of the store's fence counters, according to the last grant.
class LastAuthority {
 public:
  void set(const std::string& now) {
    const std::lock_guard lock(mutex_);
    if (text_ != now) text_ = now;
  }
  [[nodiscard]] std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// State shared by pending operations, which may outlive the backend that began them.
struct SharedLocks : std::enable_shared_from_this<SharedLocks> {
  SharedLocks(std::shared_ptr<const Endpoint> at, std::shared_ptr<Transport> with,
              std::shared_ptr<const LockLayout> how, std::shared_ptr<Log> sink,
              std::shared_ptr<Observer> observer)
      : endpoint(std::move(at)),
        client(std::move(with)),
        layout(std::move(how)),
        log(std::move(sink)),
        incidents(log, std::move(observer)) {}

  /// An answer contains the server's time. `of_waits`: it came over the client of operations that wait for
  /// replicas, which numbers its connections separately.
  void learn_time(WallTime server, BootTime sent, const Call& call, bool of_waits) {
    // Threads that bring answers at the same time do not wait for each other: one of them is enough.
    const std::unique_lock lock(clock_mutex, std::try_to_lock);
    if (!lock) return;
    const auto jump =
        clocks[of_waits ? 1 : 0].learn(core::to_ms(server), sent, BootClock::now(), call.connection());
    if (jump) incidents.clock_jumped(*jump);
  }

  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Transport> client;
  std::shared_ptr<const LockLayout> layout;
  std::shared_ptr<Log> log;
  UnansweredAcquires unanswered = {};
  LastAuthority authority = {};
  RememberedFences fences = RememberedFences();
  Incidents incidents;
  std::mutex clock_mutex = {};
  std::array<ClockJumps, 2> clocks = {};
  std::atomic<BootClock::rep> cleanup_again_at = 0;
  /// Whether masters have epochs: with sentinels, and in a cluster.
  const bool has_epochs = endpoint->watch() != nullptr || endpoint->servers() == Servers::cluster;
};

/// The id of a request that knows a lock by its id alone; null if it knows the key.
template <class Request>
[[nodiscard]] const LockId* id_alone(const Request& request) {
  if constexpr (requires { request.lock.key; }) {
    return request.lock.key ? nullptr : &request.lock.id;
  } else if constexpr (requires { std::get_if<LockId>(&request.what); }) {
    return std::get_if<LockId>(&request.what);
  } else {
    return nullptr;
  }
}

/// The name of the lock in Redis that an operation is about, on a layout that finds ids by hint: for a
/// request that knows only the lock id, its first command reads the hint.
class FoundByHint {
 public:
  /// Whether the next command must read the hint.
  template <class Request>
  [[nodiscard]] bool is_next(const SharedLocks& shared, const Request& request) const {
    return !read_ && id_alone(request) != nullptr && shared.layout->finds_ids_by_hint();
  }
  template <class Request>
  [[nodiscard]] static Result<RoutedCommand> command(const SharedLocks& shared, const Request& request) {
    return shared.layout->read_hint(*id_alone(request));
  }
  /// The reply to that command: whether there is a hint.
  template <class Request>
  [[nodiscard]] Result<bool> take(const SharedLocks& shared, const redisReply& reply,
                                  const Request& request) {
    read_ = true;
    auto name = shared.layout->hint(reply, *id_alone(request));
    if (!name) return name.error();
    name_ = *std::move(name);
    return !name_.empty();
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  bool read_ = false;
  std::string name_;
};

/// Releases an id in the background that may still get the lock after its caller has stopped.
inline void give_back(SharedLocks& shared, const LockKey& key, const LockId& id);

/// The operations: `command` builds the request, `outcome` interprets the answer.
///
/// Where ids are found by hint, the grant of a lock that outlives its process is followed by its hint. If
/// that fails, so does the acquire: its caller retries with the same id, or releases it by its key. A hint
/// that is there shows whether the id holds another key: then the grant is undone.
struct AcquireOperation {
  using Outcome = AcquireOutcome;
  enum class Step : std::uint8_t { acquire, new_hint, read_hint, verify, undo, next_hint };

  AcquireRequest request;
  Step step = Step::acquire;
  std::optional<Granted> grant = {};  ///< after the first step
  std::string other_name = {};        ///< of the lock that the hint led to
  bool more = false;                  ///< another command must follow
  bool waits_for_replicas = false;
  RememberedFence remembered = {};  ///< the highest fence of the key that this client was granted before
  BootTime began = BootClock::now();
  GrantDetails details = {};

  Result<RoutedCommand> command(const SharedLocks& shared, By by) const {
    const auto& layout = *shared.layout;
    switch (step) {
      case Step::acquire:
        break;
      case Step::new_hint:
        return layout.write_hint(request.id, name(shared), request.ttl, Hint::if_absent);
      case Step::read_hint:
        return layout.read_hint(request.id);
      case Step::verify:
        return layout.command(LookupRequest{.what = request.id}, other_name, by);
      case Step::undo:
        return layout.release({.id = request.id, .key = request.key}, {}, Release::plain, by);
      case Step::next_hint:
        return layout.write_hint(request.id, name(shared), request.ttl, Hint::in_any_case);
    }
    const auto floor = shared.endpoint->options().fence_floor;
    const RememberedFence own_floor{.fence = floor, .epoch = 0, .key_exists = remembered.key_exists};
    return layout.acquire(request, floor > remembered.fence ? own_floor : remembered, by);
  }

  Result<Outcome> outcome(SharedLocks& shared, const Result<Reply>& answer, const Call& call) {
    const auto server = server_of_connection(call.connection());
    if (answer) shared.unanswered.answered(server);
    // One copy may have been answered while another is still pending.
    if ((!answer && call.was_sent() && step == Step::acquire) || call.was_repeated())
      shared.unanswered.add(request.id, server, BootClock::now());
    if (!answer) return answer.error().about(request.key.str(), request.id.str());
    if (step != Step::acquire) return take_hint_step(shared, **answer);
    auto outcome = shared.layout->acquired(**answer, request);
    auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    // The caller will not use the id again, but the other copy may still be granted. After a transient error
    // the caller retries with the same id, or releases it.
    const bool id_ends = granted == nullptr && (outcome || !outcome.error().transient());
    if (call.was_repeated() && id_ends) give_back(shared, request.key, request.id);
    if (granted == nullptr) return outcome;
    granted->may_be_repeated = shared.unanswered.contains(request.id);
    details = shared.layout->grant_details(**answer);
    observe(shared, *granted, call);
    if (!shared.layout->authority_per_key()) shared.authority.set(granted->authority);
    if (shared.log) {
      if (auto warning = core::high_fence_warning(granted->fence, request.key)) {
        shared.log->write(LogLevel::warning, *std::move(warning));
      }
    }
    if (request.durability == Durability::machine && shared.layout->finds_ids_by_hint()) {
      grant = *granted;
      go_on(Step::new_hint);
    }
    return outcome;
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(more, false); }

  // See Acknowledged.
  static bool must_be_acknowledged(const Outcome& outcome) {
    return std::holds_alternative<Granted>(outcome);
  }
  [[nodiscard]] bool has_written() const { return !details.repeated; }
  static Outcome acknowledged(Outcome outcome, const ReplicaWait& wait) {
    std::get<Granted>(outcome).replicas = wait.acknowledged();
    return outcome;
  }
  [[nodiscard]] Error unacknowledged(const ReplicaWait& wait) const {
    return Error(ErrorCode::ServiceUnavailable,
                 "the lock was not granted: " + wait.shortage() +
                     " (min_replicas, replica_timeout). Check the server's replicas")
        .with(Effect::id_is_spent)
        .about(request.key.str(), request.id.str());
  }
  Result<RoutedCommand> undo(const SharedLocks& shared, By by) const {
    // For good: the caller may have the id in doubt, and a late copy of this release must not meet a new
    // grant of the id.
    return shared.layout->release({.id = request.id, .key = request.key}, {}, Release::for_good, by);
  }
  [[nodiscard]] Error undone(SharedLocks& shared, const Result<Reply>& answer, const Error& error) const {
    const LockRef lock{.id = request.id, .key = request.key};
    if (answer && shared.layout->released(**answer, lock)) return error;
    shared.unanswered.add(request.id, 0, BootClock::now());  // so that it is released for good
    give_back(shared, request.key, request.id);
    return error;
  }

 private:
  /// Notices lost writes and jumps of the clock.
  void observe(SharedLocks& shared, const Granted& granted, const Call& call) const {
    using Authority = RememberedFences::Authority;
    const auto authority = shared.fences.granted(
        request.key.str(), {.fence = granted.fence.value(), .epoch = call.epoch()}, granted.authority.str());
    if (authority == Authority::replaced) {
      shared.incidents.store_replaced(request.key, granted.fence);
    } else if (authority == Authority::same && details.low_counter &&
               *details.low_counter < remembered.fence && remembered.epoch <= call.epoch()) {
      shared.incidents.fence_regressed(request.key, *details.low_counter, remembered.fence, granted.fence);
    }
    if (shared.has_epochs) {
      shared.incidents.granted_in_epoch(shared.endpoint->name(), call.epoch(), granted.fence);
    }
    // The expiry of a lock that was already held was counted at another time.
    if (!details.repeated) {
      shared.learn_time(granted.expires_at - request.ttl.length(), began, call, waits_for_replicas);
    }
  }

  void go_on(Step next) {
    step = next;
    more = true;
  }
  [[nodiscard]] std::string name(const SharedLocks& shared) const {
    return shared.layout->names().lock_key(request.key).value_or_throw();
  }

  Result<Outcome> take_hint_step(const SharedLocks& shared, const redisReply& reply) {
    if (is_error(reply)) return error_of(reply).about(request.key.str(), request.id.str());
    switch (step) {
      case Step::new_hint:
        if (reply.type == REDIS_REPLY_NIL) go_on(Step::read_hint);
        break;
      case Step::read_hint: {
        auto found = shared.layout->hint(reply, request.id);
        if (!found) return found.error();
        other_name = *std::move(found);
        go_on(other_name.empty() || other_name == name(shared) ? Step::next_hint : Step::verify);
        break;
      }
      case Step::verify: {
        const auto record = shared.layout->outcome(reply, LookupRequest{.what = request.id}, other_name);
        go_on(record && *record ? Step::undo : Step::next_hint);
        break;
      }
      case Step::undo:
        return core::id_holds_another_key().about(request.key.str(), request.id.str());
      case Step::acquire:
      case Step::next_hint:
        break;
    }
    return *grant;
  }
};

/// A second script follows if the first was sent more than once and found no lease: it reads the evidence
/// whether an earlier copy released the lock. Its delay is harmless, see core::judge_repeated_release.
struct ReleaseOperation {
  using Outcome = ReleaseOutcome;
  ReleaseRequest request;
  FoundByHint at = {};
  std::optional<Absence> found = {};  ///< by the first script, if there is a second
  bool more = false;                  ///< another command must follow
  bool relies_on_proof = false;       ///< see LockLayout
  bool drops_hint = false;            ///< the lock is released; its hint goes too

  Result<RoutedCommand> command(const SharedLocks& shared, By by) {
    const auto& layout = *shared.layout;
    if (drops_hint) return layout.drop_hint(request.lock.id);
    if (at.is_next(shared, request)) return FoundByHint::command(shared, request);
    if (found) return layout.release_evidence(request.lock, at.name(), by);
    const bool in_doubt = request.acquire_may_be_repeated || shared.unanswered.contains(request.lock.id);
    relies_on_proof = !is_break() && !in_doubt && layout.relies_on_proofs() && proof_holds();
    const auto how = is_break()        ? Release::by_force
                     : in_doubt        ? Release::for_good
                     : relies_on_proof ? Release::proven
                                       : Release::plain;
    return layout.release(request.lock, at.name(), how, by);
  }
  Result<Outcome> outcome(SharedLocks& shared, const Result<Reply>& answer, const Call& call) {
    const auto& lock = request.lock;
    // Without an answer too: a hint that stays expires with the lease that it was written for.
    if (drops_hint) return Released{};
    if (!answer) return about(answer.error(), lock.subject());
    shared.unanswered.answered(server_of_connection(call.connection()));
    if (at.is_next(shared, request)) return take_hint(shared, **answer);
    if (found) return judge(shared, **answer);
    auto outcome = shared.layout->released(**answer, lock);
    // The lease may have expired before the script freed it; no other id was granted it.
    if (relies_on_proof && !proof_holds() && outcome && std::holds_alternative<Released>(*outcome)) {
      return Absence::expired;
    }
    const auto* absence = outcome ? std::get_if<Absence>(&*outcome) : nullptr;
    const bool repeated = call.was_repeated() || request.asked_before;
    // A lease that was found expired was not released by any copy.
    if (repeated && absence != nullptr && *absence != Absence::expired) found = *absence;
    drops_hint = outcome && absence == nullptr && (!at.name().empty() || may_have_hint(shared));
    more = found.has_value() || drops_hint;
    return outcome;
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(more, false); }

  [[nodiscard]] bool is_break() const noexcept { return !request.broken_because.empty(); }

 private:
  /// Whether the lock, whose key the caller knows, may be one that outlives its process: those have a hint.
  /// The mark of a break is found through it.
  [[nodiscard]] bool may_have_hint(const SharedLocks& shared) const {
    return request.lock.key && request.durability == Durability::machine && !is_break() &&
           shared.layout->finds_ids_by_hint();
  }
  [[nodiscard]] bool proof_holds() const {
    return request.proof && !request.proof->lost && BootClock::now() < request.proof->until;
  }
  [[nodiscard]] Result<Outcome> take_hint(const SharedLocks& shared, const redisReply& reply) {
    const auto there = at.take(shared, reply, request);
    if (!there) return there.error();
    more = *there;
    // Without a hint there is nothing to release, and no trace of an earlier release.
    if (!*there && request.asked_before) return decide({});
    return Absence::not_found;
  }
  [[nodiscard]] Result<Outcome> judge(const SharedLocks& shared, const redisReply& reply) const {
    const auto evidence = shared.layout->evidence(reply, request.lock);
    if (!evidence) return evidence.error();
    return decide(*evidence);
  }
  [[nodiscard]] Result<Outcome> decide(const core::ReleaseEvidence& evidence) const {
    const auto absence = found.value_or(Absence::not_found);
    // A break leaves the mark: an earlier copy of this request broke the lock.
    if (is_break()) return evidence.broken ? Outcome(Released{}) : Outcome(absence);
    switch (core::judge_repeated_release(request.proof, evidence, BootClock::now())) {
      case core::RepeatedRelease::done:
        return Released{};
      case core::RepeatedRelease::absent:
        return absence;
      case core::RepeatedRelease::unknown:
        break;
    }
    return about(core::release_is_unknown(), request.subject());
  }
};

/// A request about the expiry of a held lock. Where ids are found by hint, the hint of a lock that outlives
/// its process is written anew, so that it lasts as long as the lease.
template <class Request>
struct ExtendOperation {
  using Outcome = typename Request::Outcome;
  Request request;
  FoundByHint at = {};
  std::optional<Extended> hinting = {};  ///< the new expiry, while the hint is written
  bool more = false;                     ///< another command must follow
  bool waits_for_replicas = false;
  BootTime began = BootClock::now();

  Result<RoutedCommand> command(const SharedLocks& shared, By by) const {
    const auto& lock = request.lock;
    if (at.is_next(shared, request)) return FoundByHint::command(shared, request);
    if (!hinting) return shared.layout->command(request, at.name(), by);
    const auto name = lock.key ? shared.layout->names().lock_key(*lock.key).value_or_throw() : at.name();
    return shared.layout->write_hint(lock.id, name, request.ttl, Hint::in_any_case);
  }
  Result<Outcome> outcome(SharedLocks& shared, const Result<Reply>& answer, const Call& call) {
    const auto subject = request.lock.subject();
    if (!answer) {
      const bool nothing_changed = !call.was_sent() || at.is_next(shared, request);
      const auto error = about(answer.error(), subject);
      return nothing_changed ? error.with(Effect::none) : error;
    }
    if (at.is_next(shared, request)) {
      const auto there = at.take(shared, **answer, request);
      if (!there) return about(there.error(), subject).with(Effect::none);
      more = *there;
      return Absence::not_found;
    }
    if (hinting) {
      if (is_error(**answer)) return about(error_of(**answer), subject);
      return *hinting;
    }
    auto outcome = shared.layout->outcome(**answer, request, at.name());
    // If the call was resent, another copy may have been carried out, or may still be.
    if (!outcome && !call.was_repeated() && refused_before_writing(**answer)) {
      return outcome.error().with(Effect::none);
    }
    if (auto* extended = outcome ? std::get_if<Extended>(&*outcome) : nullptr; extended != nullptr) {
      extended->may_be_repeated = call.was_repeated();
      shared.learn_time(extended->expires_at - request.ttl.length(), began, call, waits_for_replicas);
      if (request.durability == Durability::machine && shared.layout->finds_ids_by_hint())
        hinting = *extended;
      more = hinting.has_value();
    }
    return outcome;
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(more, false); }

  // See Acknowledged. Nothing is undone: the lease may last longer than its holder can prove.
  static bool must_be_acknowledged(const Outcome& outcome) {
    return std::holds_alternative<Extended>(outcome);
  }
  static bool has_written() { return true; }
  static Outcome acknowledged(Outcome outcome, const ReplicaWait&) { return outcome; }
  [[nodiscard]] Error unacknowledged(const ReplicaWait& wait) const {
    return about(Error(ErrorCode::ServiceUnavailable,
                       "the lease was not extended for certain: " + wait.shortage() +
                           " (min_replicas, replica_timeout). Check the server's replicas"),
                 request.lock.subject());
  }
};

/// A request that reads a lock. Its default outcome is that of a lock that is not there.
template <class Request>
struct ReadOperation {
  using Outcome = typename Request::Outcome;
  Request request;
  FoundByHint at = {};
  bool more = false;  ///< another command must follow

  Result<RoutedCommand> command(const SharedLocks& shared, By by) const {
    if (at.is_next(shared, request)) return FoundByHint::command(shared, request);
    return shared.layout->command(request, at.name(), by);
  }
  Result<Outcome> outcome(SharedLocks& shared, const Result<Reply>& answer, const Call&) {
    if (!answer) return about(answer.error(), request.subject());
    if (!at.is_next(shared, request)) return shared.layout->outcome(**answer, request, at.name());
    const auto there = at.take(shared, **answer, request);
    if (!there) return there.error();
    more = *there;
    return Outcome();
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(more, false); }
};

/// The operation of each request that is sent as a script.
inline AcquireOperation operation_of(AcquireRequest request, const SharedLocks& shared) {
  if (shared.endpoint->options().fence_floor_clock && !request.counter_lifetime)
    request.counter_lifetime = CounterLifetime{};
  const auto remembered = shared.fences.of(request.key.str());
  return {.request = std::move(request), .remembered = remembered};
}
inline ReleaseOperation operation_of(ReleaseRequest request, const SharedLocks&) {
  return {.request = std::move(request)};
}
template <class Request>
auto operation_of(Request request, const SharedLocks&) {
  if constexpr (requires { request.ttl; }) {
    return ExtendOperation<Request>{.request = std::move(request)};
  } else {
    return ReadOperation<Request>{.request = std::move(request)};
  }
}

/// A background operation whose outcome is ignored.
struct CleanupOperation {
  using Outcome = Ok;
  LockKey key;

  Result<RoutedCommand> command(const SharedLocks& shared, By by) const {
    return shared.layout->cleanup(key, by);
  }
  Result<Outcome> outcome(SharedLocks&, const Result<Reply>&, const Call&) const { return Ok{}; }
};

inline void give_back(SharedLocks& shared, const LockKey& key, const LockId& id) {
  start_script(shared.shared_from_this(), ReleaseOperation{{.lock = {.id = id, .key = key}}},
               {.answer_timeout = shared.endpoint->options().command_timeout}, {},
               [](const Result<ReleaseOutcome>&) {});
}

}  // namespace holdfast::redis
