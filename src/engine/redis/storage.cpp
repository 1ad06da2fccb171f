#include <optional>

#include "core/output_decisions.hpp"
#include "core/queue_decisions.hpp"
#include "core/record_request.hpp"
#include "engine/redis/change_messages.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/queue_operations.hpp"
#include "engine/redis/record_replies.hpp"
#include "engine/redis/storage_operations.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/wire/errors.hpp"
#include "os/process.hpp"
#include "runtime/operation.hpp"

namespace holdfast {
namespace redis {
namespace {

constexpr Subscriber::Purpose changes_of_records{
    .wakes = Wakes::all,
    .unheard =
        "cannot subscribe to task changes, so waiters poll; allow the Redis user to subscribe to the task "
        "prefix's channels"};

/// The name that an error of this request carries.
template <class Request>
const std::string& subject_of(const Request& request) {
  if constexpr (requires { request.key.str(); }) {
    return request.key.str();
  } else if constexpr (requires { request.owner; }) {
    return request.owner;
  } else {
    return request.prefix;
  }
}

class RedisStorageBackend final : public StorageBackend {
 public:
  explicit RedisStorageBackend(std::shared_ptr<Store> store)
      : store_(std::move(store)),
        subscriber_(store_->endpoint, store_->log, changes_of_records, store_->single,
                    store_->layout.channels(), store_->where_to_listen) {}
  ~RedisStorageBackend() override { store_->client->close(); }

  [[nodiscard]] std::string_view name() const noexcept override { return redis_capabilities.backend; }
  [[nodiscard]] bool blocks() const noexcept override { return redis_capabilities.blocks; }
  [[nodiscard]] WallTime now() const override { return store_->clock.now(); }

  void submit(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    start(GetOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_create(request)) return done(*std::move(refused));
    start(Marking(CreateOperation{std::move(request)}, store_->is_marked), stop, std::move(done));
  }
  void submit(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    start(Marking(PutOperation{std::move(request)}, store_->is_marked), stop, std::move(done));
  }
  void submit(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    start(RemoveOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(BindRecord request, std::stop_token stop, Done<BindOutcome> done) override {
    start(GuardOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    start(RebindOperation{std::move(request)}, stop, std::move(done));
  }

  void submit(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    if (const auto owner = core::listed_owner(request.prefix); !owner) {
      return done(owner.error().about(request.prefix, {}));
    }
    start(ListOperation{std::move(request)}, stop, std::move(done));
  }

  void submit(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    auto listing = OwnerListing::start(store_->layout, request, store_->client->masters());
    if (!listing) return done(listing.error());
    start_listing(store_, *std::move(listing), request.deadline, stop, std::move(done));
  }

  /// Redis drops expired records; lists and full quotas clean the index.
  void submit(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    done(std::size_t{0});
  }

  void submit(WatchRecord request, std::stop_token stop, Done<std::unique_ptr<Watch>> done) override {
    if (!process_.is_current()) return done(std::unique_ptr<Watch>());
    subscriber_.watch(store_->layout.channel(request.key), request.deadline, stop, std::move(done));
  }

  void submit(FollowRecords request, std::stop_token stop, Done<std::unique_ptr<ChangeFeed>> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    if (store_->layout.channels() == Channels::sharded) return done(std::unique_ptr<ChangeFeed>());
    subscriber_.follow(
        store_->layout.channel_pattern(),
        [names = store_->layout](std::string_view channel, std::string_view payload) {
          return record_change(names, channel, payload);
        },
        request.deadline, stop, std::move(done));
  }

  void submit(ClaimNext request, std::stop_token stop, Done<ClaimedRecords> done) override {
    if (refuse_arguments(request, done)) return;
    ClaimUnderWay claim(*store_, request.owner);
    start(ClaimNextOperation{.request = std::move(request), .claim = std::move(claim)}, stop,
          std::move(done));
  }
  void submit(ClaimRecord request, std::stop_token stop, Done<ClaimOutcome> done) override {
    if (refuse_arguments(request, done)) return;
    start(ClaimRecordOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(RenewLeases request, std::stop_token stop, Done<RenewLeases::Outcome> done) override {
    if (refuse_arguments(request, done)) return;
    start(RenewOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(EndLease request, std::stop_token stop, Done<EndedLease> done) override {
    if (refuse_arguments(request, done)) return;
    std::optional<ClaimUnderWay> claim;
    if (request.then) claim.emplace(*store_, request.key.owner());
    start(EndOperation{.request = std::move(request), .claim = std::move(claim)}, stop, std::move(done));
  }
  void submit(CountQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    if (refuse_arguments(request, done)) return;
    start(CountOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(ConfigureQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    if (refuse_arguments(request, done)) return;
    start(ConfigureOperation{std::move(request)}, stop, std::move(done));
  }

  void submit(AppendOutput request, std::stop_token stop, Done<AppendOutcome> done) override {
    if (refuse_arguments(request, done)) return;
    start(AppendOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(ReadOutput request, std::stop_token stop, Done<std::optional<KeptOutput>> done) override {
    start(ReadOutputOperation{std::move(request)}, stop, std::move(done));
  }

  void submit(WatchQueue request, std::stop_token stop, Done<std::unique_ptr<Watch>> done) override {
    if (!process_.is_current()) return done(std::unique_ptr<Watch>());
    auto& listener = subscriber_;
    const auto channel = store_->layout.work_prefix(request.owner) + store_->process;
    auto queue = store_->watched_queues.watch(
        request.owner, [&] { return std::make_shared<QueueWaits>(listener.waker_of(channel)); });
    const bool is_awaited = done.is_awaited();
    auto made = [queue = std::move(queue),
                 done = std::move(done)](Result<std::unique_ptr<Watch>> watch) mutable {
      if (!watch) return done(watch.error());
      done(std::unique_ptr<Watch>(std::make_unique<QueueWatch>(std::move(queue), *std::move(watch))));
    };
    if (!is_awaited) {
      return listener.watch(channel, Wakes::one, request.deadline, stop, std::move(made));
    }
    Slot<std::unique_ptr<Watch>> slot;
    listener.watch(channel, Wakes::one, request.deadline, stop, Done<std::unique_ptr<Watch>>::into(slot));
    made(*std::move(slot.result));
  }

  void wait(Completion& completion) override { store_->client->wait(completion); }

 private:
  template <class Operation>
  void start(Operation operation, const std::stop_token& stop, Done<typename Operation::Outcome> done) {
    const auto deadline = operation.request.deadline;
    if (const auto early = refuse_early(deadline, stop)) {
      return done(early->about(subject_of(operation.request), {}));
    }
    const bool by_idle_io =
        !done.is_awaited() && store_->single && Subscriber::lends_this_thread_to(*store_->single);
    CallLimits limits{.deadline = deadline,
                      .answer_timeout = store_->endpoint->options().command_timeout,
                      .by_idle_io = by_idle_io};
    if (claims(operation)) limits.answer_timeout_after_stop = claim_timeout_after_stop;
    start_script(store_, std::move(operation), limits, stop, std::move(done));
  }

  /// Whether the request was refused, and `done` completed.
  template <class Request>
  [[nodiscard]] static bool refuse_arguments(const Request& request, Done<typename Request::Outcome>& done) {
    const auto refused = core::refuse_arguments(request);
    if (refused) done(refused->about(subject_of(request), {}));
    return refused.has_value();
  }

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  const std::shared_ptr<Store> store_;
  const os::ProcessIdentity process_;
  Subscriber subscriber_;
};

/// Connects, and asks the server for its time.
Result<Ok> set_clock(Store& store) {
  const auto sent = BootClock::now();
  const auto& endpoint = *store.endpoint;
  auto answer = store.client->call({"TIME"}, saturating_add(sent, endpoint.options().connect_timeout), true);
  if (!answer) return answer.error();
  if (is_error(**answer)) return endpoint.about(error_of(**answer));
  const auto parts = elements_of(**answer);
  const auto seconds = parts.size() == 2 ? number_of(*parts[0]) : std::nullopt;
  const auto micros = parts.size() == 2 ? number_of(*parts[1]) : std::nullopt;
  if (!seconds || !micros) {
    return endpoint.about({ErrorCode::Internal, "unexpected reply of the server to TIME"});
  }
  store.clock.learn(*seconds * 1000 + *micros / 1000, sent, BootClock::now());
  return Ok{};
}

/// Refuses a prefix that is used with the other layout: its tasks would not be seen. Pmcp-tasks leaves no
/// mark.
Result<Ok> check_layout(Store& store) {
  const auto& endpoint = *store.endpoint;
  const auto deadline = saturating_add(BootClock::now(), endpoint.options().connect_timeout);
  const auto ask = [&](Command command) -> Result<std::string> {
    auto answer = store.client->call_routed(std::move(command).routed(), deadline, true);
    if (!answer) return answer.error();
    if (is_error(**answer)) return endpoint.about(error_of(**answer));
    return std::string(text_of(**answer));
  };
  auto read = Command::begin("GET", 1);
  read.add_key(store.layout.marker());
  auto found = ask(std::move(read));
  if (!found) return found.error();
  if (auto refused = refuse_mark(store, *found)) return *std::move(refused);
  store.is_marked = !found->empty();
  return Ok{};
}

}  // namespace
}  // namespace redis

Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(const RedisOptions& options,
                                                                   std::shared_ptr<Log> log,
                                                                   std::shared_ptr<Observer> observer) try {
  const auto kind = redis::layout_of(options);
  const auto channels = redis::channels_of(options);
  auto layout = redis::StorageLayout::make(options.task_prefix, options.db, kind, channels);
  if (!layout) return layout.error();
  auto way =
      redis::open_transport(options, "task_prefix", options.task_prefix, channels, std::move(observer));
  if (!way) return way.error();
  if (way->channels != channels)
    layout = redis::StorageLayout::make(options.task_prefix, options.db, kind, way->channels);
  auto store =
      std::make_shared<redis::Store>(std::move(way->endpoint), std::move(way->transport), *std::move(layout),
                                     std::move(log), std::move(way->single), std::move(way->where_to_listen));
  if (const auto set = redis::set_clock(*store); !set) return set.error();
  if (const auto checked = redis::check_layout(*store); !checked) return checked.error();
  return std::shared_ptr<StorageBackend>(std::make_shared<redis::RedisStorageBackend>(std::move(store)));
} catch (const Error& no_descriptor) {
  return no_descriptor;
}

}  // namespace holdfast
