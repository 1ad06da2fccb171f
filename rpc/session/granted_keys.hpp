#pragma once

#include <cstddef>
#include <holdfast/lock_types.hpp>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace holdfast::rpc {

/// The keys of the locks that were granted to clients which hold only an id: an engine that knows the key
/// needs no lookup by id. Forgets the oldest ones; then the id alone is used, which finds the same lock.
class GrantedKeys {
 public:
  explicit GrantedKeys(std::size_t most) : most_(most) {}

  void add(const LockId& id, LockKey key);
  /// Empty if it is not known.
  [[nodiscard]] std::optional<LockKey> find(const LockId& id) const;
  void erase(const LockId& id);

 private:
  using Entry = std::pair<std::string, LockKey>;  ///< of an id

  std::size_t most_;
  std::list<Entry> oldest_first_;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_id_;  ///< refers to the entries
};

}  // namespace holdfast::rpc
