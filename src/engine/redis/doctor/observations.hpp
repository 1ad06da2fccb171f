#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/client.hpp"
#include "engine/redis/doctor/replicas.hpp"
#include "engine/redis/doctor/sentinels.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/rights.hpp"

namespace holdfast::redis {

struct FenceCount {
  std::uint64_t counters = 0;   ///< found among the keys looked at
  std::uint64_t looked_at = 0;  ///< keys of the database
  std::uint64_t keys = 0;       ///< in the database
  std::uint64_t compared = 0;   ///< counters whose value was read
  double bytes_each = 0;        ///< of a sample; 0: not known

  [[nodiscard]] bool is_complete() const noexcept { return looked_at >= keys; }
  /// In the whole database, as estimated from the keys that were looked at.
  [[nodiscard]] double in_all() const noexcept {
    const auto found = static_cast<double>(counters);
    if (is_complete() || looked_at == 0) return found;
    return found * static_cast<double>(keys) / static_cast<double>(looked_at);
  }
};

/// Held locks, and those of them whose fence is above their key's counter: the counter went back.
struct HeldFences {
  std::uint64_t checked = 0;
  std::uint64_t above_counter = 0;
};

/// The observations of a server. Values that we may not read, or that the server does not have, are absent.
struct Observations {
  /// The server was examined as a member of a cluster.
  bool in_cluster = false;
  /// Empty if we may not read it.
  Info info = {};
  std::optional<std::string> save = std::nullopt;         ///< CONFIG GET save
  std::optional<std::string> appendfsync = std::nullopt;  ///< CONFIG GET appendfsync
  std::string user = {};                                  ///< ACL WHOAMI; empty: not known
  std::vector<Right> rights = {};
  std::vector<std::chrono::nanoseconds> round_trips = {};
  /// The server's clock minus ours, approximately.
  std::optional<std::chrono::microseconds> clock_ahead = std::nullopt;
  std::chrono::microseconds clock_uncertainty{};
  /// The server's error for one of our scripts, sent by digest and by text; empty if it ran.
  std::string script_failure = {};
  /// How many subscribers a message to our own subscription reached.
  std::optional<std::int64_t> message_reached = std::nullopt;
  std::optional<FenceCount> fences = std::nullopt;
  HeldFences held = {};
  bool has_authority = false;
  /// The lock prefix is used with another layout than the options name.
  bool other_layout = false;
  /// With layout=native: fence counters of SyncGuard, or of the documented layout, under the lock prefix.
  std::uint64_t documented_counters = 0;
  /// The layout that the task prefix is used with, as its marker says; empty: it has none, or not here.
  std::string task_layout = {};
  /// The highest of some fence counters.
  std::optional<std::uint64_t> highest_counter = std::nullopt;
  /// Other lock prefixes in use, of which one begins with the other and a colon.
  std::set<std::string> nested_prefixes = {};
  /// Whether all names were checked for those.
  bool prefixes_known = false;
  SentinelObservations sentinels = {};
  /// At most `most_replicas`.
  std::vector<ReplicaObservation> replicas = {};
  /// Of CLUSTER INFO: "ok" or "fail", empty if not known; and the config epoch that it has itself.
  std::string cluster_state = {};
  std::optional<std::uint64_t> config_epoch = std::nullopt;
  /// Of CLUSTER NODES: its slots that are on their way to another node, or from there.
  std::size_t moving_slots = 0;
  /// The mode of the password file, if there is one.
  std::optional<unsigned> password_file_mode = std::nullopt;
};

/// Whether a key of this name is at the examined server. Null: every key.
using IsHere = std::function<bool(std::string_view name)>;

/// Collects everything that `judge` needs from a server. Refusals are part of the observations; an Error
/// means that the server no longer answers.
[[nodiscard]] Result<Observations> observe(const std::shared_ptr<const Endpoint>& endpoint,
                                           const LockLayout& layout, const StorageLayout& tasks,
                                           const Progress& progress, const IsHere& is_here = {});

/// A cluster as one of its nodes sees it.
struct ObservedCluster {
  struct Master {
    std::string name;  ///< host and port
    std::uint64_t config_epoch = 0;
    std::size_t replicas = 0;
    bool failed = false;  ///< other nodes consider it failed
    /// The highest of some fence counters; empty if it has none.
    std::optional<std::uint64_t> highest_counter = std::nullopt;
    bool counters_known = false;              ///< whether we could look for counters
    std::uint64_t counters_not_compared = 0;  ///< of those, about
    std::size_t moving_slots = 0;             ///< on their way to it, or from it
  };
  std::vector<Master> masters = {};
  std::size_t slots_without_owner = 0;
  /// Nodes that consider the cluster unusable (cluster_state:fail).
  std::vector<std::string> down_at = {};
};

/// The findings about the cluster as a whole. Pure.
[[nodiscard]] std::vector<Finding> judge_cluster(const ObservedCluster& seen);

/// The findings about one node.
struct NodeFindings {
  std::string name;  ///< host and port
  std::vector<Finding> findings = {};
};

/// The findings about all nodes, sorted by topic. Equal ones become one that names its nodes, or "all 3
/// masters". Pure.
[[nodiscard]] std::vector<Finding> folded(const std::vector<NodeFindings>& nodes);

/// Examines every master of a cluster. The findings of each name it.
[[nodiscard]] Result<std::vector<Finding>> examine_cluster(const RedisOptions& options,
                                                           const LockLayout& locks,
                                                           const StorageLayout& tasks,
                                                           const Progress& progress);

/// One rule that an ACL lacks: a command, a pattern of keys or a pattern of channels.
struct MissingRight {
  std::string rule;  ///< for ACL SETUSER: `+get`, `~syncguard:*`, `&pmcp:changed:*`
  Severity severity = Severity::ok;
  std::string what;  ///< what the user cannot do: "may not get"
  std::string lost;  ///< what does not work, or works worse
};

/// Derived from the tried rights. Pure; each rule once.
[[nodiscard]] std::vector<MissingRight> missing_rights(const RedisOptions& options, const Observations& seen);

/// The findings about the sentinels; none without sentinels. Pure.
[[nodiscard]] std::vector<Finding> judge_sentinels(const RedisOptions& options, const Observations& seen);

/// The findings about the user at the replicas; none without replicas. Pure.
[[nodiscard]] std::vector<Finding> judge_replicas(const RedisOptions& options, const Observations& seen);

/// The findings from the observations. Pure; covers every topic, in a fixed order.
[[nodiscard]] std::vector<Finding> judge(const RedisOptions& options, const Observations& seen);

}  // namespace holdfast::redis
