#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/record_decisions.hpp"

/// Decides how the output of a command is kept. An engine finds the record and its runs, calls a function
/// here and carries out the decision, all within one atomic step. The Lua scripts of Redis are a second
/// implementation; the same contract tests check both.
///
/// Chunk n of a stream has those of its bytes that are at positions n·output_chunk_bytes and above. Output is
/// dropped by whole chunks, so the first chunk that is kept begins at OutputRange::begin.
namespace holdfast::core {

/// A run as it is stored.
struct StoredRun {
  OutputRun run;
  std::string writer;  ///< output_writer() of its token
};

/// Distinguishes the runs of a record: fences of different locks are not comparable.
[[nodiscard]] inline std::string output_writer(const FencingToken& token) {
  return token.authority + '\n' + token.lock_key + '\n' + token.fence.to_string();
}

[[nodiscard]] constexpr std::uint64_t chunk_of(std::uint64_t position) noexcept {
  return position / output_chunk_bytes;
}

/// Store these bytes in a chunk: in place of what it has, or behind it.
struct ChunkWrite {
  std::uint64_t chunk = 0;
  bool appends = false;
  std::string_view bytes;  ///< of the request
};

/// How one stream changes.
struct StreamChange {
  /// Delete the chunks from the first one up to the second one, which stays.
  std::uint64_t drop_from = 0, drop_to = 0;
  std::vector<ChunkWrite> writes;
};

/// Store the run, in place of the one with its number, delete the oldest runs, and change its streams.
struct OutputChange {
  StoredRun run;
  /// Runs up to this number are deleted.
  std::uint64_t drop_runs = 0;
  std::array<StreamChange, output_streams> streams;
  /// The record's guard after it; empty: as it is.
  std::optional<FencingToken> bound_to;
};

using AppendDecision = std::variant<OutputChange, NoRecord, FenceRefused>;

[[nodiscard]] inline std::optional<Error> refuse_arguments(const AppendOutput& request) {
  std::size_t bytes = 0;
  for (const auto& piece : request.pieces) bytes += piece.bytes.size();
  if (bytes <= max_appended_bytes) return std::nullopt;
  return Error(ErrorCode::InvalidArgument, std::to_string(bytes) +
                                               " bytes of output cannot be appended at once; at most " +
                                               std::to_string(max_appended_bytes) + " fit");
}

/// Appends to what is kept of a stream. `keep` is at least 1.
[[nodiscard]] inline StreamChange append_piece(OutputRange& kept, const OutputPiece& piece,
                                               std::size_t keep) {
  auto at = piece.at;
  std::string_view bytes = piece.bytes;
  if (at < kept.end) {
    bytes.remove_prefix(std::min<std::uint64_t>(kept.end - at, bytes.size()));
    at = kept.end;
  }
  StreamChange change;
  if (bytes.empty()) return change;
  const auto before = kept;
  const bool is_gap = at > before.end;
  if (is_gap) kept.begin = at;
  kept.end = at + bytes.size();
  if (kept.end > keep) kept.begin = std::max(kept.begin, chunk_of(kept.end - keep) * output_chunk_bytes);
  change.drop_from = chunk_of(before.begin);
  // After a gap the last old chunk may be the first new one: it is written over.
  change.drop_to =
      std::min(chunk_of(kept.begin), before.end > before.begin ? chunk_of(before.end - 1) + 1 : 0);
  for (auto from = std::max(at, kept.begin); from < kept.end;) {
    const auto chunk = chunk_of(from);
    const auto to = std::min(kept.end, (chunk + 1) * output_chunk_bytes);
    const bool appends = !is_gap && from == at && at > before.begin && at % output_chunk_bytes != 0;
    change.writes.push_back(
        {.chunk = chunk, .appends = appends, .bytes = bytes.substr(from - at, to - from)});
    from = to;
  }
  return change;
}

/// `runs`: oldest first. The views in the result are of the request.
[[nodiscard]] inline AppendDecision decide_append(const AppendOutput& request, const RecordEntry* there,
                                                  const std::vector<StoredRun>& runs, WallTime now) {
  if (!is_present(there, now) || !is_meant(there->record, request.incarnation)) return NoRecord{};
  if (auto refusal = refuse_fence(there->record.bound_to, request.fence)) return *std::move(refusal);
  OutputChange change;
  auto writer = output_writer(request.fence);
  if (!runs.empty() && runs.back().writer == writer) {
    change.run = runs.back();
  } else {
    change.run.run = {.number = runs.empty() ? 1 : runs.back().run.number + 1,
                      .fence = request.fence.fence,
                      .attempt = request.attempt};
    change.run.writer = std::move(writer);
    if (runs.size() >= max_output_runs) change.drop_runs = runs[runs.size() - max_output_runs].run.number;
  }
  const auto keep = std::clamp<std::size_t>(request.keep, 1, max_kept_bytes);
  auto& run = change.run.run;
  for (std::size_t stream = 0; stream < output_streams; ++stream) {
    change.streams[stream] = append_piece(run.streams[stream], request.pieces[stream], keep);
  }
  run.is_complete = run.is_complete || request.is_complete;
  if (there->record.bound_to != request.fence) change.bound_to = request.fence;
  return change;
}

/// The run that is meant; null if it is not kept.
[[nodiscard]] inline const OutputRun* run_of(const ReadOutput& request, const std::vector<StoredRun>& runs) {
  if (runs.empty()) return nullptr;
  if (request.run == 0) return &runs.back().run;
  const auto found =
      std::ranges::find_if(runs, [&](const StoredRun& stored) { return stored.run.number == request.run; });
  return found == runs.end() ? nullptr : &found->run;
}

/// What the request asks for of a stream. `chunk(n)` returns the bytes of chunk n.
template <class Chunk>
[[nodiscard]] OutputPiece read_piece(const OutputRange& kept, std::uint64_t from, std::size_t limit,
                                     Chunk chunk) {
  const auto most = std::clamp<std::size_t>(limit, 1, max_output_read);
  OutputPiece piece{.at = std::clamp(from, kept.begin, kept.end)};
  const auto end = std::min<std::uint64_t>(kept.end, piece.at + most);
  for (auto at = piece.at; at < end;) {
    const auto number = chunk_of(at);
    const auto begins = std::max(number * output_chunk_bytes, kept.begin);
    const auto to = std::min(end, (number + 1) * output_chunk_bytes);
    const std::string_view bytes = chunk(number);
    piece.bytes += bytes.substr(std::min<std::uint64_t>(at - begins, bytes.size()), to - at);
    at = to;
  }
  return piece;
}

/// The outcome of ReadOutput for a record that is there. `chunk(run, stream, n)` returns the bytes of chunk
/// n.
template <class Chunk>
[[nodiscard]] KeptOutput read_output(const ReadOutput& request, const std::vector<StoredRun>& runs,
                                     Chunk chunk) {
  KeptOutput output;
  for (const auto& stored : runs) output.runs.push_back(stored.run);
  const auto* run = run_of(request, runs);
  if (run == nullptr) return output;
  output.run = run->number;
  for (std::size_t stream = 0; stream < output_streams; ++stream) {
    output.pieces[stream] =
        read_piece(run->streams[stream], request.from[stream], request.limit,
                   [&](std::uint64_t number) { return chunk(run->number, stream, number); });
  }
  return output;
}

}  // namespace holdfast::core
