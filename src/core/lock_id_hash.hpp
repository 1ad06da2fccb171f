#pragma once

#include <cstddef>
#include <cstring>
#include <holdfast/lock_types.hpp>

namespace holdfast::core {

/// For tables by lock id. Ids are random, so a few of their bytes are a hash; a caller that chooses ids can
/// make them collide, and slows down only its own process.
struct LockIdHash {
  std::size_t operator()(const LockId& id) const noexcept {
    std::size_t hash = 0;
    std::memcpy(&hash, id.str().data(), sizeof hash);
    return hash;
  }
};

}  // namespace holdfast::core
