#include "sys/text_hash.hpp"

#include <array>

#include "sys/random.hpp"

namespace holdfast::sys {

TextHash::TextHash(Random) {
  std::array<unsigned char, sizeof keys_> bytes{};
  random_bytes(bytes);
  std::memcpy(keys_, bytes.data(), bytes.size());
  keys_[2] |= 1U;  // zero would hash everything to zero
}

const TextHash& TextHash::of_this_process() {
  static const TextHash instance{Random()};
  return instance;
}

}  // namespace holdfast::sys
