#include "rpc/lock_results.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rpc/limits.hpp"

namespace holdfast::cli::rpc {

Json granted(std::string_view lock_id, Fence fence, std::int64_t expires_at_ms) {
  const nlohmann::ordered_json result{
      {"ok", true}, {"lockId", lock_id}, {"fence", fence.to_string()}, {"expiresAtMs", expires_at_ms}};
  return Json::unchecked(result.dump());
}

LockOptions lock_options(const Params& params) {
  LockOptions options;
  options.ttl = params.milliseconds_if("ttlMs").value_or(options.ttl);
  options.wait = params.milliseconds_if("waitMs");
  if (const auto retries = params.count_if("retries")) {
    options.retries = static_cast<std::uint32_t>(std::min<std::uint64_t>(*retries, no_retry_limit));
  }
  options.max_hold = params.milliseconds_if("maxHoldMs").value_or(options.max_hold);
  return options;
}

void check_room_for_lock(const HeldLocks& held) {
  if (held.size() < max_held) return;
  throw Error(ErrorCode::RateLimited, "this connection holds " + std::to_string(held.size()) +
                                          " locks, as many as it may; release some");
}

}  // namespace holdfast::cli::rpc
