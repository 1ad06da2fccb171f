#include "tasks/address.hpp"

#include <holdfast/lock_types.hpp>
#include <holdfast/task_types.hpp>

#include "core/storage_key.hpp"

namespace holdfast {

std::string owner_of(std::string_view subject, std::string_view client_id, std::string_view session_id) {
  for (const auto name : {subject, client_id, session_id}) {
    if (!name.empty()) return std::string(name);
  }
  return std::string(tasks::anonymous_owner);
}

namespace tasks {

Result<std::string> checked_owner(std::string_view owner, bool allow_anonymous) {
  if (owner.empty()) owner = anonymous_owner;
  if (owner == anonymous_owner && !allow_anonymous) {
    return Error(ErrorCode::AnonymousOwner,
                 "owner \"local\" is not allowed here; use another owner, or allow anonymous tasks");
  }
  return std::string(owner);
}

std::string stored_owner(std::string_view owner) {
  const auto contains = [owner](std::string_view what) { return owner.find(what) != std::string_view::npos; };
  if (!contains(":") && !contains("%3A") && !contains("%25")) return std::string(owner);
  std::string stored;
  for (const char c : owner) {
    if (c == ':') {
      stored += "%3A";
    } else if (c == '%') {
      stored += "%25";
    } else {
      stored += c;
    }
  }
  return stored;
}

std::optional<std::string> owner_stored_as(std::string_view stored) {
  std::string owner;
  for (std::size_t at = 0; at < stored.size();) {
    const auto three = stored.substr(at, 3);
    const bool encoded = three == "%3A" || three == "%25";
    owner += three == "%3A" ? ':' : stored[at];  // %25 is the % it begins with
    at += encoded ? 3 : 1;
  }
  // An owner without a name is `local`, and stored as that.
  if (owner.empty() || stored_owner(owner) != stored) return std::nullopt;
  return owner;
}

std::string lock_key_of(const RecordKey& key) {
  return core::make_storage_key("task", key.str(), LockKey::max_bytes, 0).value_or_throw();
}

}  // namespace tasks
}  // namespace holdfast
