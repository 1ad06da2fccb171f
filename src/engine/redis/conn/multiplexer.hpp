#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/redis/conn/call.hpp"

namespace holdfast::redis {

/// Many calls over one connection: which bytes are written, which reply belongs to which call, when a call
/// ends without a reply, and what is sent again on the next connection. It gets events and times; it has no
/// mutex, no clock and no I/O. Its owner, which has them, calls it from one thread at a time.
///
/// A call is in one of two queues, not written yet or not answered yet, until it ends. Then it is among the
/// finished calls, which the owner takes and completes. A call that ends before its reply leaves a
/// placeholder, so that the next reply still goes to its own call.
class Multiplexer {
 public:
  struct Finished {
    std::unique_ptr<Call> call;
    Result<Reply> answer;
  };

  /// `server` names the server in errors.
  explicit Multiplexer(std::string server) : server_(std::move(server)) {}

  void queue(std::unique_ptr<Call> call);
  /// The call's owner stopped it; `inspect` ends it. Also for a call that has ended already.
  void stop(Call& call) noexcept;

  /// There is a new connection, to a server with this fence floor. Requires that there is none.
  void connected(BootTime now, std::uint64_t fence_floor = 0, std::uint64_t epoch = 0) noexcept;
  /// The connection is gone. Its unanswered calls are queued again, before all others and in their order. A
  /// call counts as repeated only if the connection had accepted a byte of it.
  void disconnected();
  /// An attempt to connect failed. A permanent error (a wrong password) ends all calls, any other error those
  /// with `fail_fast`. Requires that there is no connection.
  void cannot_connect(const Error& error);

  /// Whether `output` has bytes to write now. Requires a connection.
  [[nodiscard]] bool has_output() const noexcept {
    return !out_of_room_ && (written_ < out_.size() || (!unsent_.empty() && !demoted_));
  }
  /// Whether the connection was idle for so long that the peer may have closed it. Then its owner should
  /// check before it writes: the kernel accepts a write to a closed connection, and the outcome is unknown.
  [[nodiscard]] bool was_idle(BootTime now) const noexcept {
    return written_ == out_.size() && sent_.empty() && now - wrote_at_ >= look_after_idle;
  }
  /// The bytes to write next. They stay valid, and must not be asked for again, until `accepted` or
  /// `disconnected`; calls may be queued and end meanwhile. Requires has_output().
  [[nodiscard]] std::string_view output(BootTime now);
  /// The connection accepted this many bytes of `output`. None: it has no room, so there is no output until
  /// `has_room`.
  void accepted(std::size_t count) noexcept {
    written_ += count;
    accepted_bytes_ += count;
    out_of_room_ = count == 0;
  }
  [[nodiscard]] bool out_of_room() const noexcept { return out_of_room_; }
  void has_room() noexcept { out_of_room_ = false; }

  /// Replies arrived, in this order. Returns why the connection must be given up: a reply too many, or its
  /// server is a replica and has answered all it was sent.
  [[nodiscard]] std::optional<Error> take(std::span<Reply> replies, BootTime now);
  /// Whether this connection has answered a call.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// Whether the server of this connection turned out to be a replica: nothing new is written to it.
  [[nodiscard]] bool demoted() const noexcept { return demoted_.has_value(); }

  /// When to call `inspect`; no call is due before.
  [[nodiscard]] BootTime look_at() const noexcept { return look_at_; }
  /// Ends the calls that are stopped or timed out. `no_connection` is why there is no connection, if that is
  /// known. Returns whether the connection must be given up because an answer is overdue. Its owner should
  /// read the connection first: an answer that is unread is not missing.
  [[nodiscard]] bool inspect(BootTime now, const std::optional<Error>& no_connection);

  /// Whether a call is not written yet, and so needs a connection.
  [[nodiscard]] bool has_unsent() const noexcept { return !unsent_.empty(); }
  /// Whether replies are still to come, also to calls that have ended.
  [[nodiscard]] bool owed_replies() const noexcept { return !sent_.empty(); }

  [[nodiscard]] bool has_finished() const noexcept { return !finished_.empty(); }
  /// In the order of their ends. Requires has_finished().
  [[nodiscard]] Finished take_finished() {
    Finished first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }

 private:
  /// Only after this much idle time a check for a closed connection is worth a system call.
  static constexpr BootClock::duration look_after_idle = std::chrono::milliseconds(100);

  struct Sent {
    std::unique_ptr<Call> call;  ///< null: it ended before its reply came
    BootTime at;
    BootClock::duration answer_timeout;
    std::uint64_t first_byte;  ///< its place among the bytes of this connection
  };

  void put(std::unique_ptr<Call>&& call, BootTime now);
  void end(std::unique_ptr<Call>&& call, Result<Reply>&& answer);
  void end_if_due(std::unique_ptr<Call>& call, BootTime now, const std::optional<Error>& no_connection);
  /// When it ends without a reply.
  [[nodiscard]] static BootTime due(const Call& call) noexcept;
  [[nodiscard]] Error unanswered(const Call& call, const std::optional<Error>& no_connection) const;
  /// The time that the server takes to answer, by the fastest call of the connection.
  void learn_round_trip(BootClock::duration took) noexcept;
  /// How long a call may be unanswered: not less than the link needs, or every connection would be given up.
  [[nodiscard]] BootClock::duration answer_timeout_on_link(BootClock::duration answer_timeout) const noexcept;
  /// If there is no answer until then, the connection may be dead and is given up. While answers come it is
  /// alive, however long the queue is.
  [[nodiscard]] BootTime suspect_at(const Sent& sent) const noexcept;

  const std::string server_;
  std::deque<std::unique_ptr<Call>> unsent_;
  std::deque<Sent> sent_;
  std::deque<Finished> finished_;
  BootTime look_at_ = never;

  // Of the current connection.
  std::uint64_t connections_ = 0;     ///< number of connections so far, including this one
  std::uint64_t fence_floor_ = 0;     ///< for the calls that are written to it
  std::uint64_t epoch_ = 0;           ///< of its server
  std::optional<Error> demoted_;      ///< its server is a replica
  bool answered_ = false;             ///< at least one call
  BootTime answered_at_{};            ///< the last time, on any connection
  BootClock::duration round_trip_{};  ///< that of the connection before, until this one has answered
  BootTime wrote_at_{};               ///< when it was last used
  std::uint64_t queued_bytes_ = 0;    ///< that were put into `out_` for it
  std::uint64_t accepted_bytes_ = 0;  ///< of those, accepted by it
  std::string out_;                   ///< being written
  std::size_t written_ = 0;           ///< of it
  bool out_of_room_ = false;
};

}  // namespace holdfast::redis
