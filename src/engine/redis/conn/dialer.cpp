#include "engine/redis/conn/dialer.hpp"

#include <poll.h>

#include <array>
#include <mutex>
#include <optional>

#include "os/errno_error.hpp"
#include "os/event.hpp"
#include "os/thread.hpp"

namespace holdfast::redis {
struct Resolution::State {
  os::Event ended;
  std::mutex mutex;
  std::optional<Result<std::vector<Address>>> answer;
};

Result<Resolution> Resolution::start(const std::string& host, std::uint16_t port) {
  try {
    auto state = std::make_shared<State>();
    os::start_thread([state, host, port] {
      auto answer = resolve(host, port, false);
      {
        const std::lock_guard lock(state->mutex);
        state->answer.emplace(std::move(answer));
      }
      state->ended.set();
    }).detach();
    return Resolution(std::move(state));
  } catch (const std::system_error& failed) {
    return Error(ErrorCode::ServiceUnavailable, "cannot start a thread to resolve the host name",
                 failed.what());
  }
}

int Resolution::descriptor() const noexcept {
  return state_->ended.descriptor();
}

bool Resolution::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->answer.has_value();
}

Result<std::vector<Address>> Resolution::take() {
  const std::lock_guard lock(state_->mutex);
  return *std::move(state_->answer);
}

namespace {

std::string address_text(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string place_text(const RedisOptions& options) {
  if (!options.unix_socket.empty()) return "redis at " + options.unix_socket;
  if (options.cluster_nodes.empty()) return "redis at " + address_text(options.host, options.port);
  std::string nodes;
  for (const auto& node : options.cluster_nodes) {
    nodes += (nodes.empty() ? "" : ",") + address_text(node.host, node.port);
  }
  return "redis cluster at " + nodes;
}

/// "5 s", "0.3 s"
std::string seconds_text(BootClock::duration length) {
  const auto tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(length).count();
  const auto fraction = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + fraction + " s";
}

}  // namespace

Endpoint::Endpoint(RedisOptions options, std::shared_ptr<const TlsContext> tls,
                   std::shared_ptr<Observer> observer, Servers servers)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      name_(place_text(options_)),
      observer_(std::move(observer)),
      servers_(servers) {}

Result<std::shared_ptr<const Endpoint>> Endpoint::from(const RedisOptions& options,
                                                       std::shared_ptr<Observer> observer, Servers servers) {
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
  return std::shared_ptr<const Endpoint>(
      new Endpoint(std::move(bounded), std::move(tls), std::move(observer), servers));
}

Error Endpoint::about(const Error& error) const {
  return Error(error.code(), name_ + ": " + error.message(), error.cause())
      .about(error.key(), error.lock_id());
}

void Endpoint::tell_of_reconnect(BootTime since, BootTime now,
                                 std::optional<ErrorCode> failed) const noexcept {
  if (!observer_) return;
  observer_->ended({.activity = Activity::reconnect,
                    .backend = redis_capabilities.backend,
                    .started = since,
                    .ended = now,
                    .error = failed});
}

Dialer::Dialer(std::shared_ptr<const Endpoint> endpoint, BootTime now)
    : endpoint_(std::move(endpoint)),
      began_(now),
      deadline_(saturating_add(now, endpoint_->options().connect_timeout)),
      handshake_(endpoint_->options(), endpoint_->servers()) {}

Dialer::Outcome Dialer::fail(const Error& error) const {
  return endpoint_->about(error);
}

Error Dialer::no_connection(BootClock::duration waited) const {
  const bool tls = endpoint_->options().tls;
  const bool is_limit = waited >= endpoint_->options().connect_timeout;
  const auto within = " within " + seconds_text(waited) + (is_limit ? " (connect_timeout)" : "");
  if (!resolved_) return {ErrorCode::NetworkTimeout, "the host name was not resolved" + within};
  if (!established_) {
    return {ErrorCode::NetworkTimeout, (tls ? "no TLS connection" : "no connection") + within};
  }
  return {ErrorCode::NetworkTimeout,
          "connected, but the server did not answer" + within +
              (tls ? ". Check that it is not blocked"
                   : ". Check that it is not blocked; for a TLS port use rediss://")};
}

/// A TLS server sees our first command as a bad handshake: it closes, maybe after an alert.
Error Dialer::not_greeted(const Error& error) const {
  if (answered_ || endpoint_->options().tls) return error;
  return {ErrorCode::ServiceUnavailable,
          "no Redis server answers at this address; for a TLS port use rediss://",
          error.cause().empty() ? error.message() : error.message() + ": " + error.cause()};
}

Dialer::Outcome Dialer::step(BootTime now) {
  if (now >= deadline_) return fail(no_connection(endpoint_->options().connect_timeout));
  using Stage = Result<Blocked> (Dialer::*)(BootTime);
  for (const Stage stage :
       std::array<Stage, 3>{&Dialer::find_addresses, &Dialer::establish, &Dialer::greet}) {
    const auto blocked = (this->*stage)(now);
    if (!blocked) return fail(blocked.error());
    if (*blocked) return **blocked;
  }
  return Connection{.stream = std::move(stream_), .reader = std::move(reader_)};
}

Result<Dialer::Blocked> Dialer::find_addresses(BootTime) {
  if (resolved_) return Blocked();
  const auto& options = endpoint_->options();
  if (!options.unix_socket.empty()) {
    const auto address = unix_address(options.unix_socket);
    if (!address) return address.error();
    addresses_.push_back(*address);
  } else if (const auto literal = resolve(options.host, options.port, true)) {
    addresses_.assign(literal->begin(), literal->end());
  } else {
    if (!resolution_) {
      auto started = Resolution::start(options.host, options.port);
      if (!started) return started.error();
      resolution_.emplace(*std::move(started));
    }
    if (!resolution_->ended()) return Blocked(Waiting{resolution_->descriptor(), POLLIN});
    const auto answer = resolution_->take();
    resolution_.reset();
    if (!answer) return answer.error();
    addresses_.assign(answer->begin(), answer->end());
  }
  resolved_ = true;
  return Blocked();
}

Result<Dialer::Blocked> Dialer::establish(BootTime now) {
  if (established_) return Blocked();
  Error last(ErrorCode::ServiceUnavailable, "the host name has no addresses");
  for (;;) {
    if (!stream_) {
      if (addresses_.empty()) return last;
      auto begun = Stream::connect(addresses_.front(), endpoint_->tls());
      addresses_.pop_front();
      if (!begun) {
        last = begun.error();
        continue;
      }
      stream_ = *std::move(begun);
      // An address that does not answer leaves time for the next ones.
      address_until_ = now + (deadline_ - now) / static_cast<BootClock::rep>(addresses_.size() + 1);
    } else if (now >= address_until_ && !addresses_.empty()) {
      stream_.reset();
      continue;
    }
    const auto progress = stream_->establish();
    if (!progress) {
      last = progress.error();
      stream_.reset();
      continue;
    }
    if (*progress == Stream::Progress::done) break;
    return Blocked(Waiting{stream_->descriptor(),
                           static_cast<short>(*progress == Stream::Progress::wants_read ? POLLIN : POLLOUT)});
  }
  established_ = true;
  address_until_ = never;
  return Blocked();
}

Result<Dialer::Blocked> Dialer::greet(BootTime) {
  const auto& request = handshake_.request();
  while (greeted_ < request.size()) {
    const auto written = stream_->write(std::string_view(request).substr(greeted_));
    if (!written) return written.error();
    if (*written == 0) return Blocked(Waiting{stream_->descriptor(), POLLOUT});
    greeted_ += *written;
  }
  while (!ready_) {
    auto reply = reader_.next();
    if (!reply) return not_greeted(reply.error());
    if (*reply) {
      answered_ = true;
      const auto ready = handshake_.on_reply(***reply);
      if (!ready) return ready.error();
      ready_ = *ready;
      if (ready_ && reader_.has_more()) {
        return Error(ErrorCode::Internal, "the server sent more replies than requests");
      }
      continue;
    }
    std::array<char, 4096> bytes;
    const auto count = stream_->read(bytes);
    if (!count) return not_greeted(count.error());
    if (*count == 0) return Blocked(Waiting{stream_->descriptor(), POLLIN});
    reader_.feed({bytes.data(), *count});
  }
  return Blocked();
}

}  // namespace holdfast::redis
