#include "support/redis_cluster.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "support/eventually.hpp"
#include "support/loopback.hpp"

namespace holdfast::test {
namespace {

std::string number(std::size_t n) {
  return std::to_string(n);
}

/// The lines of CLUSTER NODES, split into words.
std::vector<std::vector<std::string>> known_nodes(RawRedis& raw) {
  std::istringstream text(raw.text({"CLUSTER", "NODES"}));
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    auto& split = lines.emplace_back();
    for (std::string word; words >> word;) split.push_back(word);
  }
  return lines;
}

bool has_slot(const std::vector<std::string>& node, std::uint16_t slot) {
  return std::any_of(node.begin() + 8, node.end(), [&](const std::string& range) {
    if (range.starts_with('[')) return false;
    const auto dash = range.find('-');
    const auto first = std::stoul(range);
    const auto last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1));
    return first <= slot && slot <= last;
  });
}

}  // namespace

RedisCluster::RedisCluster(const Options& options) : node_timeout_(options.node_timeout) {
  const std::size_t count = options.replicas ? 2 * masters : masters;
  std::vector<std::uint16_t> bus_ports;
  for (std::size_t i = 0; i < count; ++i) {
    bus_ports.push_back(free_loopback_port());
    auto config = options.config;
    config.insert(config.end(), {"cluster-enabled yes", "cluster-config-file nodes.conf",
                                 "cluster-port " + number(bus_ports.back()),
                                 "cluster-node-timeout " + std::to_string(options.node_timeout.count()),
                                 // A master without slots stays one: it gets others.
                                 "cluster-allow-replica-migration no", "cluster-replica-validity-factor 0",
                                 "repl-diskless-sync no", "repl-ping-replica-period 1"});
    nodes_.push_back(std::make_unique<RedisServer>(RedisServer::Options{.config = config}));
    auto raw = nodes_.back()->raw();
    ids_.push_back(raw.text({"CLUSTER", "MYID"}));
    if (i >= masters) continue;
    // Otherwise all epochs are 0, and the nodes settle that between themselves for seconds.
    raw.text({"CLUSTER", "SET-CONFIG-EPOCH", number(i + 1)});
    raw.text(
        {"CLUSTER", "ADDSLOTSRANGE", number(slots * i / masters), number(slots * (i + 1) / masters - 1)});
  }
  // Each pair, so that none has to hear of another by gossip.
  for (std::size_t i = 0; i < count; ++i) {
    auto raw = nodes_[i]->raw();
    for (std::size_t k = 0; k < i; ++k)
      raw.text({"CLUSTER", "MEET", "127.0.0.1", number(nodes_[k]->port()), number(bus_ports[k])});
  }
  for (std::size_t i = masters; i < count; ++i) {
    auto raw = nodes_[i]->raw();
    const auto& master = ids_[i - masters];
    await("a replica knows its master", [&] {
      return std::ranges::any_of(known_nodes(raw), [&](const auto& node) {
        return node[0] == master && node[2].find("handshake") == std::string::npos;
      });
    });
    raw.text({"CLUSTER", "REPLICATE", master});
    await("a replica is connected", [&] {
      return raw.text({"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    wait_until_ok(i);
    auto raw = nodes_[i]->raw();
    await("all nodes are known", [&] {
      const auto known = known_nodes(raw);
      return known.size() == count && std::ranges::none_of(known, [](const auto& node) {
               return node[2].find("handshake") != std::string::npos || node[7] != "connected";
             });
    });
  }
}

RedisOptions RedisCluster::options() const {
  RedisOptions where;
  for (const auto& node : nodes_) where.cluster_nodes.push_back({.host = "127.0.0.1", .port = node->port()});
  return where;
}

std::string RedisCluster::url() const {
  return redis_url(options());
}

std::uint16_t RedisCluster::slot_of(const std::string& key) {
  for (const auto& node : nodes_) {
    if (node->pid() < 0) continue;
    return static_cast<std::uint16_t>(node->raw().integer({"CLUSTER", "KEYSLOT", key}));
  }
  throw std::runtime_error("no node of the cluster runs");
}

std::size_t RedisCluster::owner_of(std::uint16_t slot, std::size_t according_to) {
  auto raw = nodes_.at(according_to)->raw();
  for (const auto& node : known_nodes(raw)) {
    if (!has_slot(node, slot)) continue;
    return static_cast<std::size_t>(std::ranges::find(ids_, node[0]) - ids_.begin());
  }
  throw std::runtime_error("slot " + number(slot) + " has no owner");
}

/// The two ends of a migration, each with a connection that is kept.
struct RedisCluster::Migration {
  RawRedis source, target;
  const std::string &source_id, &target_id;
  std::uint16_t target_port;

  void begin(std::uint16_t slot) {
    target.text({"CLUSTER", "SETSLOT", number(slot), "IMPORTING", source_id});
    source.text({"CLUSTER", "SETSLOT", number(slot), "MIGRATING", target_id});
  }
  void move_keys(std::uint16_t slot) {
    for (;;) {
      const auto keys = source.command({"CLUSTER", "GETKEYSINSLOT", number(slot), "100"});
      std::vector<std::string> migrate{"MIGRATE", "127.0.0.1", number(target_port), "",
                                       "0",       "5000",      "REPLACE",           "KEYS"};
      for (const auto* key : redis::elements_of(*keys)) migrate.emplace_back(redis::text_of(*key));
      if (migrate.back() == "KEYS") return;
      source.text(migrate);
    }
  }
  void end(std::uint16_t slot) {
    // The target first: it raises its epoch, and from then on the others learn it by gossip too.
    target.text({"CLUSTER", "SETSLOT", number(slot), "NODE", target_id});
    source.text({"CLUSTER", "SETSLOT", number(slot), "NODE", target_id});
  }
};

RedisCluster::Migration RedisCluster::migration(std::size_t from, std::size_t to) {
  // A target that takes a slot before it has heard of the last epoch of another keeps its own, lower one, and
  // loses the slot again to an older message: then no node has it.
  const auto epochs = [&](std::size_t according_to) {
    auto raw = nodes_[according_to]->raw();
    std::map<std::string, std::string> by_id;
    for (const auto& node : known_nodes(raw)) by_id[node[0]] = node[6];
    return by_id;
  };
  await("the masters agree on their epochs",
        [&] { return epochs(0) == epochs(1) && epochs(1) == epochs(masters - 1); });
  return {.source = nodes_[from]->raw(),
          .target = nodes_[to]->raw(),
          .source_id = ids_[from],
          .target_id = ids_[to],
          .target_port = nodes_[to]->port()};
}

void RedisCluster::begin_migration(std::uint16_t slot, std::size_t from, std::size_t to) {
  migration(from, to).begin(slot);
}

void RedisCluster::move_keys(std::uint16_t slot, std::size_t from, std::size_t to) {
  migration(from, to).move_keys(slot);
}

void RedisCluster::end_migration(std::uint16_t slot, std::size_t from, std::size_t to) {
  migration(from, to).end(slot);
}

void RedisCluster::migrate_slots(std::uint16_t first, int count, std::size_t from, std::size_t to) {
  auto ends = migration(from, to);
  for (int i = 0; i < count; ++i) {
    const auto slot = static_cast<std::uint16_t>(first + i);
    ends.begin(slot);
    ends.move_keys(slot);
    ends.end(slot);
  }
}

bool RedisCluster::is_master(std::size_t index) {
  return nodes_.at(index)->raw().text({"INFO", "replication"}).find("role:master") != std::string::npos;
}

void RedisCluster::allow_next_failover() {
  std::this_thread::sleep_for(2 * node_timeout_ + std::chrono::milliseconds(100));
}

void RedisCluster::fail_over_to(std::size_t replica) {
  nodes_.at(replica)->raw().text({"CLUSTER", "FAILOVER"});
  await("a failover is done", [&] { return is_master(replica); });
}

void RedisCluster::wait_until_ok(std::size_t according_to) {
  auto raw = nodes_.at(according_to)->raw();
  await("the cluster is usable",
        [&] { return raw.text({"CLUSTER", "INFO"}).find("cluster_state:ok") != std::string::npos; });
}

void RedisCluster::await(const std::string& what, const std::function<bool()>& condition) {
  if (eventually(condition, std::chrono::seconds(30))) return;
  std::string logs;
  for (const auto& node : nodes_) logs += node->log();
  throw std::runtime_error("the cluster does not obey: " + what + "\n" + logs);
}

}  // namespace holdfast::test
