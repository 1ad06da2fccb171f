#pragma once

#include <cstddef>
#include <cstring>
#include <holdfast/lock_types.hpp>

namespace holdfast::core {

/// Hash for tables keyed by lock id. Ids are random, so a few of their bytes are a good hash. A caller that
/// chooses ids can make them collide, but slows down only its own process.
struct LockIdHash {
  std::size_t operator()(const LockId& id) const noexcept {
    std::size_t hash = 0;
    std::memcpy(&hash, id.str().data(), sizeof hash);
    return hash;
  }
};

}  // namespace holdfast::core
