#include <algorithm>
#include <holdfast/lock_types.hpp>

#include "core/base64url.hpp"
#include "core/nfc.hpp"

namespace holdfast {

Result<LockKey> LockKey::parse(std::string_view text) {
  auto normalised = core::nfc(text);
  if (!normalised) {
    return Error(ErrorCode::InvalidArgument, "the key is not valid UTF-8", normalised.error().cause());
  }
  if (normalised->empty()) return Error(ErrorCode::InvalidArgument, "the key is empty");
  if (normalised->size() > max_bytes) {
    return Error(ErrorCode::InvalidArgument, "the key has " + std::to_string(normalised->size()) +
                                                 " bytes; at most " + std::to_string(max_bytes) +
                                                 " are allowed");
  }
  return LockKey(*std::move(normalised));
}

Result<LockId> LockId::parse(std::string_view text) {
  if (text.size() != length || !std::ranges::all_of(text, core::is_base64url)) {
    return Error(ErrorCode::InvalidArgument, "a lock id is 22 characters of A-Z a-z 0-9 _ -");
  }
  LockId id;
  std::ranges::copy(text, id.chars_.begin());
  return id;
}

Result<Ttl> Ttl::of(std::chrono::milliseconds length) {
  if (length <= std::chrono::milliseconds::zero() || length > longest) {
    return Error(ErrorCode::InvalidArgument,
                 "a ttl is between 1 ms and 366 days, not " + std::to_string(length.count()) + " ms");
  }
  return Ttl(length);
}

}  // namespace holdfast
