#include <algorithm>
#include <array>
#include <string_view>

#include "engine/redis/client.hpp"
#include "engine/redis/conn/discovery_fsm.hpp"
#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/doctor/observations.hpp"
#include "engine/redis/transport.hpp"

namespace holdfast::redis {
namespace {

/// What a master without a key of the prefix cannot show. Only in the documented layout there is one, because
/// the hash tag keeps all keys at one master.
constexpr std::array<std::string_view, 4> topics_of_the_owner{"scripts", "wake-ups", "fences", "prefixes"};

/// Of the first node that answers.
Result<SlotMap> first_map(const RedisOptions& options) {
  Error last(ErrorCode::InvalidArgument, "no node of the cluster is named");
  for (const auto& seed : options.cluster_nodes) {
    const auto address = reached_at(seed, seed.host, options.cluster_connect_to);
    const auto endpoint = Endpoint::from(node_options(options, address, seed.host), {}, Servers::cluster);
    if (!endpoint) return endpoint.error();
    const auto client = Client::make(*endpoint);
    auto map = read_slot_map(*client, address, options);
    if (map || !map.error().transient()) return map;
    last = map.error();
  }
  return last;
}

}  // namespace

std::vector<Finding> judge_cluster(const ObservedCluster& seen) {
  std::vector<Finding> findings;
  const auto add = [&](Severity severity, std::string found, std::string advice = {}) {
    findings.push_back({severity, "cluster", std::move(found), std::move(advice)});
  };
  if (seen.slots_without_owner > 0) {
    add(Severity::problem,
        std::to_string(seen.slots_without_owner) + " slots have no master: their locks cannot be acquired",
        "redis-cli --cluster fix HOST:PORT");
  } else {
    add(Severity::ok, std::to_string(seen.masters.size()) + " masters have all slots");
  }
  std::string alone;
  std::uint64_t highest = 0;
  for (const auto& master : seen.masters) {
    if (master.replicas == 0) alone += (alone.empty() ? "" : ", ") + master.name;
    highest = std::max(highest, master.config_epoch);
  }
  if (!alone.empty()) {
    add(Severity::warning,
        "without a replica: " + alone + ". If it fails, its locks are unavailable until it returns",
        "redis-cli --cluster add-node NEW_HOST:PORT HOST:PORT --cluster-slave");
  }
  if (highest > highest_epoch) {
    add(Severity::problem,
        "the config epoch " + std::to_string(highest) + " is above " + std::to_string(highest_epoch) +
            " and is not applied: a failover that loses writes may repeat fences",
        "create a new cluster with new epochs, and another lock_prefix");
  } else {
    add(Severity::ok, "the highest config epoch is " + std::to_string(highest) +
                          ": fences continue above those that a failover lost");
  }
  return findings;
}

Result<std::vector<Finding>> examine_cluster(const RedisOptions& options, const LockLayout& locks,
                                             const StorageLayout& tasks, const Progress& progress) {
  const auto& layout = locks.names();
  for (const auto& [option, prefix] :
       {std::pair<std::string_view, std::string_view>("lock_prefix", layout.prefix()),
        {"task_prefix", options.task_prefix}}) {
    if (auto refused = refuse_prefix(options, option, prefix)) return *std::move(refused);
  }
  const auto map = first_map(options);
  if (!map) return map.error();
  ObservedCluster cluster{.masters = {}, .slots_without_owner = map->slots_without_owner()};
  for (const auto& master : map->masters()) {
    cluster.masters.push_back({.name = to_text(master.announced),
                               .config_epoch = master.config_epoch,
                               .replicas = master.replicas});
  }
  auto findings = judge_cluster(cluster);
  for (const auto& master : map->masters()) {
    auto node = node_options(options, master.address, master.announced.host);
    node.layout = layout_of(options);
    const auto endpoint = Endpoint::from(node, {}, Servers::cluster);
    if (!endpoint) return endpoint.error();
    const auto seen = observe(*endpoint, locks, tasks, progress,
                              [&](std::string_view name) { return map->owner(slot_of(name)) == &master; });
    if (!seen) {
      findings.push_back(
          {Severity::problem, "server", seen.error().message(), "start it, or fail over to its replica"});
      continue;
    }
    const bool is_owner =
        node.layout == RedisLayout::native || map->owner(slot_of(layout.prefix())) == &master;
    for (auto& finding : judge(node, *seen)) {
      if (!is_owner && std::ranges::find(topics_of_the_owner, finding.topic) != topics_of_the_owner.end())
        continue;
      finding.found = to_text(master.announced) + ": " + finding.found;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace holdfast::redis
