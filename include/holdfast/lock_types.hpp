#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast {

/// A lock's name: NFC-normalised, non-empty, valid UTF-8, at most 512 bytes after normalisation. Holding
/// one is the proof of that, so no engine checks again.
class HOLDFAST_EXPORT LockKey {
 public:
  static constexpr std::size_t max_bytes = 512;
  /// InvalidArgument if the text is not such a name, or if its normal form is uncertain: a code point that
  /// this build's Unicode data does not know, where newer data could normalise it otherwise. Costs its length
  /// at most, and nothing for one that is far too long.
  [[nodiscard]] static Result<LockKey> parse(std::string_view text);
  /// For engines: a key as it is found in a store, whether or not parse() would accept it as a new one.
  [[nodiscard]] static Result<LockKey> stored(std::string_view text);

  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  friend bool operator==(const LockKey&, const LockKey&) = default;

 private:
  explicit LockKey(std::string text) noexcept : text_(std::move(text)) {}
  std::string text_;
};

/// A lock key as an argument: text, which the call checks and normalises, or a LockKey, which needs neither.
/// The text or the LockKey needs to be valid only until the call returns.
class LockKeyView {
 public:
  LockKeyView(const LockKey& key) noexcept : key_(&key) {}
  template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view>
  constexpr LockKeyView(const Text& text) noexcept : text_(text) {}

  /// Returns the checked and normalised key; InvalidArgument as LockKey::parse.
  [[nodiscard]] Result<LockKey> parse() const { return key_ != nullptr ? *key_ : LockKey::parse(text_); }

 private:
  const LockKey* key_ = nullptr;
  std::string_view text_ = {};
};

/// Who holds a lock: 16 random bytes as 22 base64url characters. It is a capability: whoever knows it can
/// release the lock, so it is shown only where a caller asks for raw data.
class HOLDFAST_EXPORT LockId {
 public:
  static constexpr std::size_t length = 22;
  /// InvalidArgument unless the text is 22 characters of [A-Za-z0-9_-].
  [[nodiscard]] static Result<LockId> parse(std::string_view text);
  /// From a buffered CSPRNG: usually no system call. Throws Error(Internal) if the CSPRNG fails.
  [[nodiscard]] static LockId generate();

  [[nodiscard]] std::string_view str() const noexcept { return {chars_.data(), chars_.size()}; }
  friend bool operator==(const LockId&, const LockId&) = default;

  /// The nil id, 22 zero bytes: it holds no lock and never will. A result that carries no lock has it.
  LockId() = default;
  [[nodiscard]] bool is_nil() const noexcept { return *this == LockId(); }

 private:
  std::array<char, length> chars_{};
};

/// How long a lease lasts: positive whole milliseconds, at most 366 days.
class HOLDFAST_EXPORT Ttl {
 public:
  static constexpr std::chrono::milliseconds longest = std::chrono::days(366);
  /// InvalidArgument outside (0, longest].
  [[nodiscard]] static Result<Ttl> of(std::chrono::milliseconds length);

  [[nodiscard]] constexpr std::chrono::milliseconds length() const noexcept { return length_; }
  friend constexpr auto operator<=>(Ttl, Ttl) noexcept = default;

 private:
  explicit constexpr Ttl(std::chrono::milliseconds length) noexcept : length_(length) {}
  std::chrono::milliseconds length_;
};

template <>
struct detail::OwnedArgument<LockId> : OwnedAsItIs<LockId> {};
template <>
struct detail::OwnedArgument<Ttl> : OwnedAsItIs<Ttl> {};

/// Who holds a lock, as the holder described itself when it acquired it.
struct LockHolder {
  std::string host;
  std::int64_t pid = 0;
  /// The application's own words, such as a job's name; empty if it gave none.
  std::string note = {};
  friend bool operator==(const LockHolder&, const LockHolder&) = default;
};

/// A held lock as stored, raw id included. Times are by the engine's clock.
struct LockRecord {
  LockKey key;
  LockId id;
  Fence fence;
  WallTime acquired_at = {};
  WallTime expires_at = {};
  /// How many digits the stored fence has: 15, or 19 where SyncGuard 1.0 wrote it.
  int fence_digits = 15;
  /// Empty where the engine does not record holders.
  std::optional<LockHolder> holder = std::nullopt;
};

/// What a holder knows of its own grant. It decides a release that was sent more than once and found nothing.
struct HolderProof {
  Fence fence;
  std::string authority;
  BootTime until;     ///< the lease cannot have expired before this
  bool lost = false;  ///< it was lost before its release
  /// The lock was held after this: the send of the last acquire or extend that was answered. `never`: less
  /// than a day ago.
  BootTime confirmed = never;
};

/// A held lock as anyone may see it: hashes in place of key and lock id.
struct LockInfo {
  std::string key_hash;
  std::string lock_id_hash;
  Fence fence;
  WallTime acquired_at = {};
  WallTime expires_at = {};
  /// How many digits the stored fence has: 15, or 19 where SyncGuard 1.0 wrote it.
  int fence_digits = 15;
  /// Empty where the engine does not record holders.
  std::optional<LockHolder> holder = std::nullopt;
};

/// 24 hex digits that stand for a key or lock id in logs and diagnostics (the same ones SyncGuard prints).
/// Not a cryptographic hash: much about a short input can be computed back from it. It keeps raw ids out of
/// logs; it does not make them safe to publish.
[[nodiscard]] HOLDFAST_EXPORT std::string key_hash(std::string_view text);

[[nodiscard]] HOLDFAST_EXPORT LockInfo sanitised(const LockRecord& record);

}  // namespace holdfast
