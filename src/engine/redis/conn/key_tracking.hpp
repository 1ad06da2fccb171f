#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// The channel on which a server names the keys that were written, for connections that speak RESP2.
inline constexpr std::string_view invalidation_channel = "__redis__:invalidate";

/// What tracking costs a server, estimated: it sends one message per turn of its event loop in which a
/// tracked key was written. A bucket of its time, to which each message is charged; pure.
class TrackingBudget {
 public:
  /// Of the server's time.
  static constexpr double share = 0.01;
  /// Messages cost 5 to 15 us each with one name, measured by INFO cpu: most is the system call that sends
  /// it.
  static constexpr BootClock::duration message_cost = std::chrono::microseconds(10);
  static constexpr BootClock::duration name_cost = std::chrono::nanoseconds(300);
  /// As much may be used at once after a pause: three seconds' worth.
  static constexpr BootClock::duration most = std::chrono::milliseconds(30);

  /// Returns false if it is exhausted.
  [[nodiscard]] bool charge(std::size_t messages, std::size_t names, BootTime now) noexcept {
    const auto earned = std::chrono::duration_cast<BootClock::duration>((now - refilled_at_) * share);
    left_ = std::min(most, left_ + earned);
    refilled_at_ = now;
    left_ -= messages * message_cost + names * name_cost;
    return left_ >= BootClock::duration::zero();
  }

 private:
  BootTime refilled_at_{};
  BootClock::duration left_ = most;
};

/// The tracking of one connection: the server reports the names of all keys with a prefix that are written,
/// by any client, in any database, and when they expire (`CLIENT TRACKING` in broadcasting mode, Redis 6).
/// Says what to send, what each reply means, and when silence is suspicious. It gets events and times; it has
/// no mutex, no clock and no I/O.
///
/// The connection redirects the reports to itself, because RESP2 has them only as messages of a channel. It
/// asks for its id, turns tracking on, then subscribes; in that order, since a RESP2 connection that is
/// subscribed takes no other command. The server forgets it all with the connection.
class KeyTracking {
 public:
  /// What a reply was.
  enum class ReplyKind : std::uint8_t {
    message,
    answer,
    refusal,     ///< the reply is an error: this server, or this user, cannot track
    unexpected,  ///< the connection must be given up
  };
  /// The name of a key that was written; nothing behind a missed message, and when all keys are gone.
  using Sink = std::function<void(const std::string_view* name)>;

  KeyTracking(std::string prefix, std::chrono::milliseconds command_timeout, Sink sink)
      : prefix_(std::move(prefix)), command_timeout_(command_timeout), sink_(std::move(sink)) {}

  [[nodiscard]] static bool empty() noexcept { return false; }
  /// Whether all writes are reported from now on, until `disconnected`.
  [[nodiscard]] bool confirmed() const noexcept { return step_ == Step::tracking; }
  /// Messages, and names in them, since the last call.
  [[nodiscard]] std::pair<std::size_t, std::size_t> take_counts() noexcept {
    return {std::exchange(messages_, 0), std::exchange(names_, 0)};
  }

  void connected(BootTime now) {
    quiet_since_ = now;
    send(Step::id, {"CLIENT ID"}, now);
  }
  void disconnected() {
    step_ = Step::none;
    out_.clear();
    is_asked_ = false;
    missed_ = true;
  }
  /// Probes a silent connection: subscribes again, which changes nothing and must be answered.
  void ask(BootTime now) {
    if (confirmed() && !is_asked_ && now >= due()) subscribe(now);
  }

  /// The bytes to write next; none if it is empty.
  [[nodiscard]] std::string_view output() const noexcept { return out_; }
  void accepted(std::size_t count) { out_.erase(0, count); }

  /// Input arrived: the connection lives.
  void received(BootTime now) noexcept { quiet_since_ = now; }
  [[nodiscard]] ReplyKind take(const redisReply& reply) {
    const auto parts = elements_of(reply);
    if (parts.size() == 3 && text_of(*parts[0]) == "message") {
      report(*parts[2]);
      return ReplyKind::message;
    }
    if (!std::exchange(is_asked_, false)) return ReplyKind::unexpected;
    if (is_error(reply)) return ReplyKind::refusal;
    switch (step_) {
      case Step::id:
        if (reply.type != REDIS_REPLY_INTEGER) return ReplyKind::unexpected;
        send(Step::turning_on,
             {"CLIENT TRACKING", "ON", "REDIRECT", std::to_string(reply.integer), "BCAST", "PREFIX", prefix_},
             quiet_since_);
        return ReplyKind::answer;
      case Step::turning_on:
        subscribe(quiet_since_);
        step_ = Step::subscribing;
        return ReplyKind::answer;
      case Step::subscribing:
      case Step::tracking:
        if (parts.size() != 3 || text_of(*parts[0]) != "subscribe") return ReplyKind::unexpected;
        step_ = Step::tracking;
        if (std::exchange(missed_, false)) sink_(nullptr);
        return ReplyKind::answer;
      case Step::none:
        break;
    }
    return ReplyKind::unexpected;
  }

  /// When to `ask` without an event, or to check `overdue`. Requires a connection.
  [[nodiscard]] BootTime due() const noexcept {
    if (!is_asked_) return quiet_since_ + std::min(longest_silence, command_timeout_);
    return std::max(quiet_since_, asked_at_) + command_timeout_;
  }
  /// See Subscriptions::overdue.
  [[nodiscard]] bool overdue(BootTime now) const noexcept { return is_asked_ && now >= due(); }

 private:
  enum class Step : std::uint8_t { none, id, turning_on, subscribing, tracking };
  /// The server is probed after this much silence, or sooner if the command timeout is shorter.
  static constexpr std::chrono::milliseconds longest_silence = std::chrono::seconds(1);

  void send(Step step, const Command& command, BootTime now) {
    step_ = step;
    out_ += command.bytes();
    is_asked_ = true;
    asked_at_ = now;
  }
  void subscribe(BootTime now) { send(step_, {"SUBSCRIBE", invalidation_channel}, now); }

  void report(const redisReply& written) {
    ++messages_;
    if (written.type != REDIS_REPLY_ARRAY) return sink_(nullptr);  // nil: the server was flushed
    for (const auto* key : elements_of(written)) {
      const auto name = text_of(*key);
      ++names_;
      sink_(&name);
    }
  }

  const std::string prefix_;
  const std::chrono::milliseconds command_timeout_;
  const Sink sink_;
  Step step_ = Step::none;
  std::string out_;
  bool is_asked_ = false;  ///< a command was sent and not answered
  BootTime asked_at_{};
  BootTime quiet_since_{};
  bool missed_ = true;  ///< writes before the next confirmation are not reported
  std::size_t messages_ = 0, names_ = 0;
};

}  // namespace holdfast::redis
