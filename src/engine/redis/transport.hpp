#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/redis.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

class Call;
class Client;

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

  /// One command, blocking. A Router sends one without a key (RoutedCommand) to the master of its home key.
  [[nodiscard]] Result<Reply> call(Command command, BootTime deadline, bool fail_fast = false);
  [[nodiscard]] Result<Reply> call_routed(RoutedCommand command, BootTime deadline, bool fail_fast = false);
};

/// How subscribers find the servers of their channels, where there are several.
struct WhereToListen {
  /// The node that serves the channel; null: one server serves all.
  std::function<std::shared_ptr<const Endpoint>(std::string_view channel)> server_of = {};
  /// For a node's answer that another one, at this announced address, has the channel: reads the map anew. No
  /// call may follow that would notice it.
  std::function<void(const Endpoint& node, const RedisAddress& announced)> moved = {};
};

/// The way to the data of one half of a store, as its options describe it.
struct OpenedTransport {
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Client> single;  ///< the same, if it is one server
  WhereToListen where_to_listen;   ///< without functions: `endpoint` serves all
  Channels channels = Channels::global;
  /// The servers that together have all keys, as far as is known. `anew`: there may be others now, for later
  /// calls they are looked for.
  std::function<std::vector<std::shared_ptr<const Endpoint>>(bool anew)> all_servers;
};
/// One server connects on first use, a cluster at once. InvalidArgument if a cluster cannot keep the keys of
/// an operation in one slot, see `refuse_prefix`. `channels`: sharded if the servers have such.
[[nodiscard]] Result<OpenedTransport> open_transport(const RedisOptions& options, std::string_view option,
                                                     std::string_view prefix, Channels channels,
                                                     std::shared_ptr<Observer> observer);

/// InvalidArgument, with an explanation, if an operation on keys of this prefix needs several slots of a
/// cluster. `option` is its name.
[[nodiscard]] std::optional<Error> refuse_prefix(const RedisOptions& options, std::string_view option,
                                                 std::string_view prefix);

/// The map that a node of a cluster has, blocking. `options` are the cluster's.
[[nodiscard]] Result<SlotMap> read_slot_map(Transport& node, const RedisAddress& asked,
                                            const RedisOptions& options, BootTime deadline);

}  // namespace holdfast::redis
