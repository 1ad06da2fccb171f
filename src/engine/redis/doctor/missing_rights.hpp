#pragma once

#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <string>
#include <vector>

#include "engine/redis/doctor/observations.hpp"

namespace holdfast::redis {

/// One rule that an ACL lacks: a command, a pattern of keys or a pattern of channels.
struct MissingRight {
  std::string rule;  ///< what ACL SETUSER takes: `+get`, `~syncguard:*`, `&pmcp:changed:*`
  Severity severity = Severity::ok;
  std::string what;  ///< what the user cannot do: "may not get"
  std::string lost;  ///< what does not work, or works worse
};

/// By what was tried. Pure; each rule once.
[[nodiscard]] std::vector<MissingRight> missing_rights(const RedisOptions& options, const Observations& seen);

}  // namespace holdfast::redis
