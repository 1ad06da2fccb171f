#include "core/storage_key.hpp"

#include <holdfast/lock_types.hpp>
#include <span>

#include "core/digest.hpp"
#include "core/nfc.hpp"

namespace holdfast::core {
namespace {

constexpr std::size_t hashed_bytes = 16;

Result<std::string> truncated_hash(std::string_view text) {
  const auto digest = sha256(text);
  if (!digest) return digest.error();
  return base64url(std::span(*digest).first(hashed_bytes));
}

}  // namespace

Result<std::string> make_storage_key(std::string_view prefix, std::string_view key, std::size_t limit,
                                     std::size_t reserve) {
  auto normalised = nfc(key);
  if (!normalised) return normalised.error();
  return storage_key_of_normalised(prefix, *normalised, limit, reserve);
}

Result<std::string> storage_key_of_normalised(std::string_view prefix, std::string_view key,
                                              std::size_t limit, std::size_t reserve) {
  if (key.empty()) return Error(ErrorCode::InvalidArgument, "the key is empty");

  while (prefix.ends_with(':')) prefix.remove_suffix(1);
  const std::size_t head_size = prefix.empty() ? 0 : prefix.size() + 1;
  if (head_size + reserve > limit) {
    return Error(ErrorCode::InvalidArgument, "the prefix of " + std::to_string(prefix.size()) +
                                                 " bytes leaves no room for a key in " +
                                                 std::to_string(limit) + " bytes");
  }

  std::string whole;
  whole.reserve(head_size + key.size());
  whole.append(prefix);
  if (head_size != 0) whole += ':';
  whole.append(key);
  if (whole.size() + reserve <= limit) return whole;

  auto hash = truncated_hash(whole);
  if (!hash) return hash.error();
  std::string hashed = whole.substr(0, head_size) + *hash;
  if (hashed.size() + reserve > limit) {
    return Error(ErrorCode::InvalidArgument,
                 "even the hashed key does not fit " + std::to_string(limit) + " bytes");
  }
  return hashed;
}

Result<std::string> task_lock_key(std::string_view record_key) {
  return make_storage_key("task", record_key, LockKey::max_bytes, 0);
}

}  // namespace holdfast::core
