#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
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

/// A node that announces no host is named by where it is reached.
const RedisAddress& named_address(const ClusterMaster& master) {
  return master.announced.host.empty() ? master.address : master.announced;
}

/// The slot map as a node sees it, and whether it considers the cluster usable.
struct AskedNode {
  SlotMap map;
  bool is_down = false;
};

Result<AskedNode> ask_node(const RedisOptions& options, const RedisAddress& named) {
  const auto address = reached_at(named, named.host, options.cluster_connect_to);
  const auto endpoint = Endpoint::from(
      node_options(options, address, announced_for(named, options.cluster_connect_to)), {}, Servers::cluster);
  if (!endpoint) return endpoint.error();
  const auto made = Client::make(*endpoint);
  if (!made) return made.error();
  const auto& client = *made;
  auto map =
      read_slot_map(*client, address, options, saturating_add(BootClock::now(), options.connect_timeout));
  if (!map) return map.error();
  const auto deadline = saturating_add(BootClock::now(), options.connect_timeout);
  const auto info = client->call({"CLUSTER INFO"}, deadline, true);
  const bool is_down = info && text_of(**info).find("cluster_state:fail") != std::string_view::npos;
  return AskedNode{.map = *std::move(map), .is_down = is_down};
}

/// Of the first node that considers the cluster usable: those of the URL are asked, and if one of them does
/// not, the masters that it knows. Else of the first one that answers. Adds to `down_at`.
Result<SlotMap> first_map(const RedisOptions& options, std::vector<std::string>& down_at) {
  Error failure(ErrorCode::InvalidArgument, "no node of the cluster is named");
  std::optional<SlotMap> of_a_node_that_is_down;
  auto to_ask = options.cluster_nodes;
  for (std::size_t i = 0; i < to_ask.size(); ++i) {
    auto asked = ask_node(options, to_ask[i]);
    if (!asked) {
      if (i == 0 || !asked.error().transient()) failure = asked.error();
      continue;
    }
    if (!asked->is_down) return std::move(asked->map);
    down_at.push_back(to_text(to_ask[i]));
    if (of_a_node_that_is_down) continue;
    for (const auto& master : asked->map.masters()) {
      const auto& named = named_address(master);
      if (std::ranges::find(to_ask, named) == to_ask.end()) to_ask.push_back(named);
    }
    of_a_node_that_is_down = std::move(asked->map);
  }
  if (of_a_node_that_is_down) return *std::move(of_a_node_that_is_down);
  return failure;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Finding not_examined(const Error& error) {
  return {
      Severity::problem, "server", error.message(),
      is_refused_user(error)
          ? "create the user there too (ACL SETUSER, then ACL SAVE): the nodes of a cluster share no users"
          : "start it, or fail over to its replica"};
}

/// Adds to the list of findings, step by step.
class ClusterJudge {
 public:
  explicit ClusterJudge(const ObservedCluster& seen) : seen_(seen) {}

  std::vector<Finding> findings() && {
    slots();
    moves();
    replicas();
    epochs();
    return std::move(findings_);
  }

 private:
  using Master = ObservedCluster::Master;
  void add(Severity severity, std::string found, std::string advice = {}) {
    findings_.push_back({severity, "cluster", std::move(found), std::move(advice)});
  }
  [[nodiscard]] std::string names_of(const auto& is_meant) const {
    std::vector<std::string> names;
    for (const auto& master : seen_.masters) {
      if (is_meant(master)) names.push_back(master.name);
    }
    return list_of(names);
  }

  void slots() {
    if (!seen_.down_at.empty()) {
      add(Severity::problem,
          "the cluster is down (cluster_state:fail) according to " + list_of(seen_.down_at) +
              ": no lock can be acquired there",
          "check that these nodes reach the other masters, and that every slot has a master: CLUSTER NODES");
    }
    const auto failed = names_of([](const Master& master) { return master.failed; });
    if (!failed.empty()) {
      add(Severity::problem, "considered failed: " + failed + ". The locks of these masters are unavailable",
          "start it, or fail over to its replica: CLUSTER FAILOVER FORCE there");
    }
    if (seen_.slots_without_owner > 0) {
      add(Severity::problem,
          std::to_string(seen_.slots_without_owner) + " slots have no master: their locks cannot be acquired",
          "redis-cli --cluster fix HOST:PORT");
    } else if (failed.empty()) {
      add(Severity::ok, std::to_string(seen_.masters.size()) + " masters have all slots");
    }
  }

  void moves() {
    const auto moving = names_of([](const Master& master) { return master.moving_slots > 0; });
    if (moving.empty()) return;
    add(Severity::warning,
        "slots are moving at " + moving +
            ": if a master fails over that they leave, the locks that have moved already may be granted "
            "again",
        "no failover, planned ones included, until they have moved; if nothing moves them any more, "
        "redis-cli --cluster fix HOST:PORT");
  }

  void replicas() {
    const auto alone = names_of([](const Master& master) { return master.replicas == 0; });
    if (alone.empty()) return;
    add(Severity::warning,
        "without a replica: " + alone + ". If it fails, its locks are unavailable until it returns",
        "redis-cli --cluster add-node NEW_HOST:PORT HOST:PORT --cluster-slave");
  }

  void epochs() {
    std::uint64_t highest = 0;
    bool any_above = false;
    for (const auto& master : seen_.masters) {
      highest = std::max(highest, master.config_epoch);
      any_above |= compare_with_counters(master);
    }
    if (highest > highest_epoch) {
      return add(Severity::problem,
                 "the config epoch " + std::to_string(highest) + " is above " +
                     std::to_string(highest_epoch) +
                     " and is not applied: a failover that loses writes may repeat fences",
                 "create a new cluster with new epochs, and another lock_prefix");
    }
    const auto text = "the highest config epoch is " + std::to_string(highest);
    const auto unknown = names_of([](const Master& master) { return !master.counters_known; });
    if (any_above) return add(Severity::note, text);
    if (!unknown.empty()) {
      return add(Severity::note, text + "; fence counters were not compared with it at " + unknown,
                 "grant +scan +dbsize, and check that the doctor reaches these masters");
    }
    for (const auto& master : seen_.masters) {
      if (master.counters_not_compared == 0) continue;
      return add(Severity::note, text + "; " + std::to_string(master.counters_not_compared) +
                                     " fence counters at " + master.name + " were not compared with it");
    }
    add(Severity::ok, text + ": fences continue above those that a failover lost");
  }

  /// Whether its counters are above all fences of its epoch. Such fences were granted under epochs that this
  /// cluster does not know, and it may reach those again.
  bool compare_with_counters(const Master& master) {
    const auto counter = master.highest_counter.value_or(0);
    if (master.config_epoch > highest_epoch || counter < (master.config_epoch + 1) * fences_per_epoch) {
      return false;
    }
    add(Severity::warning,
        "a fence counter at " + master.name + " is at " + std::to_string(counter) +
            ", above all fences of its config epoch " + std::to_string(master.config_epoch) +
            ": the data is of another cluster, or nodes.conf was lost. A failover that loses writes may "
            "repeat fences, until the epoch is above " +
            std::to_string(counter / fences_per_epoch),
        "raise the epoch above that by manual failovers (CLUSTER FAILOVER at its replica), or use a new "
        "lock_prefix");
    return true;
  }

  const ObservedCluster& seen_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> judge_cluster(const ObservedCluster& seen) {
  return ClusterJudge(seen).findings();
}

std::vector<Finding> folded(const std::vector<NodeFindings>& nodes) {
  struct Group {
    const Finding* finding;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  std::vector<std::string_view> topics;  // in the order of their first appearance
  for (const auto& node : nodes) {
    for (const auto& finding : node.findings) {
      if (std::ranges::find(topics, finding.topic) == topics.end()) topics.emplace_back(finding.topic);
      const auto same = std::ranges::find_if(groups, [&](const Group& group) {
        const auto& other = *group.finding;
        return other.severity == finding.severity && other.topic == finding.topic &&
               other.found == finding.found && other.advice == finding.advice;
      });
      if (same == groups.end()) {
        groups.push_back({.finding = &finding, .names = {node.name}});
      } else {
        same->names.push_back(node.name);
      }
    }
  }
  std::vector<Finding> findings;
  findings.reserve(groups.size());
  for (const auto topic : topics) {
    for (const auto& group : groups) {
      if (group.finding->topic != topic) continue;
      auto finding = *group.finding;
      const bool at_all = group.names.size() == nodes.size() && nodes.size() > 1;
      const auto where = at_all ? "all " + std::to_string(nodes.size()) + " masters" : list_of(group.names);
      finding.found = where + ": " + finding.found;
      findings.push_back(std::move(finding));
    }
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
  ObservedCluster cluster;
  const auto map = first_map(options, cluster.down_at);
  if (!map) return map.error();
  cluster.slots_without_owner = map->slots_without_owner();
  std::vector<NodeFindings> nodes;
  for (const auto& master : map->masters()) {
    const auto name = to_text(named_address(master));
    cluster.masters.push_back({.name = name,
                               .config_epoch = master.config_epoch,
                               .replicas = master.replicas,
                               .failed = master.failed});
    nodes.push_back({.name = name});
    auto& findings = nodes.back().findings;
    auto node = node_options(options, master.address, master.announced.host);
    node.layout = layout_of(options);
    const auto endpoint = Endpoint::from(node, {}, Servers::cluster);
    if (!endpoint) return endpoint.error();
    auto seen = observe(*endpoint, locks, tasks, progress,
                        [&](std::string_view key) { return map->owner(slot_of(key)) == &master; });
    if (!seen) {
      findings.push_back(not_examined(seen.error()));
      continue;
    }
    auto& observed = cluster.masters.back();
    observed.config_epoch = seen->config_epoch.value_or(master.config_epoch);
    observed.highest_counter = seen->highest_counter;
    observed.counters_known = seen->fences.has_value();
    observed.moving_slots = seen->moving_slots;
    if (const auto& count = seen->fences) {
      observed.counters_not_compared =
          static_cast<std::uint64_t>(std::llround(count->in_all() - static_cast<double>(count->compared)));
    }
    if (seen->cluster_state == "fail" && std::ranges::find(cluster.down_at, name) == cluster.down_at.end()) {
      cluster.down_at.push_back(name);
    }
    seen->replicas =
        ask_replicas(node, seen->info, options.cluster_connect_to, Servers::cluster, locks, tasks);
    const bool is_owner =
        node.layout == RedisLayout::native || map->owner(slot_of(layout.prefix())) == &master;
    for (auto& finding : judge(node, *seen)) {
      if (!is_owner && std::ranges::find(topics_of_the_owner, finding.topic) != topics_of_the_owner.end())
        continue;
      findings.push_back(std::move(finding));
    }
  }
  auto findings = judge_cluster(cluster);
  std::ranges::move(folded(nodes), std::back_inserter(findings));
  return findings;
}

}  // namespace holdfast::redis
