#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// The key of a record: an owner and the name of a task, written `owner:task` and split at the first colon.
/// Its constructor is private: a RecordKey is always valid UTF-8 and at most max_bytes long, so no engine
/// checks it again.
class HOLDFAST_EXPORT RecordKey {
 public:
  /// The greatest length of a key in bytes, the colon included.
  static constexpr std::size_t max_bytes = 1024;
  /// Parses `owner:task`. Gives InvalidArgument if there is no colon, if the text is longer than max_bytes,
  /// or if it is not valid UTF-8.
  [[nodiscard]] static Result<RecordKey> parse(std::string_view text);
  /// Joins an owner and a task. Gives InvalidArgument as parse() does, and if the owner contains a colon.
  [[nodiscard]] static Result<RecordKey> of(std::string_view owner, std::string_view task);

  /// Returns `owner:task`.
  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  /// Returns the text before the first colon. Points into this object.
  [[nodiscard]] std::string_view owner() const noexcept { return std::string_view(text_).substr(0, colon_); }
  /// Returns the text after the first colon. Points into this object.
  [[nodiscard]] std::string_view task() const noexcept { return std::string_view(text_).substr(colon_ + 1); }
  /// Compares the texts byte by byte.
  friend bool operator==(const RecordKey&, const RecordKey&) = default;

 private:
  RecordKey(std::string text, std::size_t colon) noexcept : text_(std::move(text)), colon_(colon) {}
  std::string text_;
  std::size_t colon_;
};

/// The data of a record: valid UTF-8 text, usually a JSON object, with the two times in it that the engine
/// uses.
class HOLDFAST_EXPORT RecordData {
 public:
  /// The greatest length of the text in bytes: 16 MiB.
  static constexpr std::size_t max_bytes = std::size_t{16} * 1024 * 1024;
  /// Checks the text and reads the times `expiresAt` and `task.createdAt` (RFC 3339) from it; a time that is
  /// absent or cannot be parsed counts as none. Gives InvalidArgument if the text is not valid UTF-8 or
  /// longer than max_bytes. Text that is not JSON is accepted and has no times.
  [[nodiscard]] static Result<RecordData> parse(std::string text);
  /// Wraps text without checking it. The text must be valid UTF-8 of at most max_bytes and contain these
  /// times.
  [[nodiscard]] static RecordData unchecked(std::string text, std::optional<WallTime> expires_at,
                                            WallTime created_at) noexcept {
    return {std::move(text), expires_at, created_at};
  }

  /// Returns the text.
  [[nodiscard]] const std::string& text() const& noexcept { return text_; }
  /// Moves the text out.
  [[nodiscard]] std::string text() && noexcept { return std::move(text_); }
  /// Returns when the record expires, by the engine's clock: from then on it is absent. Empty: never.
  [[nodiscard]] std::optional<WallTime> expires_at() const noexcept { return expires_at_; }
  /// Returns the creation time, which is the record's place in its owner's list; the epoch if unknown.
  [[nodiscard]] WallTime created_at() const noexcept { return created_at_; }
  /// Compares the text and both times.
  friend bool operator==(const RecordData&, const RecordData&) = default;

 private:
  RecordData(std::string text, std::optional<WallTime> expires_at, WallTime created_at) noexcept
      : text_(std::move(text)), expires_at_(expires_at), created_at_(created_at) {}
  std::string text_;
  std::optional<WallTime> expires_at_;
  WallTime created_at_;
};

/// A fence and its origin: which store counted it, for which lock. Fences of another authority or another
/// lock are never compared with it. Guard::token() returns one.
struct FencingTokenView;

/// A fence and where it comes from. Fences of another authority or another lock are never compared with it.
struct FencingToken {
  /// LockBackend::authority(): the id of the store that counted the fence.
  std::string authority;
  /// The lock's key, NFC-normalised.
  std::string lock_key;
  /// The fence.
  Fence fence;
  /// Converts to an argument that points into this token.
  operator FencingTokenView() const noexcept;
  /// Compares all members.
  friend bool operator==(const FencingToken&, const FencingToken&) = default;
};

/// A FencingToken as an argument: `{.authority = guard.authority(), .lock_key = guard.key(), .fence =
/// guard.fence()}`, or a FencingToken. The text needs to be valid only until the call returns.
struct FencingTokenView {
  /// As FencingToken::authority.
  std::string_view authority;
  /// As FencingToken::lock_key.
  std::string_view lock_key;
  /// As FencingToken::fence.
  Fence fence;
  /// Copies the text.
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

/// What a record of a queue was created with.
struct QueueTerms {
  /// Records of a higher priority are claimed first; -1000..1000 (InvalidArgument otherwise).
  std::int32_t priority = 0;
  /// Not claimable before; empty, or in the past: at once.
  std::optional<WallTime> not_before = std::nullopt;
  /// How many claims may count as attempts; 1..1,000,000 (InvalidArgument otherwise).
  std::uint32_t max_attempts = 5;
  /// After this time from when it became claimable first, the record is exhausted. At least 1 ms.
  std::chrono::milliseconds max_age = std::chrono::days(14);
  /// The longest time that one claim may last, renewals included; zero: no limit.
  std::chrono::milliseconds attempt_limit{};
  /// How long the record is kept after it was finished. Stored for the writer that finishes it; engines do
  /// not use it.
  std::chrono::milliseconds retention = std::chrono::days(1);
  /// The same for a record that becomes a dead letter.
  std::chrono::milliseconds failed_retention = std::chrono::days(14);
  /// Records of the queue with the same key share a limit of leases; empty: no such limit. At most 256 bytes
  /// of UTF-8 (InvalidArgument otherwise).
  std::string limit_key = {};
  /// The record is leased only while fewer records with its key are; 1..1,000,000 (InvalidArgument
  /// otherwise). Records of one key should have the same limit: each one's own counts.
  std::uint32_t limit = 1;
  /// Compares all members.
  friend bool operator==(const QueueTerms&, const QueueTerms&) = default;
};

/// Where a record is in its queue.
enum class QueuePlace : std::uint8_t {
  delayed,    ///< claimable later
  ready,      ///< claimable
  leased,     ///< claimed; its lease may have expired, until a claim finds that out
  exhausted,  ///< has no attempt left, or is too old: waits for the write that ends it
  finished,   ///< has left the queue
  parked,     ///< ready, but as many records with its key are leased as may be
  dead,       ///< has left the queue as a dead letter
};

/// Returns whether a record in this place has left its queue.
[[nodiscard]] constexpr bool has_left_queue(QueuePlace place) noexcept {
  return place == QueuePlace::finished || place == QueuePlace::dead;
}

/// The state of a record in its queue.
struct QueueState {
  /// What it was created with.
  QueueTerms terms;
  /// Where it is.
  QueuePlace place = QueuePlace::ready;
  /// How many claims counted: all but those that were given back.
  std::uint32_t attempts = 0;
  /// How many of them ended because their lease expired.
  std::uint32_t deaths = 0;
  /// When it became, or becomes, ready: at first, or after the last retry.
  WallTime due_at = {};
  /// When it is too old.
  WallTime fails_at = {};
  /// ClaimTerms::worker of the last claim; empty if it was never claimed.
  std::string worker;
  /// When it was claimed last; the epoch if never.
  WallTime claimed_at = {};
  /// When the lease expires, for people; the epoch unless it is leased.
  WallTime lease_expires_at = {};
};

/// A record as it was when it was read.
struct StoredRecord {
  /// The text that was written.
  std::string data;
  /// 1 when created, and one more with each write of its data.
  std::uint64_t version = 0;
  /// Distinguishes this record from another that had, or will have, its key: versions start again at 1 after
  /// a remove or an expiry. Opaque.
  std::string incarnation;
  /// The lock that guards the record, with the highest fence seen of that lock; empty if no lock guards it.
  std::optional<FencingToken> bound_to;
  /// CreateRecord::origin of the request that created it; empty if it was created by a put.
  std::string origin;
  /// The record's state in its queue; null if it was never in one.
  std::shared_ptr<const QueueState> queue = nullptr;
};

/// The version that a conditional write expects to find.
struct ExpectedVersion {
  /// As StoredRecord::version.
  std::uint64_t version = 0;
  /// As StoredRecord::incarnation; empty: any. If it is set, a record that was removed and created again does
  /// not match.
  std::string incarnation = {};
};

// Why a write is refused. These are results, not errors.

/// The record has another version than expected.
struct VersionConflict {
  /// The version that the write expected.
  std::uint64_t expected = 0;
  /// The version that the record has.
  std::uint64_t actual = 0;
  /// True if it is another record: the expected one is gone, whatever the version numbers are.
  bool replaced = false;
};
/// The record is bound to a lock, and the fence of the write is lower or belongs to another lock.
struct FenceRefused {
  /// StaleFence: the write carries an older fence of that lock. WrongLock: it carries the fence of another
  /// lock, or of a lock in another store.
  ErrorCode why{};
  /// The fence that the write carries.
  Fence given;
  /// The lock that the record is bound to, with the highest fence seen.
  FencingToken bound_to;
};

}  // namespace holdfast
