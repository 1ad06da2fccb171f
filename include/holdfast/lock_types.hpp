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
#include <holdfast/shared_text.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast {

/// The name of a lock: non-empty, valid UTF-8, NFC-normalised, at most 512 bytes after normalisation.
///
/// An object of this type is valid unless it was moved from, so functions that accept one do not check it
/// again. Copies share the text. Parse a key once if you use it often:
/// @code
/// const auto key = holdfast::LockKey::parse("orders:42").value_or_throw();
/// auto guard = hf.locks().lock(key);
/// @endcode
class HOLDFAST_EXPORT LockKey {
 public:
  /// The longest key, in bytes of its normalised form.
  static constexpr std::size_t max_bytes = 512;
  /// Checks and normalises a text.
  ///
  /// InvalidArgument if the text is empty, too long or not UTF-8, or if its normal form is uncertain: it
  /// contains a code point that is newer than this build's Unicode data, in a position where newer data could
  /// normalise it differently and so lock another key. The cost is linear in the length; a text that is far
  /// too long is rejected without being read.
  [[nodiscard]] static Result<LockKey> parse(std::string_view text);
  /// Returns a key that an engine found in its store. As parse(), but accepts uncertain normal forms: a
  /// process with newer Unicode data may have written it.
  [[nodiscard]] static Result<LockKey> stored(std::string_view text);

  /// Returns the normalised text. Valid while this object or a copy of it lives; empty after a move.
  [[nodiscard]] const std::string& str() const noexcept { return text_.str(); }
  /// Compares the normalised texts.
  friend bool operator==(const LockKey&, const LockKey&) = default;

 private:
  explicit LockKey(SharedText text) noexcept : text_(std::move(text)) {}
  SharedText text_;
};

/// A lock key as an argument: a text, which the call checks and normalises, or a LockKey, which needs
/// neither.
///
/// A view: the text or the LockKey must be valid until the call returns. Do not store it.
class LockKeyView {
 public:
  /// Refers to a valid key.
  LockKeyView(const LockKey& key) noexcept : text_(key.str()), key_(text_.empty() ? nullptr : &key) {}
  /// Refers to a text, such as a string literal or a std::string; it is not checked before parse().
  template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view>
  constexpr LockKeyView(const Text& text) noexcept : text_(text) {}

  /// Returns the checked and normalised key, or InvalidArgument as LockKey::parse does.
  [[nodiscard]] Result<LockKey> parse() const { return key_ != nullptr ? *key_ : LockKey::parse(text_); }

 private:
  std::string_view text_ = {};
  const LockKey* key_ = nullptr;  ///< null for a text, and for a key that was moved from
};

/// The id of one grant of a lock: 16 random bytes as 22 base64url characters.
///
/// It is a secret: a process that knows it can release and extend the lock. So messages and logs never
/// contain it, and only functions with `raw` in their name return the ids of other holders.
class HOLDFAST_EXPORT LockId {
 public:
  /// The number of characters.
  static constexpr std::size_t length = 22;
  /// Checks a text. InvalidArgument unless the text is 22 characters of [A-Za-z0-9_-].
  [[nodiscard]] static Result<LockId> parse(std::string_view text);
  /// Returns a new random id. Uses a buffered CSPRNG, so it usually needs no system call. Throws Internal if
  /// the kernel returns no random bytes.
  [[nodiscard]] static LockId generate();

  /// Returns the 22 characters. Valid while this object lives and is not assigned to.
  [[nodiscard]] std::string_view str() const noexcept { return {chars_.data(), chars_.size()}; }
  /// Compares the characters.
  friend bool operator==(const LockId&, const LockId&) = default;

  /// Constructs the nil id, 22 zero bytes. It never holds a lock; a Lease that stands for no lock has it.
  LockId() = default;
  /// Returns whether this is the nil id.
  [[nodiscard]] bool is_nil() const noexcept { return *this == LockId(); }

 private:
  std::array<char, length> chars_{};
};

/// The length of a lease: positive whole milliseconds, at most 366 days.
class HOLDFAST_EXPORT Ttl {
 public:
  /// The longest lease.
  static constexpr std::chrono::milliseconds longest = std::chrono::days(366);
  /// Checks a length. InvalidArgument unless it is greater than zero and at most `longest`.
  [[nodiscard]] static Result<Ttl> of(std::chrono::milliseconds length);

  /// Returns the length.
  [[nodiscard]] constexpr std::chrono::milliseconds length() const noexcept { return length_; }
  /// Compares the lengths.
  friend constexpr auto operator<=>(Ttl, Ttl) noexcept = default;

 private:
  explicit constexpr Ttl(std::chrono::milliseconds length) noexcept : length_(length) {}
  std::chrono::milliseconds length_;
};

template <>
struct detail::OwnedArgument<LockId> : OwnedAsItIs<LockId> {};
template <>
struct detail::OwnedArgument<Ttl> : OwnedAsItIs<Ttl> {};

/// The label of a lock's holder: a short text for people that says who holds the lock, such as
/// `alice@web-3:812 make`. Stored with the lock.
///
/// It is information, never authority: the holder chose it, and the engine does not verify it. It may contain
/// any characters: use printable() where it is written to a terminal or a log.
class HOLDFAST_EXPORT LockHolder {
 public:
  /// The longest label, in bytes.
  static constexpr std::size_t max_bytes = 256;
  /// The text that stands for no label wherever a label can be set.
  static constexpr std::string_view none = "none";

  /// Checks a label. InvalidArgument if it is empty, too long or not UTF-8.
  [[nodiscard]] static Result<LockHolder> parse(std::string_view text);
  /// Returns the label that a setting (LockOptions::holder, `holder=` in a URL) chooses: null for `none`.
  /// Otherwise as parse().
  [[nodiscard]] static Result<std::shared_ptr<const LockHolder>> from_setting(std::string_view text);
  /// Makes a label from any text: replaces bytes that are not UTF-8 by U+FFFD, and cuts the text at the last
  /// character that fits. Empty if the text is empty. For texts that the caller did not choose.
  [[nodiscard]] static std::optional<LockHolder> shortened(std::string_view text);

  /// Returns the default label: `user@host:pid program`, with the base name of the executable and never its
  /// arguments, which may contain passwords.
  ///
  /// Computed once per process, and again in a forked child. The first call looks up the user's name; later
  /// ones only compare the process and its user.
  [[nodiscard]] static std::shared_ptr<const LockHolder> of_this_process();
  /// Returns the default label with another name of the program, for a process that acquires locks on behalf
  /// of another program.
  [[nodiscard]] static std::shared_ptr<const LockHolder> of_this_process(std::string_view program);
  /// Returns the label of another process of this machine, without a program name if that cannot be read.
  /// Null if `pid` is not positive.
  [[nodiscard]] static std::shared_ptr<const LockHolder> of_process(std::int64_t pid, std::uint32_t user_id);

  /// Returns the text. Valid while this object lives and is not assigned to.
  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  /// Compares the texts.
  friend bool operator==(const LockHolder&, const LockHolder&) = default;

 private:
  explicit LockHolder(std::string text) noexcept : text_(std::move(text)) {}
  std::string text_;
};

/// A held lock as it is stored, with its raw key and lock id. Do not log it: see LockId.
struct LockRecord {
  LockKey key;                ///< the normalised key
  LockId id;                  ///< the secret id of the grant
  Fence fence;                ///< the fencing token of the grant
  WallTime acquired_at = {};  ///< when it was granted, by the engine's clock
  WallTime expires_at = {};   ///< when its lease expires unless it is extended, by the engine's clock
  /// How many digits the stored fence has: 15, or 19 if SyncGuard 1.0 wrote it.
  int fence_digits = 15;
  /// The label of its holder; empty if it has none.
  std::optional<LockHolder> holder = std::nullopt;
  /// The id of the counter that granted the fence, where each key has its own
  /// (Capabilities::authority_per_key); else empty: LockBackend::authority() is the one of all.
  std::string authority = {};
};

/// What a holder knows about its own grant, as part of a ReleaseRequest. An engine needs it to answer a
/// release that was sent more than once and found nothing: the first copy may have released the lock.
struct HolderProof {
  Fence fence;           ///< the fencing token of the grant
  SharedText authority;  ///< the store that counted it
  BootTime until;        ///< the lease cannot have expired before this
  bool lost = false;     ///< the lock was lost before its release
  /// The lock was held after this time: the send of the last acquire or extend that was answered. `never`
  /// stands for less than a day ago.
  BootTime confirmed = never;
};

/// A held lock with hashes in place of key and lock id. It can be logged, and gives no power over the lock.
struct LockInfo {
  std::string key_hash;       ///< key_hash() of the normalised key
  std::string lock_id_hash;   ///< key_hash() of the lock id
  Fence fence;                ///< the fencing token of the grant
  WallTime acquired_at = {};  ///< when it was granted, by the engine's clock
  WallTime expires_at = {};   ///< when its lease expires unless it is extended, by the engine's clock
  /// How many digits the stored fence has: 15, or 19 if SyncGuard 1.0 wrote it.
  int fence_digits = 15;
  /// The label of its holder; empty if it has none.
  std::optional<LockHolder> holder = std::nullopt;
};

/// Returns 24 hex digits that stand for a key or a lock id in logs and diagnostics. SyncGuard prints the
/// same.
///
/// Not a cryptographic hash: much of a short input can be computed from its hash. It keeps raw ids out of
/// logs, but does not make them safe to publish. Text that is not UTF-8 is hashed by its bytes.
[[nodiscard]] HOLDFAST_EXPORT std::string key_hash(std::string_view text);

/// Returns the record with hashes in place of key and lock id.
[[nodiscard]] HOLDFAST_EXPORT LockInfo sanitised(const LockRecord& record);

}  // namespace holdfast
