#include "lock_output.hpp"

#include "duration.hpp"
#include "output.hpp"

namespace holdfast::cli {

std::vector<std::pair<std::string, std::string>> fields_of(const LockInfo& info) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"keyHash", info.key_hash},
      {"lockIdHash", info.lock_id_hash},
      {"fence", info.fence.to_string()},
      {"acquired", iso_time(info.acquired_at_ms)},
      {"expires", iso_time(info.expires_at_ms) + " (in " + describe(time_until(info.expires_at_ms)) + ")"}};
  if (is_of_syncguard_1(info))
    fields.emplace_back("written by", "SyncGuard 1.0, which writes fences of 19 digits");
  return fields;
}

bool is_of_syncguard_1(const LockInfo& info) noexcept {
  return info.fence_digits != LockInfo{}.fence_digits;
}

}  // namespace holdfast::cli
