#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

class Client;
class Router;

/// The server that a connection (Call::connection) leads to, as a Router numbers its nodes. 0: the client has
/// only one.
[[nodiscard]] constexpr std::uint64_t server_of_connection(std::uint64_t connection) noexcept {
  return connection >> 48U;
}

/// One pending command. Every command that is sent through a Client must be safe to repeat: when a connection
/// breaks, unanswered commands are resent on the next.
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  std::string bytes;
  /// The key in `bytes` that decides which node of a cluster serves it, see RoutedCommand.
  std::uint32_t key_at = 0, key_size = 0;
  /// Where its fence floor stands in `bytes`, as 15 digits; npos: nowhere. The connection that it is written
  /// to raises it to its own.
  std::size_t fence_floor_at = std::string::npos;
  /// The epoch of the master that granted what that floor is: see RememberedFence.
  std::uint64_t fence_floor_epoch = 0;
  /// Ends with NetworkTimeout (or the error that prevented a connection) at this time.
  BootTime deadline = never;
  /// If the call is unanswered for this long after the last answer to any call, the connection is given up
  /// and the call resent on a new one.
  BootClock::duration answer_timeout = std::chrono::seconds(5);
  /// How long a call that was written still waits for its answer after a stop request: for those whose answer
  /// must not be lost, because it hands something over.
  BootClock::duration answer_timeout_after_stop{};
  /// A thread will call Client::wait for it: no other thread needs to do its I/O.
  bool awaited = false;
  /// The first failure to connect ends it.
  bool fail_fast = false;
  /// The sending thread leads as a guest next, and writes the call then if no other thread leads. Only for
  /// calls without a waiting thread. All guests of one client must be of one kind: each completes calls that
  /// another has sent.
  bool by_idle_io = false;
  /// For a Router: the master to send it to (Transport::masters). Empty: the one of its key.
  std::optional<std::uint32_t> master = {};
  /// Written behind an ASKING, whose answer is dropped: its slot is on its way to this node.
  bool asking = false;

  /// Whether an earlier copy may have reached the server, or may still reach it. A copy counts once a
  /// connection accepted a byte of it.
  [[nodiscard]] bool was_repeated() const noexcept { return sent_before_; }
  /// False if no connection accepted a byte of it, or ever will.
  [[nodiscard]] bool was_sent() const noexcept { return sent_ || sent_before_; }
  /// Number of the client's connection that it was last written to: the one that answered, if any did.
  /// Answers on another connection may be void: the server may have been restarted in between.
  [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }
  /// Of a call with a fence floor: the epoch of the master that it was last written to; 0 if it has none.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

 protected:
  /// Sets the command that it sends next.
  void carry(RoutedCommand command) noexcept {
    bytes = std::move(command.bytes);
    key_at = command.key_at;
    key_size = command.key_size;
    fence_floor_at = command.fence_floor_at;
    fence_floor_epoch = command.fence_floor_epoch;
  }
  /// Called at its end, exactly once, on the thread that leads the I/O, outside all mutexes. A transient
  /// error means that it is unknown whether the command was carried out, unless `was_sent` is false. The call
  /// owns itself now, and may be sent again.
  virtual void finish(std::unique_ptr<Call> self, Result<Reply> answer) = 0;

 private:
  friend class Client;
  friend class Multiplexer;
  friend class Router;
  struct OnStop {
    Client* client;
    Call* call;
    void operator()() const noexcept;
  };
  bool sent_ = false;         ///< written, or about to be, to the current connection
  bool sent_before_ = false;  ///< written, wholly or in part, to a connection that broke
  bool stopped_ = false;
  BootTime stopped_until_{};  ///< once it is stopped and looked at: answer_timeout_after_stop from then
  std::uint64_t connection_ = 0;
  std::uint64_t epoch_ = 0;
  void* delivery_ = nullptr;  ///< the Router's, while it completes this call
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

}  // namespace holdfast::redis
