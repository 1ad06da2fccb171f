#pragma once

#include <algorithm>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/redis.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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

/// An open, authenticated connection.
struct Connection {
  std::unique_ptr<Stream> stream;
  ReplyReader reader;
  /// All fences that are granted over it are above this; 0: the server's counter alone decides.
  std::uint64_t fence_floor = 0;
  /// The epoch of the master, as sentinels named it; 0 without sentinels.
  std::uint64_t epoch = 0;
  /// The endpoint's count of master switches when it was dialled; with the one that it has shown itself.
  std::uint64_t switches = 0;
};

/// One server, the credentials for it, and what to ask it at once.
struct Target {
  RedisOptions options;
  std::shared_ptr<const TlsContext> tls;
  Servers servers = Servers::standalone;
  std::string if_unreachable = {};  ///< ends the message of a failure to connect
  std::string question = {};        ///< sent with the handshake
  std::size_t answers = 0;          ///< the number of replies to it
};

/// Makes one connection: resolve, connect (each address in turn), TLS, handshake. Never blocks; `step`
/// proceeds as far as it can and returns what to poll for.
class ServerDialer {
 public:
  struct PendingIo {
    int descriptor;
    short events;
  };
  using Outcome = std::variant<PendingIo, Connection, Error>;

  ServerDialer(Target target, BootTime began, BootTime deadline);

  [[nodiscard]] Outcome step(BootTime now);
  /// The replies to the target's question, after a connection was made.
  [[nodiscard]] const std::vector<Reply>& answers() const noexcept { return answers_; }
  /// The error for a caller that waited this long for the connection: names the step that did not finish.
  [[nodiscard]] Error no_connection(BootClock::duration waited) const;
  /// When to call step without input: to try another address, or to time out.
  [[nodiscard]] BootTime deadline() const noexcept {
    return addresses_.empty() ? deadline_ : std::min(deadline_, address_until_);
  }

 private:
  using Blocked = std::optional<PendingIo>;  ///< empty: continue
  Result<Blocked> find_addresses(BootTime now);
  Result<Blocked> establish(BootTime now);
  Result<Blocked> greet(BootTime now);
  /// The error for a connection that ended, or sent something unexpected, before its first answer.
  [[nodiscard]] Error not_greeted(const Error& error) const;
  /// The error if no address could be connected to.
  [[nodiscard]] Error unreachable(const Error& error) const;
  /// The error for a TLS handshake that failed.
  [[nodiscard]] Error not_secured(const Error& error) const;
  /// Of the URL that leads here, with TLS or without.
  [[nodiscard]] std::string scheme(bool tls) const;

  Target target_;
  const BootTime began_;
  const BootTime deadline_;
  std::optional<Resolution> resolution_;
  bool resolved_ = false;
  std::deque<Address> addresses_;  ///< not tried yet
  std::unique_ptr<Stream> stream_;
  BootTime address_until_ = never;  ///< for the address that is being tried
  bool established_ = false;
  Handshake handshake_;
  const std::string request_;
  std::size_t greeted_ = 0;  ///< bytes of the request that are written
  bool answered_ = false;    ///< at least once
  ReplyReader reader_;
  bool ready_ = false;
  std::vector<Reply> answers_;
};

}  // namespace holdfast::redis
