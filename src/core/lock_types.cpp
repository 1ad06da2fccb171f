#include <algorithm>
#include <array>
#include <cstdio>
#include <holdfast/lock_types.hpp>

#include "core/base64url.hpp"
#include "core/nfc.hpp"

namespace holdfast {

namespace {

/// As it was given: a text that is far too long is not normalised to learn how long it would be.
Error key_too_long(std::size_t bytes) {
  return {ErrorCode::InvalidArgument, "key exceeds maximum length: " + std::to_string(bytes) +
                                          " bytes, at most " + std::to_string(LockKey::max_bytes)};
}

std::string code_point_text(std::int32_t point) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(point));
  return text.data();
}

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
  auto key = stored(text);
  if (!key) return key;
  if (const auto point = core::uncertain_code_point(key->text_)) {
    return Error(ErrorCode::InvalidArgument,
                 "key cannot be normalised with certainty: " + code_point_text(*point) +
                     " is not in Unicode " + std::string(core::unicode_version()) +
                     ", and a program with newer Unicode data may lock another key. Choose a key without "
                     "it, or update libutf8proc");
  }
  return key;
}

Result<LockId> LockId::parse(std::string_view text) {
  if (text.size() != length || !std::ranges::all_of(text, core::is_base64url)) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid lockId format: must be 22 characters of A-Z a-z 0-9 _ -");
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

}  // namespace holdfast
