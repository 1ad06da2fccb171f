#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/contract.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/record_requests.hpp>
#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace holdfast {

// The output of the commands that work on a record: part of the storage contract. It is kept beside the
// record, expires and is removed with it, and does not change its version. docs/internals/tasks.md explains
// why it is as it is.

/// How many streams an output has: 0 is stdout, 1 is stderr.
inline constexpr std::size_t output_streams = 2;
/// The greatest number of runs whose output is kept for a record; of more, the newest.
inline constexpr std::size_t max_output_runs = 5;
/// Output is stored and dropped in chunks of this size.
inline constexpr std::size_t output_chunk_bytes = 8192;
/// The greatest number of bytes that one request appends, both streams together.
inline constexpr std::size_t max_appended_bytes = std::size_t{64} * 1024;
/// The greatest number of bytes of a stream that a request may ask to keep.
inline constexpr std::size_t max_kept_bytes = std::size_t{1024} * 1024;
/// The greatest number of bytes of a stream that one request reads.
inline constexpr std::size_t max_output_read = std::size_t{256} * 1024;

/// What is kept of a stream: the bytes from `begin` up to `end`, counted from the first that was written. So
/// `begin` is the number of bytes that were dropped.
struct OutputRange {
  std::uint64_t begin = 0,  ///< the position of the first byte that is kept
      end = 0;              ///< the position after the last one
  /// Compares both members.
  friend bool operator==(const OutputRange&, const OutputRange&) = default;
};

/// The output of one run of a command.
struct OutputRun {
  /// 1 for the first run of the record, 2 for the next one.
  std::uint64_t number = 0;
  /// The fence that the run wrote with.
  Fence fence;
  /// AppendOutput::attempt.
  std::uint32_t attempt = 0;
  /// Whether its writer has said that no more follows.
  bool is_complete = false;
  /// What is kept of each stream.
  std::array<OutputRange, output_streams> streams = {};
  /// Compares all members.
  friend bool operator==(const OutputRun&, const OutputRun&) = default;
};

/// A part of a stream.
struct OutputPiece {
  /// The position of its first byte in the stream.
  std::uint64_t at = 0;
  /// Any bytes.
  std::string bytes = {};
};

/// The result of AppendOutput: the run after it; or why nothing was changed.
using AppendOutcome = std::variant<OutputRun, NoRecord, FenceRefused>;

/// Appends to the output of the run that holds this fence, in one atomic step. The fence is checked, and
/// remembered, as that of a write. A fence that is not that of the newest run begins another run. A final
/// record is appended to as any other: the end of an output may come after the end of its task.
///
/// What is kept of a stream has no gaps. A piece that begins before the end of what is there is, up to that
/// end, a repetition, and ignored: so a request may be sent twice. A piece that begins behind it replaces
/// what is there, because its writer has dropped what is in between.
struct AppendOutput {
  /// The result.
  using Outcome = AppendOutcome;
  /// Returns Activity::append_output.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::append_output; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str(), .fence = fence.fence}; }

  /// The record.
  RecordKey key;
  /// Empty: any. Otherwise a record of another incarnation counts as absent.
  std::string incarnation = {};
  /// The fence of the run.
  FencingToken fence;
  /// Which attempt of a queue the run is, for people; 0: none.
  std::uint32_t attempt = 0;
  /// What to append to each stream. At most max_appended_bytes together (InvalidArgument otherwise).
  std::array<OutputPiece, output_streams> pieces = {};
  /// How much of each stream is kept: its last bytes, at least so many, and less than output_chunk_bytes
  /// more. Clamped to 1..max_kept_bytes.
  std::size_t keep = std::size_t{64} * 1024;
  /// Whether this is the end of the run's output.
  bool is_complete = false;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// The output of a record, as far as it was asked for.
struct KeptOutput {
  /// All runs whose output is kept, oldest first.
  std::vector<OutputRun> runs = {};
  /// The number of the run that the pieces are of; 0 if there is no such run.
  std::uint64_t run = 0;
  /// Of each stream, what is kept from ReadOutput::from on.
  std::array<OutputPiece, output_streams> pieces = {};
};

/// Reads the output of one run of a record.
struct ReadOutput {
  /// Empty if there is no such record.
  using Outcome = std::optional<KeptOutput>;
  /// Returns Activity::read_output.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::read_output; }
  /// Returns the key for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  /// The record.
  RecordKey key;
  /// Empty: any. Otherwise a record of another incarnation counts as absent.
  std::string incarnation = {};
  /// OutputRun::number; 0: the newest run.
  std::uint64_t run = 0;
  /// Of each stream, the position of the first byte to read; one that was dropped: the first that is kept.
  std::array<std::uint64_t, output_streams> from = {};
  /// The greatest number of bytes of each stream; clamped to 1..max_output_read.
  std::size_t limit = max_output_read;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

}  // namespace holdfast
