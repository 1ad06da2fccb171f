#pragma once

#include <gtest/gtest.h>

#include "engine/redis/doctor/observations.hpp"

namespace holdfast::redis {

using namespace std::chrono_literals;

/// What a server in good health shows to a user who may see everything.
inline Observations healthy() {
  Observations seen;
  seen.info = parse_info(
      "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"
      "# Memory\r\nused_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
      "# Persistence\r\naof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\n"
      "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
  seen.save = "";
  seen.appendfsync = "always";
  seen.user = "default";
  for (const auto& right : command_rights({})) {
    if (right.on == CommandRight::On::nothing) seen.rights.push_back({.command = right.name});
    for (const auto half : halves) {
      if (right.on != CommandRight::On::nothing && right.in(half)) {
        seen.rights.push_back({.command = right.name, .half = half});
      }
    }
  }
  seen.round_trips.assign(20, 100us);
  seen.clock_ahead = 3ms;
  seen.clock_uncertainty = 50us;
  seen.message_reached = 1;
  seen.fences = FenceCount{.counters = 10, .looked_at = 1000, .keys = 20, .bytes_each = 72};
  seen.has_authority = true;
  seen.prefixes_known = true;
  return seen;
}

inline RedisOptions far_away() {
  RedisOptions options;
  options.host = "cache.internal";
  options.user = "app";
  options.password = "sesame";
  return options;
}

inline std::vector<Finding> about(const std::string& topic, const Observations& seen,
                                  const RedisOptions& options = {}) {
  std::vector<Finding> result;
  for (auto& finding : judge(options, seen)) {
    if (finding.topic == topic) result.push_back(std::move(finding));
  }
  return result;
}

/// The one finding of a topic.
inline Finding one(const std::string& topic, const Observations& seen, const RedisOptions& options = {}) {
  const auto found = about(topic, seen, options);
  EXPECT_EQ(found.size(), 1U) << topic;
  return found.empty() ? Finding{} : found.front();
}

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Takes a right away, in one half or in both.
inline void lose(Observations& seen, const std::string& command, Right::Missing missing,
                 std::optional<Half> half = std::nullopt) {
  bool found = false;
  for (auto& right : seen.rights) {
    if (right.command != command || (half && right.half != half)) continue;
    right.missing = missing;
    found = true;
  }
  EXPECT_TRUE(found) << command;
}

}  // namespace holdfast::redis
