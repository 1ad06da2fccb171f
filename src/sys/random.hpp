#pragma once

#include <cstdint>
#include <span>

namespace holdfast::sys {

/// CSPRNG bytes, each handed out once. Buffered per thread, so most calls make no system call; a forked
/// child never sees its parent's buffer. Throws Error(Internal) if OpenSSL has no entropy.
void random_bytes(std::span<unsigned char> out);

/// A fast generator for jitter, seeded by the kernel. Not for secrets.
[[nodiscard]] std::uint64_t jitter_bits();

/// Uniform in [0, 1).
[[nodiscard]] double jitter_fraction();

}  // namespace holdfast::sys
