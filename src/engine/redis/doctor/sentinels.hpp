#pragma once

#include <cstdint>
#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/redis/conn/dialer.hpp"

namespace holdfast::redis {

/// The observations of the sentinels that a URL names.
struct SentinelObservations {
  struct One {
    std::string address;  ///< for messages
    /// Its answer, or why there is none.
    Result<SentinelAnswer> answer;
    /// Its reply to SENTINEL CKQUORUM; empty: it may not be asked.
    std::string quorum = {};
  };
  std::vector<One> all = {};
  /// The master that the examined connection led to.
  std::optional<NamedMaster> master = std::nullopt;
  /// CONFIG GET min-replicas-to-write.
  std::optional<std::string> min_replicas = std::nullopt;
  /// The highest of some fence counters.
  std::optional<std::uint64_t> highest_counter = std::nullopt;
};

/// Asks every sentinel of the options.
[[nodiscard]] std::vector<SentinelObservations::One> ask_sentinels(const RedisOptions& options);

/// The findings about them; none without sentinels. Pure.
[[nodiscard]] std::vector<Finding> judge_sentinels(const RedisOptions& options,
                                                   const SentinelObservations& seen);

}  // namespace holdfast::redis
