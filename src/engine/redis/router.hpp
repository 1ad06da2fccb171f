#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <holdfast/redis.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/client.hpp"
#include "engine/redis/conn/routing_fsm.hpp"
#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/transport.hpp"
#include "os/process.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::redis {

/// The masters of a cluster, one Client each, and the calls on their way to the right one. Calls go to the
/// owner of their key's slot (RoutedCommand). A call that is redirected, or whose node is lost, goes on until
/// its deadline; a redirected copy was not carried out and is no repetition. docs/internals/cluster.md has
/// the arguments.
///
/// Which thread leads. A thread that waits for its call leads the client that the call was sent to, as with
/// one server: the call costs no switch of threads. A call that goes on to another node goes there without a
/// waiting thread: that client's background thread leads, completes the call, and wakes the thread that still
/// leads the first client. The same happens to a second call of a thread whose first is unanswered. So every
/// call under way has a leader, and no thread sleeps past its own completion.
///
/// A guest (IdleIo) leads one client, the one of the first call it sent; calls by_idle_io to other nodes are
/// left to their background threads. It stays with that client until the last of these calls has ended.
///
/// A completion may wait for another call: its thread then leads where it does already, and the call is sent
/// without a waiting thread, unless it goes there.
///
/// One more thread, the pilot, exists while a map is needed or a call pauses.
class Router final : public Transport, public std::enable_shared_from_this<Router> {
 public:
  /// Connects to the first reachable of `options.cluster_nodes` and reads the map there. Commands without a
  /// key go to the owner of `home_key`. Errors are those of a connection; InvalidArgument if none of the
  /// nodes is a member of a cluster.
  [[nodiscard]] static Result<std::shared_ptr<Router>> open(const RedisOptions& options,
                                                            std::string_view home_key,
                                                            std::shared_ptr<Observer> observer);
  ~Router() override;

  void send(std::unique_ptr<Call> call, const std::stop_token& stop) override;
  void wait(Completion& completion) override;
  void close() override;
  void run_until_readable(int descriptor) noexcept override;
  [[nodiscard]] const Endpoint& endpoint() const noexcept override { return *endpoint_; }
  [[nodiscard]] const std::shared_ptr<const Endpoint>& shared_endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] std::vector<std::uint32_t> masters() const override;

  /// Another node with each call, a master if one is known: for a connection that any node can serve.
  [[nodiscard]] std::shared_ptr<const Endpoint> any_endpoint() const;
  /// All masters, as far as they are known.
  [[nodiscard]] std::vector<std::shared_ptr<const Endpoint>> master_endpoints() const;
  /// Asks for a new map: for those who listen to masters, and send no call that would notice a change.
  void look_anew();
  /// The owner of the key's slot; any node if it has none.
  [[nodiscard]] std::shared_ptr<const Endpoint> endpoint_of(std::string_view key) const;
  /// This node has answered a subscriber that a node at this announced address has its channel; with port 0
  /// the address is unknown.
  void moved(const Endpoint& node, const RedisAddress& announced);
  /// As the first node said.
  [[nodiscard]] bool has_sharded_channels() const noexcept { return has_sharded_channels_; }

 private:
  struct Node;
  struct Waiter;
  struct Delivery;
  struct Completing;
  class RoutedCall;
  class MapCall;
  class EpochCall;
  using Lock = std::unique_lock<std::mutex>;

  Router(RedisOptions options, std::string_view home_key, std::shared_ptr<const Endpoint> endpoint,
         std::shared_ptr<Observer> observer);

  [[nodiscard]] Result<Ok> read_first_map();
  /// Not only announced by a node.
  [[nodiscard]] bool is_in_url(const RedisAddress& address) const;
  /// Fails if the node's options cannot be used, or no descriptor is left.
  Result<Node*> find_or_add_node(const Lock& lock, const RedisAddress& address,
                                 const std::string& announced_host);
  /// The same where the caller goes on without the node: null. The next map tries again.
  Node* node_at(const Lock& lock, const RedisAddress& address, const std::string& announced_host);
  bool use(const Lock& lock, const SlotMap& map);
  /// Which nodes can be asked for a map.
  [[nodiscard]] std::vector<bool> useful_for_maps(const Lock& lock) const;

  void start(std::unique_ptr<RoutedCall> call);
  void dispatch(std::unique_ptr<RoutedCall> call, Node& node, const Node* owner);
  void ended(std::unique_ptr<RoutedCall> call, Result<Reply> answer);
  void follow(std::unique_ptr<RoutedCall> call, const CallRoute::Step& step, const Node& from);
  void deliver(std::unique_ptr<RoutedCall> call, Result<Reply> answer);
  void deliver_from_pilot(std::unique_ptr<RoutedCall> call, Error error);
  void park(std::unique_ptr<RoutedCall> call, std::optional<BootClock::duration> pause);
  void park_for_epoch(std::unique_ptr<RoutedCall> call, Node& node);
  [[nodiscard]] bool knows_epoch(Node& node);
  bool ask_for_epoch(Lock& lock, Node& node);
  void want_map(const Lock& lock, Node* preferred);
  void call_pilot(const Lock& lock);

  void pilot();
  void go_on(std::unique_ptr<RoutedCall> call);
  void ask_for_map(Lock& lock, Node& node);
  void take_map(const Lock& lock, BootTime now);
  [[nodiscard]] std::shared_ptr<Waiter> waiter_of_this_thread();

  const RedisOptions options_;
  const std::shared_ptr<const Endpoint> endpoint_;
  const std::shared_ptr<Observer> observer_;
  const std::uint16_t home_slot_;
  const std::uint64_t number_;  ///< of all routers of this process, for the threads' waiters
  const os::ProcessIdentity process_;
  bool has_sharded_channels_ = false;  ///< set before the router is used

  /// Read without the mutex. Nodes live as long as the router.
  std::array<std::atomic<Node*>, cluster_slots> owners_{};

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> masters_;
  MapRefresh refresh_;
  mutable std::size_t last_any_ = 0;

  struct Parked {
    std::unique_ptr<RoutedCall> call;
    MapRefresh::Ticket ticket = 0;  ///< goes on with this map; 0: at `at`
    BootTime at = never;
    Node* epoch_of = nullptr;  ///< goes on when this node has told its epoch, or the slot has another owner
    Node* owner = nullptr;
    std::optional<Error> refused = {};
  };
  [[nodiscard]] bool may_be_granted(const Parked& parked, BootTime now) const;
  std::list<Parked> parked_;
  std::condition_variable changed_;  ///< for the pilot
  bool piloting_ = false;
  bool closed_ = false;  ///< the pilot ends when no call is parked
  /// Of the question under way.
  std::uint64_t question_ = 0;
  Node* asked_ = nullptr;
  BootTime asked_at_{};
  std::optional<Result<Reply>> nodes_reply_, slots_reply_;

  std::atomic<std::size_t> unawaited_ = 0;  ///< calls without a waiting thread, not completed
  std::condition_variable drained_;

  std::atomic<Node*> guest_at_ = nullptr;
  std::atomic<std::size_t> guest_calls_ = 0;

  runtime::WorkerPool pilot_{2, 1};  ///< and, limited, for what it delivers
};

}  // namespace holdfast::redis
