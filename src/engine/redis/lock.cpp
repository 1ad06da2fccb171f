#include <algorithm>
#include <array>
#include <mutex>

#include "core/uuid.hpp"
#include "engine/redis/acknowledged.hpp"
#include "engine/redis/change_messages.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_calls.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/waiter_count.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"

namespace holdfast {
namespace redis {
namespace {

using std::chrono::milliseconds;

/// WAIT counts the replicas of one node, behind a write of the same connection; a call may be redirected.
Error no_replicas_on_cluster() {
  return {ErrorCode::InvalidArgument, "min_replicas is not supported on a Redis cluster; omit it"};
}

constexpr Subscriber::Purpose releases{.wakes = Wakes::one,
                                       .unheard =
                                           "cannot subscribe to releases, so waiters poll; allow the Redis "
                                           "user to subscribe to the lock prefix's "
                                           "channels"};

class RedisLockBackend final : public LockBackend {
 public:
  RedisLockBackend(std::shared_ptr<SharedLocks> shared, PickEndpoint where_to_listen)
      : shared_(std::move(shared)),
        subscriber_(shared_->endpoint, shared_->log, releases, nullptr, std::move(where_to_listen)) {}

  ~RedisLockBackend() override {
    if (waits_) waits_->client->close();
    shared_->client->close();
  }

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    auto capabilities = redis_capabilities;
    capabilities.authority_per_key = shared_->layout->authority_per_key();
    return capabilities;
  }
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
    auto listing = LockListing::start(*shared_->layout, request, shared_->client->masters());
    if (!listing) return done(listing.error());
    start_listing(shared_, *std::move(listing), request.deadline, stop, std::move(done));
  }

  void submit(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    WaiterCount count(shared_->layout->names(), request.keys, shared_->client->masters());
    if (!count.command(By::sha)) return done(std::move(count).page());
    start_listing(shared_, std::move(count), request.deadline, stop, std::move(done));
  }

  void submit(WatchRequest request, std::stop_token stop, Done<std::unique_ptr<Watch>> done) override {
    const auto& names = shared_->layout->names();
    const auto lock_key = names.lock_key(request.key);
    // This key has no valid name in Redis: the attempts to acquire it report why.
    if (!process_.is_current() || !lock_key) return done(std::unique_ptr<Watch>());
    subscriber_.watch(names.channel(*lock_key), request.deadline, stop, std::move(done));
  }

  /// In a cluster a message reaches the subscribers of every node, so one subscription hears all releases.
  void submit(FollowLocks request, std::stop_token stop, Done<std::unique_ptr<ChangeFeed>> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    subscriber_.follow(
        shared_->layout->names().channel_pattern(),
        [layout = shared_->layout](std::string_view channel, std::string_view payload) {
          return lock_change(layout->names(), channel, payload);
        },
        request.deadline, stop, std::move(done));
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
    if (!options().cluster_nodes.empty()) return done(no_replicas_on_cluster());
    const auto deadline = operation.request.deadline;
    // A call may wait behind the WAIT of another one, and then for its own.
    const auto timeout = options().replica_timeout;
    start_acknowledged(waits(), std::move(operation), ReplicaWait(replicas, timeout),
                       {.deadline = deadline, .patience = patience + timeout}, stop, std::move(done));
  }

  /// Connects when it is first needed.
  [[nodiscard]] const std::shared_ptr<Acknowledging<SharedLocks>>& waits() {
    const std::lock_guard lock(waits_mutex_);
    if (!waits_) {
      waits_ = std::make_shared<Acknowledging<SharedLocks>>(shared_, Client::make(shared_->endpoint));
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

  const std::shared_ptr<SharedLocks> shared_;
  const os::ProcessIdentity process_;
  std::mutex waits_mutex_;
  std::shared_ptr<Acknowledging<SharedLocks>> waits_;  ///< set once
  Subscriber subscriber_;
};

/// The id of the store, created by the first client. It is stored with the counters, so a store that lost
/// them gets another one.
Result<std::string> find_store_id(Transport& client, const LockLayout& layout) {
  const auto deadline = saturating_add(BootClock::now(), client.endpoint().options().connect_timeout);
  const auto ask = [&](RoutedCommand command) -> Result<std::string> {
    auto answer = client.call_routed(std::move(command), deadline, true);
    if (!answer) return answer.error();
    if (is_error(**answer)) return client.endpoint().about(layout.explained(**answer, error_of(**answer)));
    return std::string(text_of(**answer));
  };
  std::array<unsigned char, 16> bytes{};
  os::random_bytes(bytes);
  const auto new_id = core::uuid_v4(bytes);
  auto found = ask(layout.read_store_id(new_id));
  if (!found || !found->empty()) return found;
  if (auto create = layout.create_store_id(new_id)) {
    if (auto made = ask(*std::move(create)); !made) return made;
    found = ask(layout.read_store_id(new_id));
  }
  if (found && found->empty()) {
    return Error(
        ErrorCode::ServiceUnavailable,
        client.endpoint().name() + ": the key " + layout.names().authority_key() +
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
  auto layout = redis::LockLayout::make(options);
  if (!layout) return layout.error();
  if (options.min_replicas > 0 && !options.cluster_nodes.empty()) return redis::no_replicas_on_cluster();
  auto way = redis::open_transport(options, "lock_prefix", (*layout)->names().prefix(), log, observer);
  if (!way) return way.error();
  auto authority = redis::find_store_id(*way->transport, **layout);
  if (!authority) return authority.error();
  auto shared = std::make_shared<redis::SharedLocks>(std::move(way->endpoint), std::move(way->transport),
                                                     *std::move(layout), std::move(log), std::move(observer));
  shared->authority.set(*authority);
  return std::shared_ptr<LockBackend>(
      std::make_shared<redis::RedisLockBackend>(std::move(shared), std::move(way->where_to_listen)));
}

}  // namespace holdfast
