#include "rpc/session/granted_keys.hpp"

namespace holdfast::rpc {

void GrantedKeys::add(const LockId& id, LockKey key) {
  erase(id);
  if (by_id_.size() >= most_) {
    by_id_.erase(oldest_first_.front().first);
    oldest_first_.pop_front();
  }
  const auto entry = oldest_first_.emplace(oldest_first_.end(), id.str(), std::move(key));
  by_id_.emplace(entry->first, entry);
}

std::optional<LockKey> GrantedKeys::find(const LockId& id) const {
  const auto found = by_id_.find(id.str());
  return found == by_id_.end() ? std::nullopt : std::optional(found->second->second);
}

void GrantedKeys::erase(const LockId& id) {
  const auto found = by_id_.find(id.str());
  if (found == by_id_.end()) return;
  const auto entry = found->second;
  by_id_.erase(found);
  oldest_first_.erase(entry);
}

}  // namespace holdfast::rpc
