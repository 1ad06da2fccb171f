#include "rpc/json/records.hpp"

#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::ordered_json;

std::string fence_as_json(const std::optional<FencingToken>& token) {
  if (!token) return "null";
  const ordered_json object{
      {"fence", token->fence.to_string()}, {"key", token->lock_key}, {"authority", token->authority}};
  return dump(object).str();
}

}  // namespace

ordered_json to_json(const LockInfo& info) {
  ordered_json object{{"keyHash", info.key_hash},
                      {"lockIdHash", info.lock_id_hash},
                      {"expiresAtMs", info.expires_at.time_since_epoch().count()},
                      {"acquiredAtMs", info.acquired_at.time_since_epoch().count()},
                      {"fence", info.fence.to_string()}};
  if (info.fence_digits != LockInfo{}.fence_digits) object["fenceDigits"] = info.fence_digits;
  if (info.holder) object["holder"] = info.holder->str();
  return object;
}

Json to_json(const Task& task) {
  JsonObject object;
  for (const auto& [name, value] : members_of(task.record)) {
    // A newer writer's record may have members of these names; ours count, and come last.
    if (name != "version" && name != "incarnation" && name != "fence") object.add(name, value);
  }
  object.add("version", std::to_string(task.version));
  object.add("incarnation", Json::string(task.incarnation).value_or_throw().str());
  object.add("fence", fence_as_json(task.bound_to));
  return object.json();
}

}  // namespace holdfast::rpc
