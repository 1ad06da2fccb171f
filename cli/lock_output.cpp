#include "lock_output.hpp"

#include "duration.hpp"
#include "output.hpp"

namespace holdfast::cli {

std::vector<std::pair<std::string, std::string>> fields_of(const LockInfo& info) {
  return {
      {"keyHash", info.key_hash},
      {"lockIdHash", info.lock_id_hash},
      {"fence", info.fence.to_string()},
      {"acquired", iso_time(info.acquired_at_ms)},
      {"expires", iso_time(info.expires_at_ms) + " (in " + describe(time_until(info.expires_at_ms)) + ")"}};
}

}  // namespace holdfast::cli
