#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::os {

/// CSPRNG bytes, each handed out once. Buffered per thread, so most calls make no system call; a forked child
/// never sees its parent's buffer. Throws Error(Internal) if the kernel refuses (a seccomp filter).
void random_bytes(std::span<unsigned char> out);

/// A fast generator for jitter, seeded by the kernel. Not for secrets.
[[nodiscard]] std::uint64_t jitter_bits();

/// Uniform in [0, 1).
[[nodiscard]] double jitter_fraction();

/// A unique id for one incarnation of a record. Throws as random_bytes.
[[nodiscard]] std::string new_incarnation();

/// Hashes texts for tables whose keys untrusted callers choose. Its keys are random, once per process: an
/// attacker without them cannot construct collisions, unlike for std::hash, whose seed is a constant. Not a
/// cryptographic hash: it must not leave the process.
class TextHash {
 public:
  using is_transparent = void;

  TextHash() : TextHash(of_this_process()) {}
  TextHash(const TextHash&) = default;

  std::size_t operator()(std::string_view text) const noexcept {
    const char* at = text.data();
    std::size_t left = text.size();
    std::uint64_t hash = keys_[1];
    for (; left > 16; at += 16, left -= 16) hash = fold(load(at) ^ keys_[0], load(at + 8) ^ hash);
    hash = fold(first(at, left) ^ keys_[0], last(at, left) ^ hash);
    // The length comes last, when the value it is mixed with is unknown: earlier, a text could compensate for
    // it.
    return fold(hash ^ text.size(), keys_[2]);
  }

 private:
  static const TextHash& of_this_process();
  struct Random {};
  explicit TextHash(Random);

  /// Uses both halves of the product: each of its bits depends on many bits of both factors.
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }
  template <class Word = std::uint64_t>
  static std::uint64_t load(const char* at) noexcept {
    Word word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  // The last 16 bytes or fewer, as two words that may overlap.
  static std::uint64_t first(const char* at, std::size_t left) noexcept {
    if (left >= 8) return load(at);
    if (left >= 4) return load<std::uint32_t>(at);
    return left == 0 ? 0 : load<std::uint8_t>(at) << 8U | load<std::uint8_t>(at + left / 2);
  }
  static std::uint64_t last(const char* at, std::size_t left) noexcept {
    if (left >= 8) return load(at + left - 8);
    if (left >= 4) return load<std::uint32_t>(at + left - 4);
    return left == 0 ? 0 : load<std::uint8_t>(at + left - 1);
  }

  std::uint64_t keys_[3] = {};
};

}  // namespace holdfast::os
