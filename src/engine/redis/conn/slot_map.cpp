#include "engine/redis/conn/slot_map.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "core/number.hpp"
#include "engine/redis/conn/routing_fsm.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// A node that is being connected to for longer counts as lost, so that the map is read again.
constexpr std::chrono::milliseconds longest_dial = std::chrono::seconds(1);

Error not_a_map(std::string_view command) {
  return {ErrorCode::Internal, "unexpected reply of Redis to " + std::string(command) +
                                   "; check for a proxy, or a server that is not Redis"};
}

std::optional<std::uint16_t> slot_in(std::string_view text) {
  const auto slot = core::whole_number<std::uint16_t>(text);
  return slot && *slot < cluster_slots ? slot : std::nullopt;
}

std::string_view take_until(std::string_view& text, char separator) {
  const auto part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

/// `ip:port@cport` or `ip:port@cport,hostname,…`; an IPv6 address has no brackets.
std::optional<RedisAddress> address_in(std::string_view text) {
  text = text.substr(0, text.find('@'));
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = core::whole_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return std::nullopt;
  return RedisAddress{.host = std::string(text.substr(0, colon)), .port = *port};
}

/// One line of CLUSTER NODES.
struct NodeLine {
  std::string_view id, address, flags, master, epoch, ranges;
};
NodeLine split(std::string_view line) {
  NodeLine node;
  node.id = take_until(line, ' ');
  node.address = take_until(line, ' ');
  node.flags = take_until(line, ' ');
  node.master = take_until(line, ' ');
  take_until(line, ' ');  // when it was last pinged
  take_until(line, ' ');  // when it last answered
  node.epoch = take_until(line, ' ');
  take_until(line, ' ');  // the state of its link
  node.ranges = line;
  return node;
}

using Endpoints = std::map<std::string, RedisAddress, std::less<>>;

/// The addresses that the cluster prefers for its clients, by node id.
Result<Endpoints> preferred_endpoints(const redisReply& ranges) {
  if (is_error(ranges)) return error_of(ranges);
  if (ranges.type != REDIS_REPLY_ARRAY) return not_a_map("CLUSTER SLOTS");
  Endpoints endpoints;
  for (const auto* range : elements_of(ranges)) {
    const auto parts = elements_of(*range);
    for (std::size_t i = 2; i < parts.size(); ++i) {
      const auto node = elements_of(*parts[i]);
      if (node.size() < 3) return not_a_map("CLUSTER SLOTS");
      const auto port = integer_of(*node[1]);
      if (!port || *port < 1 || *port > std::numeric_limits<std::uint16_t>::max()) continue;
      // Null or empty: the host that was asked.
      endpoints.insert_or_assign(
          std::string(text_of(*node[2])),
          RedisAddress{.host = std::string(text_of(*node[0])), .port = static_cast<std::uint16_t>(*port)});
    }
  }
  return endpoints;
}

/// Since 7.0 CLUSTER SLOTS has a fourth part for each node, which also tells sharded channels without a
/// question of its own.
bool is_of_redis_7(const redisReply& ranges) {
  for (const auto* range : elements_of(ranges)) {
    const auto parts = elements_of(*range);
    for (std::size_t i = 2; i < parts.size(); ++i) {
      if (elements_of(*parts[i]).size() < 4) return false;
    }
  }
  return !elements_of(ranges).empty();
}

}  // namespace

RedisAddress reached_at(const RedisAddress& announced, const std::string& asked_host,
                        std::span<const RedisAnnouncement> connect_to) {
  for (const auto& one : connect_to) {
    if (one.announced.host != announced.host) continue;
    if (one.announced.port != 0 && one.announced.port != announced.port) continue;
    return {.host = one.reached_at.host,
            .port = one.reached_at.port != 0 ? one.reached_at.port : announced.port};
  }
  return {.host = announced.host.empty() ? asked_host : announced.host, .port = announced.port};
}

const std::string& announced_for(const RedisAddress& in_url, std::span<const RedisAnnouncement> connect_to) {
  for (const auto& one : connect_to) {
    const auto reached = reached_at(one.announced, {}, {&one, 1});
    // Without a port it is that of any node there.
    const bool is_here = reached.port == 0 || reached.port == in_url.port;
    if (reached.host == in_url.host && is_here) return one.announced.host;
  }
  return in_url.host;
}

RedisOptions node_options(const RedisOptions& cluster, const RedisAddress& address,
                          const std::string& announced_host) {
  auto options = cluster;
  options.cluster_nodes.clear();
  options.cluster_connect_to.clear();
  options.host = address.host;
  options.port = address.port;
  // A certificate names the node as the cluster does, not the tunnel's end.
  if (options.tls_server_name.empty()) options.tls_server_name = announced_host;
  options.connect_timeout = std::min(options.connect_timeout, longest_dial);
  return options;
}

Result<SlotMap> SlotMap::from(const redisReply& nodes, const redisReply& ranges, const RedisAddress& asked,
                              std::span<const RedisAnnouncement> connect_to) {
  if (is_error(nodes)) return error_of(nodes);
  const auto endpoints = preferred_endpoints(ranges);
  if (!endpoints) return endpoints.error();
  SlotMap map;
  map.has_sharded_channels_ = is_of_redis_7(ranges);
  auto text = text_of(nodes);
  std::vector<std::string_view> followed;  ///< by a replica: the id of its master
  if (text.empty()) return not_a_map("CLUSTER NODES");
  while (!text.empty()) {
    const auto node = split(take_until(text, '\n'));
    if (node.id.empty()) continue;
    if (has_flag(node.flags, "noaddr") || has_flag(node.flags, "handshake")) continue;
    auto announced = address_in(node.address);
    const auto epoch = core::whole_number<std::uint64_t>(node.epoch);
    if (!announced || !epoch) return not_a_map("CLUSTER NODES");
    if (const auto found = endpoints->find(node.id); found != endpoints->end()) {
      announced->port = found->second.port;
      // Names are preferred, and this node has none: then it is reached by its address.
      if (found->second.host != no_name) announced->host = found->second.host;
    }
    if (!has_flag(node.flags, "master")) {
      if (!has_flag(node.flags, "fail")) followed.push_back(node.master);
      continue;
    }
    if (node.ranges.empty() || node.ranges.starts_with('[')) continue;
    const auto index = static_cast<std::uint16_t>(map.masters_.size());
    map.masters_.push_back({.id = std::string(node.id),
                            .announced = *announced,
                            // A node that does not know its own address yet is the one that was asked.
                            .address = reached_at(*announced, asked.host, connect_to),
                            .config_epoch = *epoch,
                            .replicas = 0,
                            .failed = has_flag(node.flags, "fail") || has_flag(node.flags, "fail?")});
    for (auto rest = node.ranges; !rest.empty();) {
      auto range = take_until(rest, ' ');
      if (range.starts_with('[')) continue;  // a slot on its way: its owner has it still
      const auto first = slot_in(take_until(range, '-'));
      const auto last = range.empty() ? first : slot_in(range);
      if (!first || !last || *last < *first) return not_a_map("CLUSTER NODES");
      std::fill(map.owners_.begin() + *first, map.owners_.begin() + *last + 1, index);
    }
  }
  for (auto& master : map.masters_) {
    master.replicas = static_cast<std::size_t>(std::ranges::count(followed, master.id));
  }
  return map;
}

std::optional<std::uint64_t> own_epoch_in(const redisReply& info) {
  constexpr std::string_view name = "cluster_my_epoch:";
  if (is_error(info)) return std::nullopt;
  auto text = text_of(info);
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(name)) return core::whole_number<std::uint64_t>(line.substr(name.size()));
  }
  return std::nullopt;
}

std::size_t moving_slots_in(const redisReply& nodes) {
  // Only the line of the node itself has them: "[93->-id]", "[77-<-id]".
  return is_error(nodes) ? 0 : static_cast<std::size_t>(std::ranges::count(text_of(nodes), '['));
}

std::size_t SlotMap::slots_without_owner() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(owners_, none));
}

}  // namespace holdfast::redis
