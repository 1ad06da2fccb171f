#pragma once

#include <atomic>
#include <holdfast/clock.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "engine/redis/conn/backoff.hpp"
#include "engine/redis/conn/discovery_fsm.hpp"
#include "engine/redis/conn/handshake_fsm.hpp"
#include "engine/redis/conn/master_watch.hpp"
#include "engine/redis/conn/server_dialer.hpp"
#include "engine/redis/conn/stream.hpp"

namespace holdfast::redis {

/// A server, or the sentinels that lead to it, and the credentials. Shared by all connections to it.
class Endpoint {
 public:
  /// InvalidArgument if the TLS files cannot be used, or if sentinels are named without a service.
  /// `observer`, which may be null, is notified of reconnects. `if_unreachable` ends the message of a failure
  /// to connect.
  [[nodiscard]] static Result<std::shared_ptr<const Endpoint>> from(const RedisOptions& options,
                                                                    std::shared_ptr<Observer> observer = {},
                                                                    Servers servers = Servers::standalone,
                                                                    std::string if_unreachable = {});

  [[nodiscard]] const RedisOptions& options() const noexcept { return options_; }
  [[nodiscard]] Servers servers() const noexcept { return servers_; }
  /// The server to connect to: the one of the options, a master that sentinels named, a sentinel.
  [[nodiscard]] Target server() const;
  [[nodiscard]] Target master(const RedisAddress& address) const;
  [[nodiscard]] Target sentinel(std::size_t number) const;
  /// Null without sentinels.
  [[nodiscard]] MasterWatch* watch() const noexcept { return watch_.get(); }
  /// See MasterWatch::step.
  MasterWatch::Plan watch_master(BootTime now, bool ready) const {
    return watch_ ? watch_->step(now, ready) : MasterWatch::Plan{};
  }
  /// See MasterWatch::switches.
  [[nodiscard]] std::uint64_t switches() const noexcept { return watch_ ? watch_->switches() : 0; }

  /// "redis at localhost:6379", "redis service mymaster": for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The error, with the server's name added.
  [[nodiscard]] Error about(const Error& error) const;
  /// Reports that a connection lost at `since` was replaced, or that an attempt begun then failed with this
  /// error.
  void report_reconnect(BootTime since, BootTime now,
                        std::optional<ErrorCode> failed = std::nullopt) const noexcept;

  /// A connection found a replica in place of the master, so the other connections should leave it too.
  void note_demotion() const noexcept { demotions_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t demotions() const noexcept {
    return demotions_.load(std::memory_order_relaxed) + switches();
  }

 private:
  [[nodiscard]] Target at(const RedisAddress& address, Servers servers) const;
  Endpoint(RedisOptions options, std::shared_ptr<const TlsContext> tls, std::shared_ptr<Observer> observer,
           Servers servers, std::string if_unreachable);
  RedisOptions options_;
  std::shared_ptr<const TlsContext> tls_;
  std::string name_;
  std::shared_ptr<Observer> observer_;
  Servers servers_;
  std::string if_unreachable_;
  std::unique_ptr<MasterWatch> watch_;
  mutable std::atomic<std::uint64_t> demotions_ = 0;
};

/// Makes one connection: to the server, or to the master that the sentinels name. Never blocks; `step`
/// proceeds as far as it can and returns what to poll for.
class Dialer {
 public:
  using PendingIo = ServerDialer::PendingIo;
  using Outcome = ServerDialer::Outcome;

  Dialer(std::shared_ptr<const Endpoint> endpoint, BootTime now);

  [[nodiscard]] BootTime began() const noexcept { return began_; }
  [[nodiscard]] Outcome step(BootTime now);
  /// The error for a caller that waited this long for the connection: names the step that did not finish.
  [[nodiscard]] Error no_connection(BootClock::duration waited) const;
  /// When to call step without input: to try another address, or to time out.
  [[nodiscard]] BootTime deadline() const noexcept { return server_->deadline(); }

 private:
  /// Begins what the discovery asks for; its error ends the attempt.
  std::optional<Error> begin(const Discovery::Action& action, BootTime now);
  /// Passes the end of a step on to the discovery: the next step, or the end.
  [[nodiscard]] std::optional<Outcome> advance(Outcome outcome, BootTime now);

  std::shared_ptr<const Endpoint> endpoint_;
  const BootTime began_;
  const std::uint64_t switches_;
  std::optional<Discovery> discovery_;  ///< with sentinels
  std::optional<NamedMaster> master_;   ///< being dialled; empty: a sentinel is
  std::string step_name_;               ///< "sentinel h:26379: ", for errors
  std::optional<Connection> subscription_;
  std::optional<ServerDialer> server_;
};

}  // namespace holdfast::redis
