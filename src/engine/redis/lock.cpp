#include <algorithm>
#include <array>
#include <mutex>

#include "core/lock_decisions.hpp"
#include "core/repeated_release.hpp"
#include "core/uuid.hpp"
#include "core/wall_time.hpp"
#include "engine/redis/acknowledged.hpp"
#include "engine/redis/calls.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/clock_jumps.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/incidents.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_commands.hpp"
#include "engine/redis/remembered_fences.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/unanswered_acquires.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"

namespace holdfast {
namespace redis {
namespace {

using std::chrono::milliseconds;

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
struct Shared : std::enable_shared_from_this<Shared> {
  Shared(std::shared_ptr<const Endpoint> at, std::shared_ptr<Client> with, Layout names,
         std::shared_ptr<Log> sink, std::shared_ptr<Observer> observer)
      : endpoint(std::move(at)),
        client(std::move(with)),
        layout(std::move(names)),
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
  std::shared_ptr<Client> client;
  Layout layout;
  std::shared_ptr<Log> log;
  UnansweredAcquires unanswered = {};
  LastAuthority authority = {};
  RememberedFences fences = RememberedFences();
  Incidents incidents;
  std::mutex clock_mutex = {};
  std::array<ClockJumps, 2> clocks = {};
  std::atomic<BootClock::rep> cleanup_again_at = 0;
  std::atomic<bool> warned_of_epoch = false;
};

/// Once, because the epoch only rises.
void warn_of_high_epoch(Shared& shared) {
  const auto* const watch = shared.endpoint->watch();
  if (watch == nullptr || watch->epoch() <= highest_epoch || shared.warned_of_epoch.exchange(true)) return;
  shared.log->write(LogLevel::warning,
                    shared.endpoint->name() + ": the sentinels' epoch " + std::to_string(watch->epoch()) +
                        " is above " + std::to_string(highest_epoch) +
                        " and not applied: a failover may repeat fences. See `holdfast doctor`");
}

/// Releases an id in the background that may still get the lock after its caller has stopped.
void give_back(Shared& shared, const LockKey& key, const LockId& id);

/// The operations: `command` builds the request, `outcome` interprets the answer.
struct AcquireOperation {
  using Outcome = AcquireOutcome;
  AcquireRequest request;
  bool waits_for_replicas = false;
  std::uint64_t remembered = 0;  ///< the highest fence of the key that this client was granted before
  BootTime began = BootClock::now();
  GrantDetails details = {};

  Result<std::string> command(const Shared& shared, By by) const {
    return acquire_command(shared.layout, request, by, remembered);
  }
  [[nodiscard]] std::size_t fence_floor_at(std::string_view bytes) const {
    return redis::fence_floor_at(bytes, request, remembered);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) {
    if (answer) shared.unanswered.answered();
    // One copy may have been answered while another is still pending.
    if ((!answer && call.was_sent()) || call.was_repeated())
      shared.unanswered.add(request.id, BootClock::now());
    if (!answer) return answer.error().about(request.key.str(), request.id.str());
    auto outcome = acquire_outcome(**answer, request);
    auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    // The caller will not use the id again, but the other copy may still be granted. After a transient error
    // the caller retries with the same id, or releases it.
    const bool id_ends = granted == nullptr && (outcome || !outcome.error().transient());
    if (call.was_repeated() && id_ends) give_back(shared, request.key, request.id);
    if (granted == nullptr) return outcome;
    granted->may_be_repeated = shared.unanswered.contains(request.id);
    details = grant_details(**answer);
    observe(shared, *granted, call);
    shared.authority.set(granted->authority);
    if (shared.log) {
      warn_of_high_epoch(shared);
      if (auto warning = core::high_fence_warning(granted->fence, request.key)) {
        shared.log->write(LogLevel::warning, *std::move(warning));
      }
    }
    return outcome;
  }

  /// Notices lost writes and jumps of the clock.
  void observe(Shared& shared, const Granted& granted, const Call& call) const {
    using Authority = RememberedFences::Authority;
    const auto authority = shared.fences.granted(request.key.str(), granted.fence.value(), granted.authority);
    if (authority == Authority::replaced) {
      shared.incidents.store_replaced(request.key, granted.fence);
    } else if (authority == Authority::same && details.low_counter && *details.low_counter < remembered) {
      shared.incidents.fence_regressed(request.key, *details.low_counter, remembered, granted.fence);
    }
    // The expiry of a lock that was already held was counted at another time.
    if (!details.repeated) {
      shared.learn_time(granted.expires_at - request.ttl.length(), began, call, waits_for_replicas);
    }
  }

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
  Result<std::string> undo(const Shared& shared, By by) const {
    // For good: the caller may have the id in doubt, and a late copy of this release must not meet a new
    // grant of the id.
    return release_command(shared.layout, {.id = request.id, .key = request.key}, Release::for_good, by);
  }
  [[nodiscard]] Error undone(Shared& shared, const Result<Reply>& answer, const Error& error) const {
    const LockRef lock{.id = request.id, .key = request.key};
    if (answer && release_outcome(**answer, lock)) return error;
    shared.unanswered.add(request.id, BootClock::now());  // so that it is released for good
    give_back(shared, request.key, request.id);
    return error;
  }
};

/// A second script follows if the first was sent more than once and found no lease: it reads the evidence
/// whether an earlier copy released the lock. Its delay is harmless, see core::judge_repeated_release.
struct ReleaseOperation {
  using Outcome = ReleaseOutcome;
  ReleaseRequest request;
  std::optional<Absence> found = {};  ///< by the first script, if there is a second

  Result<std::string> command(const Shared& shared, By by) const {
    if (found) return release_evidence_command(shared.layout, request.lock, by);
    const bool in_doubt = request.acquire_may_be_repeated || shared.unanswered.contains(request.lock.id);
    const auto how = is_break() ? Release::by_force : in_doubt ? Release::for_good : Release::plain;
    return release_command(shared.layout, request.lock, how, by);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) {
    const auto& lock = request.lock;
    if (!answer) return answer.error().about(lock.key ? lock.key->str() : "", lock.id.str());
    shared.unanswered.answered();
    if (found) return judge(**answer);
    auto outcome = release_outcome(**answer, lock);
    const auto* absence = outcome ? std::get_if<Absence>(&*outcome) : nullptr;
    const bool repeated = call.was_repeated() || request.asked_before;
    // A lease that was found expired was not released by any copy.
    if (repeated && absence != nullptr && *absence != Absence::expired) found = *absence;
    needs_evidence = found.has_value();
    return outcome;
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(needs_evidence, false); }

  [[nodiscard]] bool is_break() const noexcept { return !request.broken_because.empty(); }
  [[nodiscard]] Result<Outcome> judge(const redisReply& reply) const {
    const auto evidence = release_evidence(reply, request.lock);
    if (!evidence) return evidence.error();
    // A break leaves the mark: an earlier copy of this request broke the lock.
    if (is_break()) return evidence->broken ? Outcome(Released{}) : Outcome(*found);
    switch (core::judge_repeated_release(request.proof, *evidence, BootClock::now())) {
      case core::RepeatedRelease::done:
        return Released{};
      case core::RepeatedRelease::absent:
        return *found;
      case core::RepeatedRelease::unknown:
        break;
    }
    return core::release_is_unknown().about(request.lock.key ? request.lock.key->str() : "",
                                            request.lock.id.str());
  }

  bool needs_evidence = false;  ///< `found` was just set
};

struct ExtendOperation {
  using Outcome = ExtendOutcome;
  ExtendRequest request;
  bool waits_for_replicas = false;
  BootTime began = BootClock::now();

  Result<std::string> command(const Shared& shared, By by) const {
    return extend_command(shared.layout, request.lock, request.ttl, by);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) const {
    const auto& lock = request.lock;
    if (!answer) {
      const auto error = answer.error().about(lock.key ? lock.key->str() : "", lock.id.str());
      return call.was_sent() ? error : error.with(Effect::none);
    }
    auto outcome = extend_outcome(**answer, lock);
    // If the call was resent, another copy may have been carried out, or may still be.
    if (!outcome && !call.was_repeated() && refused_before_writing(**answer)) {
      return outcome.error().with(Effect::none);
    }
    if (auto* extended = outcome ? std::get_if<Extended>(&*outcome) : nullptr; extended != nullptr) {
      extended->may_be_repeated = call.was_repeated();
      shared.learn_time(extended->expires_at - request.ttl.length(), began, call, waits_for_replicas);
    }
    return outcome;
  }

  // See Acknowledged. Nothing is undone: the lease may last longer than its holder can prove.
  static bool must_be_acknowledged(const Outcome& outcome) {
    return std::holds_alternative<Extended>(outcome);
  }
  static bool has_written() { return true; }
  static Outcome acknowledged(Outcome outcome, const ReplicaWait&) { return outcome; }
  [[nodiscard]] Error unacknowledged(const ReplicaWait& wait) const {
    const auto& lock = request.lock;
    return Error(ErrorCode::ServiceUnavailable,
                 "the lease was not extended for certain: " + wait.shortage() +
                     " (min_replicas, replica_timeout). Check the server's replicas")
        .about(lock.key ? lock.key->str() : "", lock.id.str());
  }
};

struct IsLockedOperation {
  using Outcome = bool;
  IsLockedRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    return is_locked_command(shared.layout, request.key, by);
  }
  Result<Outcome> outcome(Shared&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return is_locked_outcome(**answer, request.key);
  }
};

struct LookupOperation {
  using Outcome = std::optional<LockRecord>;
  LookupRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    return lookup_command(shared.layout, request, by);
  }
  Result<Outcome> outcome(Shared&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error();
    return lookup_outcome(**answer, request);
  }
};

/// A background operation whose outcome is ignored.
struct CleanupOperation {
  using Outcome = Ok;
  LockKey key;

  Result<std::string> command(const Shared& shared, By by) const {
    return cleanup_command(shared.layout, key, by);
  }
  Result<Outcome> outcome(Shared&, const Result<Reply>&, const Call&) const { return Ok{}; }
};

void give_back(Shared& shared, const LockKey& key, const LockId& id) {
  start_script(shared.shared_from_this(), ReleaseOperation{{.lock = {.id = id, .key = key}}},
               {.patience = shared.endpoint->options().command_timeout}, {},
               [](const Result<ReleaseOutcome>&) {});
}

constexpr Subscriber::Purpose releases{.wakes = Wakes::one,
                                       .unheard =
                                           "cannot subscribe to releases, so waiters poll; allow the Redis "
                                           "user to subscribe to the lock prefix's "
                                           "channels"};

class RedisLockBackend final : public LockBackend {
 public:
  explicit RedisLockBackend(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), subscriber_(shared_->endpoint, shared_->log, releases) {}

  ~RedisLockBackend() override {
    if (waits_) waits_->client->close();
    shared_->client->close();
  }

  [[nodiscard]] Capabilities capabilities() const noexcept override { return redis_capabilities; }
  [[nodiscard]] std::string authority() const override { return shared_->authority.get(); }

  void submit(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    // Before the mutex below, which a thread of the parent may have held when this process was forked.
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    if (options().fence_floor_clock && !request.counter_lifetime)
      request.counter_lifetime = CounterLifetime{};
    const auto replicas = request.min_replicas.value_or(options().min_replicas);
    const auto remembered = shared_->fences.of(request.key.str());
    AcquireOperation operation{
        .request = std::move(request), .waits_for_replicas = replicas > 0, .remembered = remembered};
    start_change(std::move(operation), replicas, patience(), stop, std::move(done));
  }

  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    start(ReleaseOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    // A renewal must not wait for a dead connection until the lease has expired. Below the lower limit a busy
    // machine would be mistaken for a dead one.
    const auto sixth = std::max<BootClock::duration>(request.ttl.length() / 6, milliseconds(20));
    const bool by_idle_io = request.by_idle_io;
    const auto replicas = request.min_replicas.value_or(options().min_replicas);
    ExtendOperation operation{.request = std::move(request), .waits_for_replicas = replicas > 0};
    start_change(std::move(operation), replicas, std::min(patience(), sixth), stop, std::move(done),
                 by_idle_io);
  }

  void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    clean_up(request.key);
    start(IsLockedOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void submit(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    start(LookupOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void submit(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    auto listing = LockListing::start(shared_->layout, request);
    if (!listing) return done(listing.error());
    start_listing(shared_, *std::move(listing), request.deadline, stop, std::move(done));
  }

  void submit(WatchRequest request, std::stop_token stop, Done<std::unique_ptr<Watch>> done) override {
    const auto lock_key = shared_->layout.lock_key(request.key);
    // This key has no valid name in Redis: the attempts to acquire it report why.
    if (!process_.is_current() || !lock_key) return done(std::unique_ptr<Watch>());
    subscriber_.watch(shared_->layout.channel(*lock_key), request.deadline, stop, std::move(done));
  }

  [[nodiscard]] std::shared_ptr<IdleIo> idle_io() override { return shared_->client; }
  void wait(Completion& completion) override { shared_->client->wait(completion); }

 private:
  template <class Operation>
  void start(Operation operation, BootClock::duration patience, const std::stop_token& stop,
             Done<typename Operation::Outcome> done, bool by_idle_io = false) {
    if (auto early = refuse_early(operation.request.deadline, stop)) return done(*std::move(early));
    const auto deadline = operation.request.deadline;
    start_script(shared_, std::move(operation),
                 {.deadline = deadline, .patience = patience, .by_idle_io = by_idle_io}, stop,
                 std::move(done));
  }

  /// A change that this many replicas must acknowledge.
  template <class Operation>
  void start_change(Operation operation, std::uint32_t replicas, BootClock::duration patience,
                    const std::stop_token& stop, Done<typename Operation::Outcome> done,
                    bool by_idle_io = false) {
    if (replicas == 0) return start(std::move(operation), patience, stop, std::move(done), by_idle_io);
    if (auto early = refuse_early(operation.request.deadline, stop)) return done(*std::move(early));
    const auto deadline = operation.request.deadline;
    // A call may wait behind the WAIT of another one, and then for its own.
    const auto timeout = options().replica_timeout;
    start_acknowledged(waits(), std::move(operation), ReplicaWait(replicas, timeout),
                       {.deadline = deadline, .patience = patience + timeout}, stop, std::move(done));
  }

  /// Connects when it is first needed.
  [[nodiscard]] const std::shared_ptr<Acknowledging<Shared>>& waits() {
    const std::lock_guard lock(waits_mutex_);
    if (!waits_) {
      waits_ = std::make_shared<Acknowledging<Shared>>(shared_, Client::make(shared_->endpoint));
    }
    return waits_;
  }

  /// At most one cleanup a second, sent before the request it accompanies. It hardly delays that answer, and
  /// does not change it: it deletes only locks that expired seconds ago.
  void clean_up(const LockKey& key) {
    if (!options().cleanup_in_is_locked || !process_.is_current()) return;
    const auto now = BootClock::now();
    auto again_at = shared_->cleanup_again_at.load();
    const auto next = (now + std::chrono::seconds(1)).time_since_epoch().count();
    if (now.time_since_epoch().count() < again_at ||
        !shared_->cleanup_again_at.compare_exchange_strong(again_at, next)) {
      return;
    }
    start_script(shared_, CleanupOperation{key}, {.patience = patience()}, {}, [](const Result<Ok>&) {});
  }

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] const RedisOptions& options() const noexcept { return shared_->endpoint->options(); }
  [[nodiscard]] BootClock::duration patience() const noexcept { return options().command_timeout; }

  const std::shared_ptr<Shared> shared_;
  const os::ProcessIdentity process_;
  std::mutex waits_mutex_;
  std::shared_ptr<Acknowledging<Shared>> waits_;  ///< set once
  Subscriber subscriber_;
};

/// The id of the store that counts the fences, created by the first client. It is stored with the counters,
/// so a store that lost them gets another authority.
Result<std::string> find_authority(Client& client, const Layout& layout) {
  const auto deadline = saturating_add(BootClock::now(), client.endpoint().options().connect_timeout);
  const auto ask = [&](Command command) -> Result<std::string> {
    auto answer = client.call(std::move(command), deadline, true);
    if (!answer) return answer.error();
    if (is_error(**answer)) return client.endpoint().about(error_of(**answer));
    return std::string(text_of(**answer));
  };
  const auto& key = layout.authority_key();
  if (auto found = ask({"GET", key}); !found || !found->empty()) return found;
  std::array<unsigned char, 16> bytes{};
  os::random_bytes(bytes);
  if (auto made = ask({"SET", key, core::uuid_v4(bytes), "NX"}); !made) return made;
  auto found = ask({"GET", key});
  if (found && found->empty()) {
    return Error(
        ErrorCode::ServiceUnavailable,
        client.endpoint().name() + ": the key " + key +
            ", which identifies this store, is empty or was deleted. If it is empty, delete it; otherwise "
            "find the program that deletes keys, or check for evictions (maxmemory-policy)");
  }
  return found;
}

}  // namespace
}  // namespace redis

Result<std::shared_ptr<LockBackend>> make_redis_lock_backend(const RedisOptions& options,
                                                             std::shared_ptr<Log> log,
                                                             std::shared_ptr<Observer> observer) {
  auto layout = redis::Layout::make(options.lock_prefix, options.db);
  if (!layout) return layout.error();
  auto endpoint = redis::Endpoint::from(options, observer);
  if (!endpoint) return endpoint.error();
  auto client = redis::Client::make(*endpoint);
  auto authority = redis::find_authority(*client, *layout);
  if (!authority) return authority.error();
  auto shared = std::make_shared<redis::Shared>(*std::move(endpoint), std::move(client), *std::move(layout),
                                                std::move(log), std::move(observer));
  shared->authority.set(*authority);
  return std::shared_ptr<LockBackend>(std::make_shared<redis::RedisLockBackend>(std::move(shared)));
}

}  // namespace holdfast
