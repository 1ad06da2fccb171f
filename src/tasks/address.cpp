#include "tasks/address.hpp"

#include <holdfast/task_types.hpp>

#include "core/storage_key.hpp"
#include "core/utf8.hpp"

namespace holdfast {

std::string owner_of(std::string_view subject, std::string_view client_id, std::string_view session_id) {
  for (const auto name : {subject, client_id, session_id}) {
    if (!name.empty()) return std::string(name);
  }
  return std::string(tasks::anonymous_owner);
}

std::optional<std::string> queue_of(const Task& task) {
  return tasks::queue_stored_as(task.owner);
}

namespace tasks {
namespace {

constexpr std::size_t max_queue_bytes = 512;

std::string encoded(std::string_view name) {
  std::string stored;
  for (const char c : name) {
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

std::string decoded(std::string_view stored) {
  std::string name;
  for (std::size_t at = 0; at < stored.size();) {
    const auto three = stored.substr(at, 3);
    const bool is_encoded = three == "%3A" || three == "%25";
    name += three == "%3A" ? ':' : stored[at];  // %25 is the % it begins with
    at += is_encoded ? 3 : 1;
  }
  return name;
}

}  // namespace

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
  return encoded(owner);
}

Result<std::string> owner_of_queue(std::string_view queue) {
  if (queue.empty() || queue.size() > max_queue_bytes || !core::is_utf8(queue)) {
    return Error(ErrorCode::InvalidArgument,
                 "a queue's name is 1 to " + std::to_string(max_queue_bytes) + " bytes of UTF-8");
  }
  return std::string(owners_of_queues) + encoded(queue);
}

std::optional<std::string> queue_stored_as(std::string_view stored) {
  if (!stored.starts_with(owners_of_queues)) return std::nullopt;
  auto queue = decoded(stored.substr(owners_of_queues.size()));
  const auto again = owner_of_queue(queue);
  if (!again || *again != stored) return std::nullopt;
  return queue;
}

std::optional<std::string> owner_stored_as(std::string_view stored) {
  auto owner = decoded(stored);
  // An owner without a name is `local`, and stored as that.
  if (owner.empty() || stored_owner(owner) != stored) return std::nullopt;
  return owner;
}

std::string lock_key_of(const RecordKey& key) {
  return core::task_lock_key(key.str()).value_or_throw();
}

}  // namespace tasks
}  // namespace holdfast
