#include "engine/redis/conn/dialer.hpp"

#include <algorithm>

#include "engine/redis/conn/fence_floor.hpp"

namespace holdfast::redis {
namespace {

std::string name_of(const RedisOptions& options) {
  if (!options.unix_socket.empty()) return "redis at " + options.unix_socket;
  if (!options.sentinels.empty()) return "redis service " + options.sentinel_service;
  if (options.cluster_nodes.empty()) {
    return "redis at " + to_text({.host = options.host, .port = options.port});
  }
  std::string nodes;
  for (const auto& node : options.cluster_nodes) nodes += (nodes.empty() ? "" : ",") + to_text(node);
  return "redis cluster at " + nodes;
}

}  // namespace

Endpoint::Endpoint(RedisOptions options, std::shared_ptr<const TlsContext> tls,
                   std::shared_ptr<Observer> observer, Servers servers, std::string if_unreachable)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      name_(name_of(options_)),
      observer_(std::move(observer)),
      servers_(servers),
      if_unreachable_(std::move(if_unreachable)),
      watch_(options_.sentinels.empty() ? nullptr : std::make_unique<MasterWatch>(*this)) {}

Result<std::shared_ptr<const Endpoint>> Endpoint::from(const RedisOptions& options,
                                                       std::shared_ptr<Observer> observer, Servers servers,
                                                       std::string if_unreachable) {
  if (!options.sentinels.empty() && options.sentinel_service.empty()) {
    return Error(
        ErrorCode::InvalidArgument,
        "cannot use these sentinels: the service is missing. Set the name of the master that they watch");
  }
  std::shared_ptr<const TlsContext> tls;
  if (options.tls) {
    auto loaded = TlsContext::load(options);
    if (!loaded) return loaded.error();
    tls = *std::move(loaded);
  }
  // "No limit" as the longest duration would overflow when it is added to a clock.
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 366);
  auto bounded = options;
  bounded.connect_timeout = std::min(options.connect_timeout, longest);
  bounded.command_timeout = std::min(options.command_timeout, longest);
  return std::shared_ptr<const Endpoint>(new Endpoint(std::move(bounded), std::move(tls), std::move(observer),
                                                      servers, std::move(if_unreachable)));
}

Target Endpoint::server() const {
  return {.options = options_, .tls = tls_, .servers = servers_, .if_unreachable = if_unreachable_};
}

Target Endpoint::at(const RedisAddress& address, Servers servers) const {
  Target target{.options = options_, .tls = tls_, .servers = servers};
  target.options.host = address.host;
  target.options.port = address.port;
  if (tls_ && options_.tls_server_name.empty()) target.tls = tls_->named(address.host);
  return target;
}

Target Endpoint::master(const RedisAddress& address) const {
  return at(address, servers_ == Servers::standalone ? Servers::master : servers_);
}

Target Endpoint::sentinel(std::size_t number) const {
  auto target = at(options_.sentinels[number], Servers::sentinel);
  target.options.user = options_.sentinel_user;
  target.options.password = options_.sentinel_password;
  target.options.password_file = options_.sentinel_password_file;
  target.options.db = 0;
  target.question = MasterWatch::question(options_.sentinel_service);
  target.answers = MasterWatch::answers;
  return target;
}

Error Endpoint::about(const Error& error) const {
  return Error(error.code(), name_ + ": " + error.message(), error.cause())
      .about(error.key(), error.lock_id());
}

void Endpoint::report_reconnect(BootTime since, BootTime now,
                                std::optional<ErrorCode> failed) const noexcept {
  if (!observer_) return;
  observer_->ended({.activity = Activity::reconnect,
                    .backend = redis_capabilities.backend,
                    .started = since,
                    .ended = now,
                    .error = failed});
}

Dialer::Dialer(std::shared_ptr<const Endpoint> endpoint, BootTime now)
    : endpoint_(std::move(endpoint)), began_(now), switches_(endpoint_->switches()) {
  const auto deadline = saturating_add(now, endpoint_->options().connect_timeout);
  auto* const watch = endpoint_->watch();
  if (watch == nullptr) {
    server_.emplace(endpoint_->server(), now, deadline);
    return;
  }
  watch->with_memory([&](const SentinelMemory& memory) {
    discovery_.emplace(endpoint_->options(), memory, deadline);
    return 0;
  });
  (void)begin(discovery_->start(now), now);  // asks the first sentinel: there is one
}

std::optional<Error> Dialer::begin(const Discovery::Action& action, BootTime now) {
  if (const auto* ask = std::get_if<Discovery::Ask>(&action)) {
    master_.reset();
    endpoint_->watch()->with_memory([&](SentinelMemory& memory) { memory.asked(ask->sentinel); });
    step_name_ = "sentinel " + to_text(endpoint_->options().sentinels[ask->sentinel]) + ": ";
    server_.emplace(endpoint_->sentinel(ask->sentinel), now, ask->until);
    return std::nullopt;
  }
  if (const auto* dial = std::get_if<Discovery::Dial>(&action)) {
    master_ = dial->master;
    step_name_ = "master " + to_text(dial->master.address) + ": ";
    server_.emplace(endpoint_->master(dial->master.address), now, dial->until);
    return std::nullopt;
  }
  return std::get<Error>(action);
}

Error Dialer::no_connection(BootClock::duration waited) const {
  const auto error = server_->no_connection(waited);
  return {error.code(), step_name_ + error.message(), error.cause()};
}

Dialer::Outcome Dialer::step(BootTime now) {
  // A master that was paused accepts connections, and does not answer.
  if (master_ && switches_ != endpoint_->switches()) {
    return endpoint_->about({ErrorCode::ServiceUnavailable, "the sentinels made another server the master"});
  }
  for (;;) {
    auto outcome = server_->step(now);
    if (std::holds_alternative<PendingIo>(outcome)) return outcome;
    if (auto ended = advance(std::move(outcome), now)) {
      if (const auto* error = std::get_if<Error>(&*ended)) return endpoint_->about(*error);
      return *std::move(ended);
    }
  }
}

std::optional<Dialer::Outcome> Dialer::advance(Outcome outcome, BootTime now) {
  if (!discovery_) return outcome;
  auto* const made = std::get_if<Connection>(&outcome);
  if (made != nullptr && master_) {
    const bool is_new = endpoint_->watch()->used(*master_, std::move(subscription_), now);
    made->switches = switches_ + (is_new ? 1 : 0);
    made->fence_floor = fence_floor_of(master_->epoch);
    made->epoch = master_->epoch;
    return outcome;
  }
  if (master_) {
    const auto failed = begin(discovery_->on_master_failed(std::get<Error>(outcome), now), now);
    return failed ? std::optional<Outcome>(*failed) : std::nullopt;
  }
  const auto answer = made != nullptr ? read_sentinel_answer(*server_->answers().front(),
                                                             endpoint_->options().sentinel_service)
                                      : Result<SentinelAnswer>(std::get<Error>(outcome));
  if (answer && !is_error(*server_->answers()[MasterWatch::subscribed]))
    subscription_.emplace(std::move(*made));
  const auto next = endpoint_->watch()->with_memory(
      [&](SentinelMemory& memory) { return discovery_->on_answer(memory, answer, now); });
  const auto failed = begin(next, now);
  return failed ? std::optional<Outcome>(*failed) : std::nullopt;
}

}  // namespace holdfast::redis
