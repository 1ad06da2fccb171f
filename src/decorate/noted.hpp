#pragma once

#include <holdfast/lock_types.hpp>
#include <holdfast/observer.hpp>
#include <string>

namespace holdfast::decorate {

/// An occurrence on its way to the thread where user code hears of it: what its views showed is copied. The
/// raw key and lock id end with it; hashing them is left to that thread.
struct Noted {
  explicit Noted(const Occurrence& what)
      : occurrence(what),
        backend(what.backend),
        key(what.key),
        lock_id(what.lock_id),
        broken_because(what.broken_because) {}

  [[nodiscard]] std::string key_hash() const { return hash_of(key); }
  [[nodiscard]] std::string lock_id_hash() const { return hash_of(lock_id); }

  Occurrence occurrence;  ///< its views are not valid any more
  std::string backend, key, lock_id, broken_because;

 private:
  static std::string hash_of(const std::string& raw) {
    return raw.empty() ? std::string() : holdfast::key_hash(raw);
  }
};

}  // namespace holdfast::decorate
