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
#include "engine/redis/doctor/sentinels.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/rights.hpp"

namespace holdfast::redis {

/// The `name:value` lines of INFO.
using Info = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] Info parse_info(std::string_view text);

/// A right that a user needs, and whether this user has it.
struct Right {
  enum class Missing : std::uint8_t {
    none,
    command,  ///< may not run it
    key,      ///< may not use a key of the prefix with it
    channel,  ///< may not use a channel of the prefix with it
  };
  std::string command;                      ///< as CommandRight names it
  std::optional<Half> half = std::nullopt;  ///< whose keys or channels it was tried on
  Missing missing = Missing::none;
  /// The server's error, if it was not about rights.
  std::string failure = {};

  [[nodiscard]] bool is_there() const noexcept { return missing == Missing::none && failure.empty(); }
};

struct FenceCount {
  std::uint64_t counters = 0;   ///< found among the keys looked at
  std::uint64_t looked_at = 0;  ///< keys of the database
  std::uint64_t keys = 0;       ///< in the database
  double bytes_each = 0;        ///< of a sample; 0: not known
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
  /// Other lock prefixes in use, of which one begins with the other and a colon.
  std::set<std::string> nested_prefixes = {};
  /// Whether all names were checked for those.
  bool prefixes_known = false;
  SentinelObservations sentinels = {};
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
  };
  std::vector<Master> masters = {};
  std::size_t slots_without_owner = 0;
};

/// The findings about the cluster as a whole. Pure.
[[nodiscard]] std::vector<Finding> judge_cluster(const ObservedCluster& seen);

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

/// The findings from the observations. Pure; covers every topic, in a fixed order.
[[nodiscard]] std::vector<Finding> judge(const RedisOptions& options, const Observations& seen);

}  // namespace holdfast::redis
