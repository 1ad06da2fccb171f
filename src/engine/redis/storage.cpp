#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <optional>

#include "core/base64url.hpp"
#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/script_call.hpp"
#include "engine/redis/server_clock.hpp"
#include "engine/redis/storage_layout.hpp"
#include "engine/redis/subscriber.hpp"
#include "sys/operation.hpp"
#include "sys/process.hpp"
#include "sys/random.hpp"

namespace holdfast {
namespace redis {
namespace {

/// What the operations under way share; they may outlive the backend that began them.
struct Store {
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Client> client;
  StorageLayout layout;
  std::shared_ptr<Log> log;
  ServerClock clock = {};
};

/// Names one change among all there ever were.
std::string new_id() {
  std::array<unsigned char, 16> bytes{};
  sys::random_bytes(bytes);
  return core::base64url(bytes);
}

/// For a change that was sent again and then refused: an earlier copy of it may have been carried out, and
/// what it did be undone or written over by somebody before this copy came.
Error unknown(const RecordKey& key) {
  return Error(ErrorCode::NetworkTimeout,
               "the connection broke before the answer came, and the record has changed since: whether this "
               "change was made is unknown; read the record to see")
      .about(key.str(), {});
}

// What each operation is: see ScriptCall. A command here never fails to be made.

struct GetOperation {
  using Outcome = std::optional<StoredRecord>;
  GetRecord request;

  Result<std::string> command(const Store& store, By by) const {
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
  std::string id = new_id();
  BootTime begun = BootClock::now();

  Result<std::string> command(const Store& store, By by) const {
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
  std::string id = new_id();

  Result<std::string> command(const Store& store, By by) const {
    return put_command(store.layout, request, id, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto outcome = put_outcome(**answer, request);
    if (outcome && call.was_repeated() && !std::holds_alternative<Written>(*outcome) &&
        !was_not_made(*outcome)) {
      return unknown(request.key);
    }
    return outcome;
  }

 private:
  /// Within one record versions only rise, and the script knows the last write: had an earlier copy made the
  /// version after the expected one, it would have recognised itself there, or a later version would show.
  [[nodiscard]] static bool was_not_made(const Outcome& refusal) {
    const auto* conflict = std::get_if<VersionConflict>(&refusal);
    return conflict != nullptr && !conflict->replaced && conflict->actual <= conflict->expected + 1;
  }
};

struct RemoveOperation {
  using Outcome = RemoveOutcome;
  RemoveRecord request;

  Result<std::string> command(const Store& store, By by) const {
    return remove_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto outcome = remove_outcome(**answer, request);
    if (!outcome || !call.was_repeated() || std::holds_alternative<Removed>(*outcome)) return outcome;
    // Asked again because the first answer was lost, it finds nothing: then the first one did it.
    if (std::holds_alternative<NoRecord>(*outcome)) return Removed{};
    // The record that was meant is there still, so no copy removed it. Else it may be a new one.
    const auto* conflict = std::get_if<VersionConflict>(&*outcome);
    const bool same = conflict != nullptr && !conflict->replaced && !request.expected->incarnation.empty();
    if (!same) return unknown(request.key);
    return outcome;
  }
};

/// Doing it twice is doing it once, so no refusal needs a second thought.
struct GuardOperation {
  using Outcome = GuardOutcome;
  GuardRecord request;

  Result<std::string> command(const Store& store, By by) const {
    return guard_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return guard_outcome(**answer, request);
  }
};

struct RebindOperation {
  using Outcome = RebindOutcome;
  RebindRecord request;

  Result<std::string> command(const Store& store, By by) const {
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

  Result<std::string> command(const Store& store, By by) const {
    return list_command(store.layout, request, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.prefix, {});
    return list_outcome(**answer, request);
  }
};

class RedisStorageBackend final : public StorageBackend {
 public:
  explicit RedisStorageBackend(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~RedisStorageBackend() override { store_->client->close(); }

  [[nodiscard]] std::string_view name() const noexcept override { return redis_capabilities.backend; }
  [[nodiscard]] std::int64_t now_ms() const override { return store_->clock.now_ms(); }

  void get(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    start(GetOperation{std::move(request)}, stop, std::move(done));
  }
  void create(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    start(CreateOperation{std::move(request)}, stop, std::move(done));
  }
  void put(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    start(PutOperation{std::move(request)}, stop, std::move(done));
  }
  void remove(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    start(RemoveOperation{std::move(request)}, stop, std::move(done));
  }
  void guard(GuardRecord request, std::stop_token stop, Done<GuardOutcome> done) override {
    start(GuardOperation{std::move(request)}, stop, std::move(done));
  }
  void rebind(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    start(RebindOperation{std::move(request)}, stop, std::move(done));
  }

  void list(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    if (!request.prefix.ends_with(':') || request.prefix.find(':') != request.prefix.size() - 1) {
      return done(Error(ErrorCode::InvalidArgument,
                        "a list's prefix is an owner and a colon behind it, the only one"));
    }
    start(ListOperation{std::move(request)}, stop, std::move(done));
  }

  /// Redis drops records by itself; lists and full quotas clean the index.
  void cleanup_expired(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    if (auto early = refuse_early(request.deadline, stop)) return done(*std::move(early));
    done(std::size_t{0});
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const RecordKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    if (!home_.is_here()) return nullptr;
    std::call_once(listening_, [this] { subscriber_.emplace(store_->endpoint, store_->log); });
    return subscriber_->watch(store_->layout.channel(key), deadline, stop);
  }

  void wait(Completion& completion) override { store_->client->wait(completion); }

 private:
  template <class Operation>
  void start(Operation operation, const std::stop_token& stop, Done<typename Operation::Outcome> done) {
    const auto deadline = operation.request.deadline;
    if (auto early = refuse_early(deadline, stop)) return done(*std::move(early));
    start_script(store_, std::move(operation),
                 {.deadline = deadline, .patience = store_->endpoint->options().command_timeout}, stop,
                 std::move(done));
  }

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!home_.is_here()) return sys::used_after_fork();
    return sys::refuse_before_start(deadline, stop);
  }

  const std::shared_ptr<Store> store_;
  const sys::Birthplace home_;
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
    return endpoint.about({ErrorCode::Internal, "the server does not tell the time as Redis does"});
  }
  store.clock.learn(*seconds * 1000 + *micros / 1000, sent, BootClock::now());
  return Ok{};
}

}  // namespace
}  // namespace redis

Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(const RedisOptions& options,
                                                                   std::shared_ptr<Log> log) {
  auto layout = redis::StorageLayout::make(options.task_prefix, options.db);
  if (!layout) return layout.error();
  auto endpoint = redis::Endpoint::from(options);
  if (!endpoint) return endpoint.error();
  auto client = redis::Client::make(*endpoint);
  auto store = std::make_shared<redis::Store>(*std::move(endpoint), std::move(client), *std::move(layout),
                                              std::move(log));
  if (const auto set = redis::set_clock(*store); !set) return set.error();
  return std::shared_ptr<StorageBackend>(std::make_shared<redis::RedisStorageBackend>(std::move(store)));
}

}  // namespace holdfast
