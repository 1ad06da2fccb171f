#pragma once

#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <vector>

#include "engine/redis/doctor/observations.hpp"

namespace holdfast::redis {

/// What the observations mean for locks. Pure; every topic is mentioned, in a fixed order.
[[nodiscard]] std::vector<Finding> judge(const RedisOptions& options, const Observations& seen);

}  // namespace holdfast::redis
