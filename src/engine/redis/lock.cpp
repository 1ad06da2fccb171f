#include <algorithm>
#include <array>
#include <mutex>

#include "core/uuid.hpp"
#include "engine/redis/acknowledged.hpp"
#include "engine/redis/change_messages.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/key_feed.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_operations.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/waiter_count.hpp"
#include "engine/redis/wire/errors.hpp"
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

class RedisLockBackend final : public Intercepting<RedisLockBackend, LockBackend> {
 public:
  RedisLockBackend(std::shared_ptr<SharedLocks> shared, WhereToListen where_to_listen, AllServers all_servers)
      : shared_(std::move(shared)),
        all_servers_(std::move(all_servers)),
        subscriber_(shared_->endpoint, shared_->log, releases, nullptr, shared_->layout->names().channels(),
                    std::move(where_to_listen)) {}

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

  /// A request that is sent as a script; the others have overloads below.
  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    // Before the mutexes below, which a thread of the parent may have held when this process was forked.
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    CallLimits limits{.deadline = request.deadline, .answer_timeout = answer_timeout_for(request)};
    if constexpr (requires { request.min_replicas; }) {
      const auto replicas = request.min_replicas.value_or(options().min_replicas);
      if (replicas > 0)
        return start_acknowledged(std::move(request), replicas, limits, stop, std::move(done));
    }
    if constexpr (requires { request.by_idle_io; }) limits.by_idle_io = request.by_idle_io;
    start_script(shared_, operation_of(std::move(request), *shared_), limits, stop, std::move(done));
  }

  void intercept(IsLockedRequest request, std::stop_token stop, Done<bool> done) {
    clean_up(request.key);
    intercept<IsLockedRequest>(std::move(request), std::move(stop), std::move(done));
  }

  void intercept(ListRequest request, std::stop_token stop, Done<LockPage> done) {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    auto listing = LockListing::start(*shared_->layout, request, shared_->client->masters());
    if (!listing) return done(listing.error());
    if (!listing->command(By::sha)) return done(std::move(*listing).page());  // no key has a lock
    start_listing(shared_, *std::move(listing), request.deadline, stop, std::move(done));
  }

  void intercept(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    WaiterCount count(shared_->layout->names(), request.keys, shared_->client->masters());
    if (!count.command(By::sha)) return done(std::move(count).page());
    start_listing(shared_, std::move(count), request.deadline, stop, std::move(done));
  }

  void intercept(WatchRequest request, std::stop_token stop, Done<std::unique_ptr<Watch>> done) {
    const auto& names = shared_->layout->names();
    const auto lock_key = names.lock_key(request.key);
    // This key has no valid name in Redis: the attempts to acquire it report why.
    if (!process_.is_current() || !lock_key) return done(std::unique_ptr<Watch>());
    subscriber_.watch(names.channel(*lock_key), request.deadline, stop, std::move(done));
  }

  /// In a cluster a message reaches the subscribers of every node, so one subscription hears all releases;
  /// but there is no pattern for sharded channels.
  void intercept(FollowLocks request, std::stop_token stop, Done<std::unique_ptr<ChangeFeed>> done) {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    if (request.what == LockChanges::grants) return follow_grants(request.deadline, stop, std::move(done));
    if (shared_->layout->names().channels() == Channels::sharded) return done(std::unique_ptr<ChangeFeed>());
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
  void follow_grants(BootTime deadline, const std::stop_token& stop, Done<std::unique_ptr<ChangeFeed>> done) {
    const auto& layout = shared_->layout;
    auto prefix = layout->tracked_prefix();
    if (prefix.empty()) return done(std::unique_ptr<ChangeFeed>());
    open_key_feed({.prefix = std::move(prefix),
                   .meaning_of = [layout](std::string_view name) { return layout->tracked(name); },
                   .servers = all_servers_},
                  deadline, stop, std::move(done));
  }

  /// A change that this many replicas must acknowledge.
  template <class Request>
  void start_acknowledged(Request request, std::uint32_t replicas, CallLimits limits,
                          const std::stop_token& stop, Done<typename Request::Outcome> done) {
    if (!options().cluster_nodes.empty()) return done(no_replicas_on_cluster());
    // A call may wait behind the WAIT of another one, and then for its own.
    const auto timeout = options().replica_timeout;
    limits.answer_timeout += timeout;
    auto operation = operation_of(std::move(request), *shared_);
    operation.waits_for_replicas = true;
    const auto acknowledging = waits();
    if (!acknowledging) return done(acknowledging.error());
    redis::start_acknowledged(*acknowledging, std::move(operation), ReplicaWait(replicas, timeout), limits,
                              stop, std::move(done));
  }

  /// Connects when it is first needed.
  [[nodiscard]] Result<std::shared_ptr<Acknowledging<SharedLocks>>> waits() {
    const std::lock_guard lock(waits_mutex_);
    if (!waits_) {
      auto client = Client::make(shared_->endpoint);
      if (!client) return client.error();
      waits_ = std::make_shared<Acknowledging<SharedLocks>>(shared_, *std::move(client));
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
    start_script(shared_, CleanupOperation{key}, {.answer_timeout = answer_timeout()}, {},
                 [](const Result<Ok>&) {});
  }

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] const RedisOptions& options() const noexcept { return shared_->endpoint->options(); }
  [[nodiscard]] BootClock::duration answer_timeout() const noexcept { return options().command_timeout; }

  /// A renewal must not wait for a dead connection until the lease has expired. Below the lower limit a busy
  /// machine would be mistaken for a dead one.
  template <class Request>
  [[nodiscard]] BootClock::duration answer_timeout_for(const Request& request) const noexcept {
    if constexpr (requires {
                    request.lock;
                    request.ttl;
                  }) {
      const auto sixth = std::max<BootClock::duration>(request.ttl.length() / 6, milliseconds(20));
      return std::min(answer_timeout(), sixth);
    } else {
      return answer_timeout();
    }
  }

  const std::shared_ptr<SharedLocks> shared_;
  const AllServers all_servers_;
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
                                                             std::shared_ptr<Observer> observer) try {
  const auto channels = redis::channels_of(options);
  auto layout = redis::LockLayout::make(options, channels);
  if (!layout) return layout.error();
  if (options.min_replicas > 0 && !options.cluster_nodes.empty()) return redis::no_replicas_on_cluster();
  if (options.fence_floor > RedisOptions::highest_fence_floor) {
    return Error(ErrorCode::InvalidArgument, "fence_floor is above " +
                                                 std::to_string(RedisOptions::highest_fence_floor) +
                                                 ", which leaves too few fences");
  }
  auto way = redis::open_transport(options, "lock_prefix", (*layout)->names().prefix(), channels, observer);
  if (!way) return way.error();
  if (way->channels != channels) layout = redis::LockLayout::make(options, way->channels);
  auto authority = redis::find_store_id(*way->transport, **layout);
  if (!authority) {
    // The marker's master is down, but those of other locks may work. Where each key has an authority of its
    // own, the store's only has a name; and a key of the other layout is refused by its type.
    const bool is_enough = !options.cluster_nodes.empty() && (*layout)->authority_per_key();
    if (!is_enough || !authority.error().transient()) return authority.error();
    authority = std::string();
  }
  auto shared = std::make_shared<redis::SharedLocks>(std::move(way->endpoint), std::move(way->transport),
                                                     *std::move(layout), std::move(log), std::move(observer));
  shared->authority.set(*authority);
  return std::shared_ptr<LockBackend>(std::make_shared<redis::RedisLockBackend>(
      std::move(shared), std::move(way->where_to_listen), std::move(way->all_servers)));
} catch (const Error& no_descriptor) {
  return no_descriptor;
}

}  // namespace holdfast
