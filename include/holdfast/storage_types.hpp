#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// Where a record is: an owner and a name below it, written `owner:task` and split at the first colon.
/// Holding one is the proof that both are valid UTF-8, so no engine checks again.
class HOLDFAST_EXPORT RecordKey {
 public:
  static constexpr std::size_t max_bytes = 1024;
  /// From `owner:task`. InvalidArgument without a colon, over max_bytes, or if it is not UTF-8.
  [[nodiscard]] static Result<RecordKey> parse(std::string_view text);
  /// InvalidArgument, as above, and for an owner that contains a colon.
  [[nodiscard]] static Result<RecordKey> of(std::string_view owner, std::string_view task);

  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  [[nodiscard]] std::string_view owner() const noexcept { return std::string_view(text_).substr(0, colon_); }
  [[nodiscard]] std::string_view task() const noexcept { return std::string_view(text_).substr(colon_ + 1); }
  friend bool operator==(const RecordKey&, const RecordKey&) = default;

 private:
  RecordKey(std::string text, std::size_t colon) noexcept : text_(std::move(text)), colon_(colon) {}
  std::string text_;
  std::size_t colon_;
};

/// What is stored: valid UTF-8, usually a JSON object, and the two times in it that concern the engine.
class HOLDFAST_EXPORT RecordData {
 public:
  static constexpr std::size_t max_bytes = std::size_t{16} * 1024 * 1024;
  /// The times come from the text: `expiresAt` and `task.createdAt`, RFC 3339; absent or unparseable means
  /// none. InvalidArgument if it is not UTF-8 or over max_bytes.
  [[nodiscard]] static Result<RecordData> parse(std::string text);
  /// Of text that is known to be such, and to contain these times; nobody checks.
  [[nodiscard]] static RecordData unchecked(std::string text, std::optional<WallTime> expires_at,
                                            WallTime created_at) noexcept {
    return {std::move(text), expires_at, created_at};
  }

  [[nodiscard]] const std::string& text() const& noexcept { return text_; }
  [[nodiscard]] std::string text() && noexcept { return std::move(text_); }
  /// By the engine's clock; at that time the record is gone. Empty: never.
  [[nodiscard]] std::optional<WallTime> expires_at() const noexcept { return expires_at_; }
  /// The place in its owner's list; the epoch if unknown.
  [[nodiscard]] WallTime created_at() const noexcept { return created_at_; }
  friend bool operator==(const RecordData&, const RecordData&) = default;

 private:
  RecordData(std::string text, std::optional<WallTime> expires_at, WallTime created_at) noexcept
      : text_(std::move(text)), expires_at_(expires_at), created_at_(created_at) {}
  std::string text_;
  std::optional<WallTime> expires_at_;
  WallTime created_at_;
};

struct FencingTokenView;

/// A fence and where it comes from. Fences of another authority or another lock are never compared with it.
struct FencingToken {
  /// LockBackend::authority(): the store that counted the fence.
  std::string authority;
  /// The lock's key, normalised.
  std::string lock_key;
  Fence fence;
  /// As an argument.
  operator FencingTokenView() const noexcept;
  friend bool operator==(const FencingToken&, const FencingToken&) = default;
};

/// A FencingToken as an argument: `{.authority = guard.authority(), .lock_key = guard.key(), .fence =
/// guard.fence()}`, or a FencingToken. The text needs to be valid only until the call returns.
struct FencingTokenView {
  std::string_view authority;
  std::string_view lock_key;
  Fence fence;
  explicit operator FencingToken() const {
    return {.authority = std::string(authority), .lock_key = std::string(lock_key), .fence = fence};
  }
};

inline FencingToken::operator FencingTokenView() const noexcept {
  const auto& [of, key, number] = *this;  // all members, so that a new one is not forgotten
  return {.authority = of, .lock_key = key, .fence = number};
}

template <>
struct detail::OwnedArgument<FencingTokenView> {
  using type = FencingToken;
};

/// A record as stored.
struct StoredRecord {
  std::string data;
  /// 1 when created, and one more with each write of its data.
  std::uint64_t version = 0;
  /// Tells this record from another that had, or will have, its key: versions start again at 1 after a remove
  /// or an expiry. Opaque.
  std::string incarnation;
  /// The lock that guards it and the highest fence seen of that; empty if none does.
  std::optional<FencingToken> bound_to;
  /// What `CreateRecord::origin` said.
  std::string origin;
};

/// What a conditional write expects to find.
struct ExpectedVersion {
  std::uint64_t version = 0;
  /// Empty: any. Otherwise a record that was removed and created again does not match.
  std::string incarnation = {};
};

// Why a write is refused. Results, not errors.

struct VersionConflict {
  std::uint64_t expected = 0;
  std::uint64_t actual = 0;
  /// It is another record: the one expected is gone, whatever the numbers say.
  bool replaced = false;
};
/// The record is bound to a lock whose fence the write does not carry.
struct FenceRefused {
  /// StaleFence: it carries an older fence of that lock. WrongLock: it carries the fence of another lock, or
  /// of a lock in another store.
  ErrorCode why{};
  Fence given;
  /// The lock that the record is bound to, and the highest fence it has seen.
  FencingToken bound_to;
};

}  // namespace holdfast
