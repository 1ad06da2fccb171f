#include <algorithm>
#include <array>
#include <mutex>

#include "core/lock_decisions.hpp"
#include "core/repeated_release.hpp"
#include "core/uuid.hpp"
#include "engine/redis/calls.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_commands.hpp"
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
         std::shared_ptr<Log> sink)
      : endpoint(std::move(at)), client(std::move(with)), layout(std::move(names)), log(std::move(sink)) {}

  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Client> client;
  Layout layout;
  std::shared_ptr<Log> log;
  UnansweredAcquires unanswered = {};
  LastAuthority authority = {};
  std::atomic<BootClock::rep> cleanup_again_at = 0;
};

/// Releases an id in the background that may still get the lock after its caller has stopped.
void give_back(Shared& shared, const LockKey& key, const LockId& id);

/// The operations: `command` builds the request, `outcome` interprets the answer.
struct AcquireOperation {
  using Outcome = AcquireOutcome;
  AcquireRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    return acquire_command(shared.layout, request, by);
  }
  [[nodiscard]] std::size_t fence_floor_at(std::string_view bytes) const {
    return redis::fence_floor_at(bytes, request);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) const {
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
    shared.authority.set(granted->authority);
    if (shared.log) {
      if (auto warning = core::high_fence_warning(granted->fence, request.key)) {
        shared.log->write(LogLevel::warning, *std::move(warning));
      }
    }
    return outcome;
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

  Result<std::string> command(const Shared& shared, By by) const {
    return extend_command(shared.layout, request, by);
  }
  Result<Outcome> outcome(Shared&, const Result<Reply>& answer, const Call& call) const {
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
    }
    return outcome;
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

  ~RedisLockBackend() override { shared_->client->close(); }

  [[nodiscard]] Capabilities capabilities() const noexcept override { return redis_capabilities; }
  [[nodiscard]] std::string authority() const override { return shared_->authority.get(); }

  void submit(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    start(AcquireOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    start(ReleaseOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    // A renewal must not wait for a dead connection until the lease has expired. Below the lower limit a busy
    // machine would be mistaken for a dead one.
    const auto sixth = std::max<BootClock::duration>(request.ttl.length() / 6, milliseconds(20));
    const bool by_idle_io = request.by_idle_io;
    start(ExtendOperation{std::move(request)}, std::min(patience(), sixth), stop, std::move(done),
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
  auto endpoint = redis::Endpoint::from(options, std::move(observer));
  if (!endpoint) return endpoint.error();
  auto client = redis::Client::make(*endpoint);
  auto authority = redis::find_authority(*client, *layout);
  if (!authority) return authority.error();
  auto shared = std::make_shared<redis::Shared>(*std::move(endpoint), std::move(client), *std::move(layout),
                                                std::move(log));
  shared->authority.set(*authority);
  return std::shared_ptr<LockBackend>(std::make_shared<redis::RedisLockBackend>(std::move(shared)));
}

}  // namespace holdfast
