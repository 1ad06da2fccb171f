#include <algorithm>
#include <array>
#include <holdfast/lock_types.hpp>

#include "core/base64url.hpp"
#include "sys/random.hpp"

namespace holdfast {

LockId LockId::generate() {
  std::array<unsigned char, 16> bytes{};
  sys::random_bytes(bytes);
  LockId id;
  std::ranges::copy(core::base64url(bytes), id.chars_.begin());
  return id;
}

}  // namespace holdfast
