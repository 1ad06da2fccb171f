#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/redis/conn/connector.hpp"
#include "engine/redis/conn/routing_fsm.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {

/// A connection that is listened to, and the machine that says what to send and what a reply means:
/// Subscriptions, of all channels or those in the slots of one master of a cluster; or KeyTracking. If the
/// machine is guarded by its owner's mutex, all functions require it; only the thread that leads the I/O
/// calls them.
template <class Machine>
class SubscriptionLink {
 public:
  using Topics = Machine;

  /// `arguments`: of the machine.
  template <class... Arguments>
  SubscriptionLink(std::shared_ptr<const Endpoint> server, PickEndpoint pick, Arguments&&... arguments)
      : endpoint(server),
        topics(std::forward<Arguments>(arguments)...),
        connector_(std::move(server), ReconnectFsm::AfterAnswers::pause, std::move(pick)) {}

  const std::shared_ptr<const Endpoint> endpoint;
  Topics topics;

  /// Writes what is to be written, or goes on with connecting. Returns whether a connection was made: it
  /// should be served again before any sleep.
  bool serve(BootTime now) {
    if (connection_ && connector_.outdated()) lose({ErrorCode::ServiceUnavailable, "it was a replica"});
    topics.ask(now);
    write();
    return !connection_ && dial(now);
  }

  [[nodiscard]] pollfd to_poll() const {
    if (!connection_) {
      const auto waiting = connector_.waiting();
      return {.fd = waiting.descriptor, .events = waiting.events, .revents = 0};
    }
    return {.fd = connection_->stream->descriptor(),
            .events = static_cast<short>(topics.output().empty() ? POLLIN : POLLIN | POLLOUT),
            .revents = 0};
  }

  /// How long to sleep if nothing happens: until the next attempt to connect, the time to drop a channel, or
  /// the time to probe or give up the connection.
  [[nodiscard]] std::chrono::nanoseconds nap(BootTime now) const {
    using std::chrono::milliseconds;
    const auto nap = (connection_ ? topics.due() : connector_.step_at()) - now;
    return std::clamp<std::chrono::nanoseconds>(nap, milliseconds(1), milliseconds(500));
  }

  /// Reads if it is `ready`, and gives up a connection that is silent for too long. Returns the last refusal,
  /// but for one that only means another server: then calls `moved(address)`, with port 0 if that is unknown.
  template <class Moved>
  std::optional<Error> process_input(bool ready, const Moved& moved) {
    if (!connection_) return std::nullopt;
    if (!ready) {
      // The input was read just now: the answer is missing, not unread.
      if (topics.overdue(BootClock::now())) lose({ErrorCode::NetworkTimeout, "no reply in time"});
      return std::nullopt;
    }
    std::array<char, 16384> bytes;
    std::vector<Reply> replies;
    const auto broken = receive(*connection_, bytes, replies);
    topics.received(BootClock::now());
    std::optional<Error> refusal;
    for (const auto& reply : replies) {
      connector_.answered();
      const auto kind = topics.take(*reply);
      if (kind == Topics::ReplyKind::unexpected) {
        lose({ErrorCode::Internal, "an unexpected reply"});
        return refusal;
      }
      if (kind != Topics::ReplyKind::refusal) continue;
      const auto redirection = redirection_of(*reply);
      if (redirection.kind == Redirection::Kind::none) refusal = error_of(*reply);
      if (redirection.kind == Redirection::Kind::moved)
        moved(redirection.is_known ? redirection.address : RedisAddress{.host = {}, .port = 0});
    }
    if (broken) lose(*broken);
    return refusal;
  }

 private:
  bool dial(BootTime now) {
    auto outcome = connector_.step(now, !topics.empty());
    auto* made = std::get_if<Connection>(&outcome);
    if (made == nullptr) return false;
    connection_.emplace(std::move(*made));
    topics.connected(now);
    return true;
  }

  void write() {
    while (connection_ && !topics.output().empty()) {
      const auto count = connection_->stream->write(topics.output());
      if (!count) return lose(count.error());
      if (*count == 0) return;
      topics.accepted(*count);
    }
  }

  void lose(const Error& why) {
    connection_.reset();
    topics.disconnected();
    connector_.lost(why, BootClock::now());
  }

  Connector connector_;
  std::optional<Connection> connection_;
};

}  // namespace holdfast::redis
