#include "os/random.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace holdfast::os {
namespace {

TEST(TextHash, AnyChangeOfATextChangesIt) {
  const TextHash hash;
  std::set<std::size_t> seen;
  std::size_t count = 0;
  for (std::size_t length = 0; length <= 50; ++length) {
    const std::string text(length, 'a');
    seen.insert(hash(text));
    ++count;
    for (std::size_t at = 0; at < length; ++at, ++count) {
      auto other = text;
      other[at] = 'b';
      seen.insert(hash(other));
    }
  }
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(hash("one text"), TextHash()("one text")) << "the tables of one process agree";
}

/// Two blocks whose MurmurHash64A differs in the highest bit alone: in pairs they cancel out, whatever the
/// seed of std::hash. (Found by inverting its rounds.)
std::string colliding_key(unsigned number) {
  constexpr std::uint64_t multiplier = 0xc6a4a7935bd1e995U;
  const auto inverse = [] {
    std::uint64_t x = multiplier;
    for (int i = 0; i < 6; ++i) x *= 2 - multiplier * x;
    return x;
  }();
  const auto mix = [](std::uint64_t v) { return v ^ (v >> 47U); };
  const std::uint64_t a = 0x6161616161616161U;
  const std::uint64_t b = mix(((mix(a * multiplier) * multiplier) ^ (1ULL << 63U)) * inverse) * inverse;
  std::string key;
  for (unsigned bit = 0; bit < 12; ++bit) {
    const std::uint64_t block = (number >> bit & 1U) != 0 ? b : a;
    for (int twice = 0; twice < 2; ++twice) key.append(reinterpret_cast<const char*>(&block), sizeof block);
  }
  return key;
}

TEST(TextHash, KeysMadeToCollideInTheStandardHashDoNot) {
  const TextHash hash;
  std::set<std::size_t> standard, seen;
  for (unsigned i = 0; i < 4096; ++i) {
    standard.insert(std::hash<std::string>{}(colliding_key(i)));
    seen.insert(hash(colliding_key(i)));
  }
  EXPECT_EQ(standard.size(), 1U) << "they no longer collide there: the test proves nothing";
  EXPECT_EQ(seen.size(), 4096U);
}

}  // namespace
}  // namespace holdfast::os
