#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

class Call;

/// The way to a store's data: the connection to one server (Client), or to the masters of a cluster (Router).
class Transport : public IdleIo {
 public:
  /// A stop request ends the call: with Aborted if it was never written, else with NetworkTimeout.
  virtual void send(std::unique_ptr<Call> call, const std::stop_token& stop) = 0;
  /// Returns when the completion is finished; the thread may do the I/O meanwhile.
  virtual void wait(Completion& completion) = 0;
  /// Waits until everything sent has ended, unless called from a completion.
  virtual void close() = 0;
  /// For options and messages.
  [[nodiscard]] virtual const Endpoint& endpoint() const noexcept = 0;

  /// The servers that together have all keys: for a command about all of them (Call::master). Empty: there is
  /// only one.
  [[nodiscard]] virtual std::vector<std::uint32_t> masters() const { return {}; }

  /// One command, blocking.
  [[nodiscard]] Result<Reply> call(Command command, BootTime deadline, bool fail_fast = false);
  [[nodiscard]] Result<Reply> call_bytes(std::string bytes, BootTime deadline, bool fail_fast = false);
};

}  // namespace holdfast::redis
