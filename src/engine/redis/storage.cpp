#include <charconv>
#include <mutex>
#include <optional>

#include "core/record_request.hpp"
#include "engine/redis/calls.hpp"
#include "engine/redis/change_messages.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/listings.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/server_clock.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/transport.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"

namespace holdfast {
namespace redis {
namespace {

/// State shared by pending operations, which may outlive the backend that began them.
struct Store {
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Transport> client;
  StorageLayout layout;
  std::shared_ptr<Log> log;
  /// The client of one server, whose I/O the subscriber's thread may do.
  std::shared_ptr<Client> single = {};
  PickEndpoint where_to_listen = {};
  ServerClock clock = {};
};

// The operations: see ScriptCall. Building a command never fails here.

struct GetOperation {
  using Outcome = std::optional<StoredRecord>;
  GetRecord request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return get_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return get_outcome(**answer, request.key);
  }
};

struct CreateOperation {
  using Outcome = CreateOutcome;
  CreateRecord request;
  std::string id = os::new_incarnation();
  BootTime begun = BootClock::now();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return create_command(store.layout, request, id, by);
  }
  Result<Outcome> outcome(Store& store, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    if (const auto now_ms = server_time_of(**answer)) store.clock.learn(*now_ms, begun, BootClock::now());
    return create_outcome(**answer, request, id);
  }
};

struct PutOperation {
  using Outcome = PutOutcome;
  PutRecord request;
  std::string id = os::new_incarnation();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return put_command(store.layout, request, id, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto outcome = put_outcome(**answer, request);
    const auto* conflict = outcome ? std::get_if<VersionConflict>(&*outcome) : nullptr;
    if (call.was_repeated() && conflict != nullptr && !is_certain(*conflict)) {
      return Error(ErrorCode::NetworkTimeout,
                   "outcome unknown: the connection broke before the reply arrived, and the record was "
                   "written often since. Read the record to see whether this write succeeded")
          .about(request.key.str(), {});
    }
    return outcome;
  }

 private:
  /// Whether the conflicting write cannot be an earlier copy of this one: the script would have recognised it
  /// among the last few. If the record was replaced, the one that was meant is gone in any case.
  [[nodiscard]] static bool is_certain(const VersionConflict& conflict) {
    return conflict.replaced || conflict.actual <= conflict.expected + remembered_writes;
  }
};

struct RemoveOperation {
  using Outcome = RemoveOutcome;
  RemoveRecord request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return remove_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto outcome = remove_outcome(**answer, request);
    // A resend after a lost answer that finds no record: the first request removed it.
    if (outcome && call.was_repeated() && std::holds_alternative<NoRecord>(*outcome)) return Removed{};
    return outcome;
  }
};

/// Idempotent, so a refusal after a resend needs no special case.
struct GuardOperation {
  using Outcome = BindOutcome;
  BindRecord request;
  std::string id = os::new_incarnation();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return guard_command(store.layout, request, id, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return guard_outcome(**answer, request);
  }
};

struct RebindOperation {
  using Outcome = RebindOutcome;
  RebindRecord request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return rebind_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return rebind_outcome(**answer, request);
  }
};

struct ListOperation {
  using Outcome = RecordPage;
  ListRecords request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return list_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.prefix, {});
    return list_outcome(**answer, request);
  }
  /// The script stopped after many dead members of the index; it has removed them.
  bool goes_on(const Result<Outcome>& page) {
    if (!page || !page->records.empty() || !page->unreadable.empty() || !page->next) return false;
    request.after = page->next;
    return true;
  }
};

constexpr std::string_view native_mark = "native";

constexpr Subscriber::Purpose changes_of_records{
    .wakes = Wakes::all,
    .unheard =
        "cannot subscribe to task changes, so waiters poll; allow the Redis user to subscribe to the task "
        "prefix's channels"};

/// The name that an error of this request carries.
template <class Request>
const std::string& subject_of(const Request& request) {
  return request.key.str();
}
const std::string& subject_of(const ListRecords& request) {
  return request.prefix;
}

class RedisStorageBackend final : public StorageBackend {
 public:
  explicit RedisStorageBackend(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~RedisStorageBackend() override { store_->client->close(); }

  [[nodiscard]] std::string_view name() const noexcept override { return redis_capabilities.backend; }
  [[nodiscard]] bool blocks() const noexcept override { return redis_capabilities.blocks; }
  [[nodiscard]] WallTime now() const override { return store_->clock.now(); }

  void submit(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    start(GetOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (const auto refused = core::refuse_origin(request.origin))
      return done(refused->about(request.key.str(), {}));
    start(CreateOperation{std::move(request)}, stop, std::move(done));
  }
  void submit(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    start(PutOperation{std::move(request)}, stop, std::move(done));
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
    subscriber().watch(store_->layout.channel(request.key), request.deadline, stop, std::move(done));
  }

  void submit(FollowRecords request, std::stop_token stop, Done<std::unique_ptr<ChangeFeed>> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    subscriber().follow(
        store_->layout.channel_pattern(),
        [names = store_->layout](std::string_view channel, std::string_view payload) {
          return record_change(names, channel, payload);
        },
        request.deadline, stop, std::move(done));
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
    start_script(store_, std::move(operation),
                 {.deadline = deadline,
                  .patience = store_->endpoint->options().command_timeout,
                  .by_idle_io = by_idle_io},
                 stop, std::move(done));
  }

  [[nodiscard]] Subscriber& subscriber() {
    std::call_once(listening_, [this] {
      subscriber_.emplace(store_->endpoint, store_->log, changes_of_records, store_->single,
                          store_->where_to_listen);
    });
    return *subscriber_;
  }

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  const std::shared_ptr<Store> store_;
  const os::ProcessIdentity process_;
  std::once_flag listening_;
  std::optional<Subscriber> subscriber_;  ///< made for the first watch
};

std::optional<std::int64_t> number_of(const redisReply& reply) {
  const auto text = text_of(reply);
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

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

/// Refuses a prefix that is used with the other layout: its tasks would not be seen. A store of the
/// documented layout leaves no mark, as pmcp-tasks does not.
Result<Ok> check_layout(Store& store) {
  const auto& endpoint = *store.endpoint;
  const auto deadline = saturating_add(BootClock::now(), endpoint.options().connect_timeout);
  const auto ask = [&](Command command) -> Result<std::string> {
    auto answer = store.client->call_routed(std::move(command).routed(), deadline, true);
    if (!answer) return answer.error();
    if (is_error(**answer)) return endpoint.about(error_of(**answer));
    return std::string(text_of(**answer));
  };
  const bool is_native = store.layout.layout() == RedisLayout::native;
  auto read = Command::begin("GET", 1);
  read.add_key(store.layout.marker());
  auto found = ask(std::move(read));
  if (!found) return found.error();
  if (!found->empty() && (*found == native_mark) != is_native) {
    return endpoint.about({ErrorCode::InvalidArgument,
                           "the task prefix \"" + endpoint.options().task_prefix + "\" is used with layout=" +
                               std::string(is_native ? "documented" : native_mark) +
                               "; use that layout, or another task_prefix"});
  }
  if (found->empty() && is_native) {
    auto mark = Command::begin("SET", 3);
    mark.add_key(store.layout.marker()).add(native_mark).add("NX");
    if (const auto marked = ask(std::move(mark)); !marked) return marked.error();
  }
  return Ok{};
}

}  // namespace
}  // namespace redis

Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(const RedisOptions& options,
                                                                   std::shared_ptr<Log> log,
                                                                   std::shared_ptr<Observer> observer) {
  auto layout = redis::StorageLayout::make(options.task_prefix, options.db, redis::layout_of(options));
  if (!layout) return layout.error();
  auto way = redis::open_transport(options, "task_prefix", options.task_prefix, log, std::move(observer));
  if (!way) return way.error();
  auto store =
      std::make_shared<redis::Store>(std::move(way->endpoint), std::move(way->transport), *std::move(layout),
                                     std::move(log), std::move(way->single), std::move(way->where_to_listen));
  if (const auto set = redis::set_clock(*store); !set) return set.error();
  if (const auto checked = redis::check_layout(*store); !checked) return checked.error();
  return std::shared_ptr<StorageBackend>(std::make_shared<redis::RedisStorageBackend>(std::move(store)));
}

}  // namespace holdfast
