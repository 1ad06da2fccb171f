#pragma once

#include <cstdint>
#include <holdfast/redis.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/redis/conn/dialer.hpp"

namespace holdfast::redis {

/// What was learned from one sentinel.
struct SentinelReport {
  std::string address;  ///< for messages
  /// Its answer, or why there is none.
  Result<SentinelAnswer> answer;
  /// Its reply to SENTINEL CKQUORUM; empty: it may not be asked.
  std::string quorum = {};
  /// Its own id; empty: not known.
  std::string id = {};
  /// The rules that its user lacks: `+subscribe`, `&+switch-master`.
  std::vector<std::string> missing = {};
};

/// The observations of the sentinels that a URL names.
struct SentinelObservations {
  std::vector<SentinelReport> all = {};
  /// The master that the examined connection led to.
  std::optional<NamedMaster> master = std::nullopt;
  /// CONFIG GET min-replicas-to-write.
  std::optional<std::string> min_replicas = std::nullopt;
};

/// Asks every sentinel of the options.
[[nodiscard]] std::vector<SentinelReport> ask_sentinels(const RedisOptions& options);

}  // namespace holdfast::redis
