#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <holdfast/lock_types.hpp>

#include "core/digest.hpp"
#include "core/nfc.hpp"

namespace holdfast {

namespace {

/// Reports the length before normalisation: a text that is far too long is never normalised.
Error key_too_long(std::size_t bytes) {
  return {ErrorCode::InvalidArgument, "key exceeds maximum length: " + std::to_string(bytes) +
                                          " bytes, at most " + std::to_string(LockKey::max_bytes)};
}

std::string code_point_text(std::int32_t point) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(point));
  return text.data();
}

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

Result<LockKey> LockKey::stored(std::string_view text) {
  if (text.size() > core::nfc_shrinks_at_most * max_bytes) return key_too_long(text.size());
  auto normalised = core::nfc(text);
  if (!normalised) {
    return Error(ErrorCode::InvalidArgument, "the key is not valid UTF-8", normalised.error().cause());
  }
  if (normalised->empty()) return Error(ErrorCode::InvalidArgument, "the key is empty");
  if (normalised->size() > max_bytes) return key_too_long(normalised->size());
  return LockKey(*std::move(normalised));
}

Result<LockKey> LockKey::parse(std::string_view text) {
  // Normalised and certain already, as most keys are: it is read once.
  if (!text.empty() && text.size() <= max_bytes && core::is_ascii(text)) return LockKey(text);
  auto key = stored(text);
  if (!key) return key;
  if (const auto point = core::uncertain_code_point(key->str())) {
    return Error(ErrorCode::InvalidArgument, "invalid key: " + code_point_text(*point) +
                                                 " is not in Unicode " +
                                                 std::string(core::unicode_version()) +
                                                 ", so a program with newer Unicode data could lock another "
                                                 "key. Choose a key without it, or update libutf8proc");
  }
  return key;
}

Result<LockId> LockId::parse(std::string_view text) {
  if (text.size() != length || !std::ranges::all_of(text, core::is_base64url)) {
    return Error(ErrorCode::InvalidArgument,
                 "Invalid lockId format: must be 22 characters of A-Z a-z 0-9 _ -");
  }
  LockId id;
  std::ranges::copy(text, id.chars_.begin());
  return id;
}

Result<Ttl> Ttl::of(std::chrono::milliseconds length) {
  if (length <= std::chrono::milliseconds::zero() || length > longest) {
    return Error(ErrorCode::InvalidArgument,
                 "TTL must be between 1 ms and 366 days, not " + std::to_string(length.count()) + " ms");
  }
  return Ttl(length);
}

std::string key_hash(std::string_view text) {
  // Text that is not UTF-8 has no normal form and no UTF-16; its bytes still distinguish inputs.
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
          .acquired_at = record.acquired_at,
          .expires_at = record.expires_at,
          .fence_digits = record.fence_digits,
          .holder = record.holder};
}

}  // namespace holdfast
