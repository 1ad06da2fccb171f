#include <algorithm>
#include <array>

#include "core/fence_limits.hpp"
#include "core/uuid.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/listing_call.hpp"
#include "engine/redis/lock_commands.hpp"
#include "engine/redis/lock_listing.hpp"
#include "engine/redis/script_call.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/unanswered_acquires.hpp"
#include "sys/operation.hpp"
#include "sys/process.hpp"
#include "sys/random.hpp"

namespace holdfast {
namespace redis {
namespace {

using std::chrono::milliseconds;

/// What the operations under way share; they may outlive the backend that began them.
struct Shared : std::enable_shared_from_this<Shared> {
  Shared(std::shared_ptr<const Endpoint> at, std::shared_ptr<Client> with, Layout names,
         std::shared_ptr<Log> sink)
      : endpoint(std::move(at)), client(std::move(with)), layout(std::move(names)), log(std::move(sink)) {}

  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Client> client;
  Layout layout;
  std::shared_ptr<Log> log;
  UnansweredAcquires unanswered = {};
  std::atomic<BootClock::rep> cleanup_again_at = 0;
};

/// Releases in the background what an id may come to hold though its caller will not know.
void give_back(Shared& shared, const LockKey& key, const LockId& id);

/// What each operation is: `command` is how it is asked, `outcome` what an answer means.
struct AcquireOperation {
  using Outcome = AcquireOutcome;
  AcquireRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    return acquire_command(shared.layout, request, by);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) const {
    // One copy may have been answered and another still be on its way.
    if ((!answer && call.was_sent()) || call.was_repeated()) shared.unanswered.add(request.id);
    if (!answer) return answer.error().about(request.key.str(), request.id.str());
    auto outcome = acquire_outcome(**answer, request);
    const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    // The caller takes this for the end of the id; the other copy may still be granted.
    if (call.was_repeated() && granted == nullptr) give_back(shared, request.key, request.id);
    if (granted != nullptr && shared.log) {
      if (auto warning = core::high_fence_warning(granted->fence, request.key)) {
        shared.log->write(LogLevel::warning, *std::move(warning));
      }
    }
    return outcome;
  }
};

struct ReleaseOperation {
  using Outcome = ReleaseOutcome;
  ReleaseRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    const bool for_good = shared.unanswered.contains(request.lock.id);
    return release_command(shared.layout, request.lock, for_good ? Release::for_good : Release::plain, by);
  }
  Result<Outcome> outcome(Shared& shared, const Result<Reply>& answer, const Call& call) const {
    const auto& lock = request.lock;
    if (!answer) return answer.error().about(lock.key ? lock.key->str() : "", lock.id.str());
    auto outcome = release_outcome(**answer, lock);
    if (!outcome) return outcome;
    shared.unanswered.remove(lock.id);
    // Asked again because the first answer was lost, it finds nothing: then the first one did it.
    const auto* absence = std::get_if<Absence>(&*outcome);
    if (call.was_repeated() && absence != nullptr && *absence != Absence::expired) return Released{};
    return outcome;
  }
};

struct ExtendOperation {
  using Outcome = ExtendOutcome;
  ExtendRequest request;

  Result<std::string> command(const Shared& shared, By by) const {
    return extend_command(shared.layout, request.lock, request.ttl, by);
  }
  Result<Outcome> outcome(Shared&, const Result<Reply>& answer, const Call& call) const {
    const auto& lock = request.lock;
    if (!answer) return answer.error().about(lock.key ? lock.key->str() : "", lock.id.str());
    auto outcome = extend_outcome(**answer, lock);
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

/// Nobody waits for it, and how it ends is of no interest.
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

constexpr Subscriber::Purpose releases{
    .wakes = Wakes::one,
    .unheard =
        "releases cannot be listened to, so waiters only poll; let the user subscribe to the lock prefix's "
        "channels"};

class RedisLockBackend final : public LockBackend {
 public:
  RedisLockBackend(std::shared_ptr<Shared> shared, std::string authority)
      : shared_(std::move(shared)),
        authority_(std::move(authority)),
        subscriber_(shared_->endpoint, shared_->log, releases) {}

  ~RedisLockBackend() override { shared_->client->close(); }

  [[nodiscard]] Capabilities capabilities() const noexcept override { return redis_capabilities; }
  [[nodiscard]] std::string authority() const override { return authority_; }

  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    start(AcquireOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    start(ReleaseOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    // A renewal cannot wait for a connection that may be dead until the lease has ended. Below the lower
    // limit a busy machine would be taken for a dead one.
    const auto sixth = std::max<BootClock::duration>(request.ttl.length() / 6, milliseconds(20));
    start(ExtendOperation{std::move(request)}, std::min(patience(), sixth), stop, std::move(done));
  }

  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    clean_up(request.key);
    start(IsLockedOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    start(LookupOperation{std::move(request)}, patience(), stop, std::move(done));
  }

  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    auto listing = LockListing::start(shared_->layout, request);
    if (!listing) return done(listing.error());
    start_listing(shared_, *std::move(listing), request.deadline, stop, std::move(done));
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    if (!home_.is_here()) return nullptr;
    const auto lock_key = shared_->layout.lock_key(key);
    if (!lock_key) return nullptr;  // the attempts say why
    return subscriber_.watch(shared_->layout.channel(*lock_key), deadline, stop);
  }

  void begin_watch(const LockKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    const auto lock_key = shared_->layout.lock_key(key);
    if (!home_.is_here() || !lock_key) return done(std::unique_ptr<Watch>());
    subscriber_.begin_watch(shared_->layout.channel(*lock_key), deadline, stop, std::move(done));
  }

  void wait(Completion& completion) override { shared_->client->wait(completion); }

 private:
  template <class Operation>
  void start(Operation operation, BootClock::duration patience, const std::stop_token& stop,
             Done<typename Operation::Outcome> done) {
    if (auto early = refuse_early(operation.request.deadline, stop)) return done(*std::move(early));
    const auto deadline = operation.request.deadline;
    start_script(shared_, std::move(operation), {.deadline = deadline, .patience = patience}, stop,
                 std::move(done));
  }

  /// At most one a second, sent before the question it goes with, so that the answer is not delayed by much
  /// and, being about what ended seconds ago, not changed.
  void clean_up(const LockKey& key) {
    if (!options().cleanup_in_is_locked || !home_.is_here()) return;
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
    if (!home_.is_here()) return sys::used_after_fork();
    return sys::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] const RedisOptions& options() const noexcept { return shared_->endpoint->options(); }
  [[nodiscard]] BootClock::duration patience() const noexcept { return options().command_timeout; }

  const std::shared_ptr<Shared> shared_;
  const std::string authority_;
  const sys::Birthplace home_;
  Subscriber subscriber_;
};

/// The id of the store that counts the fences, made by whoever comes first. It lives and dies with the
/// counters, so a store that lost them is another authority.
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
  sys::random_bytes(bytes);
  if (auto made = ask({"SET", key, core::uuid_v4(bytes), "NX"}); !made) return made;
  auto found = ask({"GET", key});
  if (found && found->empty()) {
    return Error(ErrorCode::ServiceUnavailable,
                 client.endpoint().name() + ": the key " + key + " does not stay; is its memory full?");
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
  return std::shared_ptr<LockBackend>(
      std::make_shared<redis::RedisLockBackend>(std::move(shared), *std::move(authority)));
}

}  // namespace holdfast
