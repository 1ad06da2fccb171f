#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/redis/conn/backoff.hpp"
#include "engine/redis/conn/handshake_fsm.hpp"
#include "engine/redis/conn/stream.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// A pending resolution of a host name. Name servers are queried on a separate thread, because that blocks;
/// an abandoned query ends later, on its thread.
class Resolution {
 public:
  /// ServiceUnavailable if the machine has no thread or descriptor left.
  [[nodiscard]] static Result<Resolution> start(const std::string& host, std::uint16_t port);

  /// Readable when it has ended.
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] bool ended() const;
  /// Requires ended().
  [[nodiscard]] Result<std::vector<Address>> take();

 private:
  struct State;
  explicit Resolution(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// A server and the credentials for it. Shared by all connections to it.
class Endpoint {
 public:
  /// InvalidArgument if the TLS files cannot be used. `observer`, which may be null, is notified of
  /// reconnects.
  [[nodiscard]] static Result<std::shared_ptr<const Endpoint>> from(const RedisOptions& options,
                                                                    std::shared_ptr<Observer> observer = {},
                                                                    Servers servers = Servers::standalone);

  [[nodiscard]] const RedisOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }
  [[nodiscard]] Servers servers() const noexcept { return servers_; }
  /// "redis at localhost:6379": for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The error, with the server's name added.
  [[nodiscard]] Error about(const Error& error) const;
  /// Reports that a connection lost at `since` was replaced, or that an attempt begun then failed with this
  /// error.
  void tell_of_reconnect(BootTime since, BootTime now,
                         std::optional<ErrorCode> failed = std::nullopt) const noexcept;

  /// A connection found a replica in place of the master, so the other connections should leave it too.
  void note_demotion() const noexcept { demotions_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t demotions() const noexcept {
    return demotions_.load(std::memory_order_relaxed);
  }

 private:
  Endpoint(RedisOptions options, std::shared_ptr<const TlsContext> tls, std::shared_ptr<Observer> observer,
           Servers servers);
  RedisOptions options_;
  std::shared_ptr<const TlsContext> tls_;
  std::string name_;
  std::shared_ptr<Observer> observer_;
  Servers servers_;
  mutable std::atomic<std::uint64_t> demotions_ = 0;
};

/// An open, authenticated connection.
struct Connection {
  std::unique_ptr<Stream> stream;
  ReplyReader reader;
};

/// Makes one connection: resolve, connect (each address in turn), TLS, handshake. Never blocks; `step`
/// proceeds as far as it can and returns what to poll for.
class Dialer {
 public:
  struct Waiting {
    int descriptor;
    short events;
  };
  using Outcome = std::variant<Waiting, Connection, Error>;

  Dialer(std::shared_ptr<const Endpoint> endpoint, BootTime now);

  [[nodiscard]] BootTime began() const noexcept { return began_; }
  [[nodiscard]] Outcome step(BootTime now);
  /// The error for a caller that waited this long for the connection: names the step that did not finish.
  [[nodiscard]] Error no_connection(BootClock::duration waited) const;
  /// When to call step without input: to try another address, or to time out.
  [[nodiscard]] BootTime deadline() const noexcept {
    return addresses_.empty() ? deadline_ : std::min(deadline_, address_until_);
  }

 private:
  using Blocked = std::optional<Waiting>;  ///< empty: continue
  Result<Blocked> find_addresses(BootTime now);
  Result<Blocked> establish(BootTime now);
  Result<Blocked> greet(BootTime now);
  [[nodiscard]] Outcome fail(const Error& error) const;
  /// The error for a connection that ended, or sent something unexpected, before its first answer.
  [[nodiscard]] Error not_greeted(const Error& error) const;

  std::shared_ptr<const Endpoint> endpoint_;
  const BootTime began_;
  BootTime deadline_;
  std::optional<Resolution> resolution_;
  bool resolved_ = false;
  std::deque<Address> addresses_;  ///< not tried yet
  std::unique_ptr<Stream> stream_;
  BootTime address_until_ = never;  ///< for the address that is being tried
  bool established_ = false;
  Handshake handshake_;
  std::size_t greeted_ = 0;  ///< bytes of its request that are written
  bool answered_ = false;    ///< at least once
  ReplyReader reader_;
  bool ready_ = false;
};

}  // namespace holdfast::redis
