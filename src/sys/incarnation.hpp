#pragma once

#include <array>
#include <string>

#include "core/base64url.hpp"
#include "sys/random.hpp"

namespace holdfast::sys {

/// A name for one life of a record, never given twice. Throws as random_bytes.
[[nodiscard]] inline std::string new_incarnation() {
  std::array<unsigned char, 16> bytes{};
  random_bytes(bytes);
  return core::base64url(bytes);
}

}  // namespace holdfast::sys
