#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <holdfast/lock_types.hpp>

#include "core/nfc.hpp"

namespace holdfast {
namespace {

/// Three polynomial hashes over UTF-16 code units, as SyncGuard computes them in JavaScript.
class Hash {
 public:
  void add(std::uint32_t unit) noexcept {
    h1_ = h1_ * 31 + unit;
    h2_ = h2_ * 127 + unit * 3;
    h3_ = h3_ * 2047 + unit * 7;
  }
  [[nodiscard]] std::string hex() const {
    std::array<char, 25> text{};
    std::snprintf(text.data(), text.size(), "%08x%08x%08x", h1_, h2_, h3_);
    return text.data();
  }

 private:
  std::uint32_t h1_ = 0, h2_ = 0, h3_ = 0;
};

}  // namespace

std::string key_hash(std::string_view text) {
  // Not UTF-8: there is no normal form and no UTF-16; the bytes themselves still tell inputs apart.
  const auto normalised = core::nfc(text);
  Hash hash;
  if (!normalised) {
    for (const char byte : text) hash.add(static_cast<unsigned char>(byte));
    return hash.hex();
  }
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(normalised->data());
  auto left = static_cast<utf8proc_ssize_t>(normalised->size());
  while (left > 0) {
    utf8proc_int32_t point = 0;
    const auto used = utf8proc_iterate(at, left, &point);
    at += used;
    left -= used;
    const auto code = static_cast<std::uint32_t>(point);
    if (code < 0x10000) {
      hash.add(code);
    } else {
      hash.add(0xD800 + ((code - 0x10000) >> 10));
      hash.add(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  return hash.hex();
}

LockInfo sanitised(const LockRecord& record) {
  return {.key_hash = key_hash(record.key.str()),
          .lock_id_hash = key_hash(record.id.str()),
          .fence = record.fence,
          .acquired_at_ms = record.acquired_at_ms,
          .expires_at_ms = record.expires_at_ms,
          .fence_digits = record.fence_digits};
}

}  // namespace holdfast
