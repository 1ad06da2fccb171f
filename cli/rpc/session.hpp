#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/channel.hpp"
#include "rpc/event.hpp"
#include "rpc/held_locks.hpp"
#include "rpc/in_flight.hpp"
#include "rpc/line_buffer.hpp"
#include "rpc/message.hpp"
#include "rpc/method.hpp"
#include "rpc/outbox.hpp"
#include "rpc/service.hpp"

namespace holdfast::cli::rpc {

/// One client, from its first byte to its last answer.
///
/// It ends when the client sends no more (then what was asked for is still answered), when nobody reads the
/// answers any more, or when it is told to stop; in the last two cases what waits for others is cancelled. A
/// change that is on its way is finished in all of them. Only then the client's renewed locks are released:
/// in the other order a write could come after the lock it was made under.
///
/// Everything here runs on the thread of the executor.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Service& service, Channel channel);

  /// Returns when the session has ended and its locks are released. To be called once.
  [[nodiscard]] asio::awaitable<void> run();
  void stop();

  // For methods.
  [[nodiscard]] Service& service() noexcept { return service_; }
  [[nodiscard]] HeldLocks& held() noexcept { return held_; }
  /// False if no request of this id is in flight.
  bool cancel(std::string_view id) { return in_flight_.cancel(id); }

  /// Why answers could not be written; empty unless that is worth telling.
  [[nodiscard]] const std::string& why_broken() const noexcept { return channel_.why(); }

 private:
  /// The answers of a batch until the last one is there.
  struct Batch {
    std::size_t missing = 0;
    std::size_t bytes = 0;
    std::vector<std::string> answers = {};
    std::vector<std::string> lock_ids = {};  ///< as in Outbox::push
  };
  using BatchPtr = std::shared_ptr<Batch>;

  [[nodiscard]] asio::awaitable<void> read_all();
  [[nodiscard]] asio::awaitable<void> write_all();
  [[nodiscard]] asio::awaitable<void> watch();
  /// Returns when another request may be begun, or none any more.
  [[nodiscard]] asio::awaitable<void> room();
  [[nodiscard]] asio::awaitable<void> all_written();
  [[nodiscard]] asio::awaitable<void> take(LineBuffer::Line line);
  void take(const Parsed& message, const BatchPtr& batch);
  /// Throws Error if it must not be begun.
  void check_may_begin(const Method& method, const BatchPtr& batch) const;
  void start(const Method& method, const Request& request, const BatchPtr& batch);
  /// Without an answer for a notification. `lock_id`: as in Running.
  void deliver(const std::optional<std::string>& answer, const BatchPtr& batch,
               const std::string& lock_id = {});
  [[nodiscard]] bool overloaded() const noexcept;
  void lose_client();

  Service& service_;
  Channel channel_;
  Event changed_;
  Outbox outbox_;
  InFlight in_flight_;
  HeldLocks held_;
  std::size_t batched_bytes_ = 0;  ///< of all batches
  std::size_t unread_bytes_ = 0;   ///< that a client had sent when it went
  bool gone_ = false;
  bool stopping_ = false;
  bool written_ = false;
};

}  // namespace holdfast::cli::rpc
