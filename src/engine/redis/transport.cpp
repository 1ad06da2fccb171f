#include "engine/redis/transport.hpp"

#include <utility>

#include "engine/redis/client.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/router.hpp"

namespace holdfast::redis {
namespace {

/// A call that a thread waits for.
struct BlockingCall final : Call {
  explicit BlockingCall(Slot<Reply>& slot) : done(Done<Reply>::into(slot)) { awaited = true; }
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override { done(std::move(answer)); }
  using Call::carry;
  Done<Reply> done;
};

}  // namespace

Result<Reply> Transport::call(Command command, BootTime deadline, bool fail_fast) {
  return call_routed(std::move(command).routed(), deadline, fail_fast);
}

Result<Reply> Transport::call_routed(RoutedCommand command, BootTime deadline, bool fail_fast) {
  Slot<Reply> slot;
  auto call = std::make_unique<BlockingCall>(slot);
  call->carry(std::move(command));
  call->deadline = deadline;
  call->answer_timeout = endpoint().options().command_timeout;
  call->fail_fast = fail_fast;
  send(std::move(call), {});
  wait(slot.completion);
  return *std::move(slot.result);
}

std::optional<Error> refuse_prefix(const RedisOptions& options, std::string_view option,
                                   std::string_view prefix) {
  if (layout_of(options) == RedisLayout::native || has_hash_tag(prefix)) return std::nullopt;
  return Error(
      ErrorCode::InvalidArgument,
      "the " + std::string(option) + " \"" + std::string(prefix) +
          "\" cannot be used with layout=documented on a Redis cluster: each operation uses several keys, "
          "which would be in several slots. Use layout=native, or a prefix with a hash tag, which keeps all "
          "keys in one slot: " +
          std::string(option) + "={" + std::string(prefix) + "}");
}

Result<SlotMap> read_slot_map(Transport& node, const RedisAddress& asked, const RedisOptions& options,
                              BootTime deadline) {
  const auto ranges = node.call({"CLUSTER SLOTS"}, deadline, true);
  if (!ranges) return ranges.error();
  const auto nodes = node.call({"CLUSTER NODES"}, deadline, true);
  if (!nodes) return nodes.error();
  auto map = SlotMap::from(**nodes, **ranges, asked, options.cluster_connect_to);
  if (!map) return node.endpoint().about(map.error());
  return map;
}

Result<OpenedTransport> open_transport(const RedisOptions& options, std::string_view option,
                                       std::string_view prefix, Channels channels,
                                       std::shared_ptr<Observer> observer) {
  OpenedTransport opened;
  if (options.cluster_nodes.empty()) {
    auto endpoint = Endpoint::from(options, std::move(observer));
    if (!endpoint) return endpoint.error();
    opened.endpoint = *std::move(endpoint);
    auto client = Client::make(opened.endpoint);
    if (!client) return client.error();
    opened.single = *std::move(client);
    opened.transport = opened.single;
    opened.all_servers = [only = opened.endpoint](bool) { return std::vector{only}; };
    return opened;
  }
  if (auto refused = refuse_prefix(options, option, prefix)) return *std::move(refused);
  auto router = Router::open(options, prefix, std::move(observer));
  if (!router) return router.error();
  opened.endpoint = (*router)->shared_endpoint();
  if ((*router)->has_sharded_channels()) opened.channels = channels;
  // A weak reference: the subscriber may outlive the last operation.
  opened.where_to_listen.server_of = [weak = std::weak_ptr(*router), fallback = opened.endpoint,
                                      sharded =
                                          opened.channels == Channels::sharded](std::string_view channel) {
    const auto alive = weak.lock();
    if (!alive) return fallback;
    return sharded ? alive->endpoint_of(channel) : alive->any_endpoint();
  };
  opened.where_to_listen.moved = [weak = std::weak_ptr(*router)](const Endpoint& node,
                                                                 const RedisAddress& announced) {
    if (const auto alive = weak.lock()) alive->moved(node, announced);
  };
  opened.all_servers = [weak = std::weak_ptr(*router)](bool anew) {
    const auto alive = weak.lock();
    if (alive && anew) alive->look_anew();
    return alive ? alive->master_endpoints() : std::vector<std::shared_ptr<const Endpoint>>();
  };
  opened.transport = *std::move(router);
  return opened;
}

}  // namespace holdfast::redis
