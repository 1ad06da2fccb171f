#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>

#include "engine/redis/doctor/judge.hpp"
#include "engine/redis/doctor/observe.hpp"

namespace holdfast {

Result<std::vector<Finding>> examine_redis(const RedisOptions& options, const Progress& progress) {
  const auto layout = redis::Layout::make(options.lock_prefix, options.db);
  if (!layout) return layout.error();
  const auto tasks = redis::StorageLayout::make(options.task_prefix, options.db);
  if (!tasks) return tasks.error();
  const auto endpoint = redis::Endpoint::from(options, {}, redis::Servers::any);
  if (!endpoint) return endpoint.error();
  const auto seen = redis::observe(*endpoint, *layout, *tasks, progress);
  if (!seen) return seen.error();
  return redis::judge(options, *seen);
}

}  // namespace holdfast
