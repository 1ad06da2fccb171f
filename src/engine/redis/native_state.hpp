#pragma once

#include <cstdint>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The field `s` of a lock in the native layout, see docs/internals/redis-native.md. Numbers are big-endian.
///
///   1   flags      not 0: other fields matter
///   7   counter    the last fence of the key; that of the holder, if there is one
///   8   authority  of this counter
///   6   expires    ms; this and the rest only with a holder
///   6   acquired   ms
///   22  lock id
///   2   the user key's length, of the end of the lock key; 0: that has only a hash, see field `u`.
///       From 2^15 on the holder has a label, and the length is in the low 14 bits; from 2^15 + 2^14 on the
///       lock key has only a hash. Field `u` is then the user key if it is hashed, and the label behind it
struct NativeState {
  static constexpr std::size_t idle_size = 16, held_size = 52;

  std::uint64_t counter = 0;
  std::string authority;  ///< 16 hex digits
  struct Holder {
    std::int64_t expires_ms = 0, acquired_ms = 0;
    std::string_view id;         ///< refers to the bytes
    std::size_t key_size = 0;    ///< 0: the key is all of field `u`
    bool key_is_hashed = false;  ///< the user key is in field `u`
    bool has_label = false;      ///< the rest of field `u` is the label
  };
  std::optional<Holder> holder;

  /// Empty if the bytes do not begin with a state: the idle one if there are fewer than those of a held one.
  [[nodiscard]] static std::optional<NativeState> parse(std::string_view bytes);

  /// The last part of a state, and behind it field `u` if it is needed: the user key if the lock key has
  /// only its hash, and the label (null: none).
  [[nodiscard]] static std::string key_part(std::string_view lock_key, std::size_t prefix_size,
                                            const LockKey& key, const LockHolder* holder);
};

/// A refusal that names the holder: how long its lease lasts, a space, the last part of its state, and field
/// `u`. Empty if the text is another.
[[nodiscard]] std::optional<Refused> native_refusal(std::string_view text);

/// The lock at this lock key, from its state and, behind that, field `u` if the state refers to it.
/// Empty if there is no valid holder.
[[nodiscard]] std::optional<LockRecord> native_record(std::string_view bytes, std::string_view lock_key);

}  // namespace holdfast::redis
