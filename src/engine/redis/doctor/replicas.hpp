#pragma once

#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/rights.hpp"

namespace holdfast::redis {

/// The `name:value` lines of INFO.
using Info = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] Info parse_info(std::string_view text);

/// The addresses of a master's replicas, as its INFO names them. Pure.
[[nodiscard]] std::vector<RedisAddress> replicas_in(const Info& info);

/// The user of the options at one replica. Redis replicates no users, so each replica has its own.
struct ReplicaObservation {
  std::string address;  ///< for messages
  /// Why the user cannot log in, or why the replica cannot be reached.
  std::optional<Error> failure = std::nullopt;
  std::vector<Right> rights = {};
};

/// More than this are not examined.
inline constexpr std::size_t most_replicas = 8;

/// Logs in at each replica that the master's INFO names, and tries the rights there. `server`: the options
/// for that master.
[[nodiscard]] std::vector<ReplicaObservation> ask_replicas(const RedisOptions& server, const Info& info,
                                                           std::span<const RedisAnnouncement> connect_to,
                                                           Servers servers, const LockLayout& locks,
                                                           const StorageLayout& tasks);

/// Whether the server refused the user or its password, rather than we the server's certificate.
[[nodiscard]] bool is_refused_user(const Error& error);

}  // namespace holdfast::redis
