#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/escaped_bytes.hpp"
#include "core/number.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/record_replies.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use, as RecordScripts.
struct OutputScripts {
  Script append{embedded::output_append_lua};
  Script read{embedded::output_read_lua};
};
const OutputScripts& output_scripts() {
  static const auto& all = *new OutputScripts;  // never destroyed, as RecordScripts
  return all;
}

struct StoredOutput {
  OutputRun run;
  bool is_text = false;  ///< core::escaped_bytes; else as bytes, by a build before 0.1.0
};

/// A word of the field `output`; see parts/output_runs.lua.
std::optional<StoredOutput> stored_in(std::string_view word) {
  enum Value : std::uint8_t {
    number,
    fence,
    attempt,
    complete,
    ranges,
    writer = ranges + 2 * output_streams
  };
  std::array<std::string_view, writer + 1> values;
  for (auto& value : values) {
    const auto comma = word.find(',');
    value = word.substr(0, comma);
    word.remove_prefix(comma == std::string_view::npos ? word.size() : comma + 1);
  }
  const auto of_number = core::whole_number<std::uint64_t>(values[number]);
  const auto of_fence = Fence::parse(values[fence]);
  const auto of_attempt = core::whole_number<std::uint64_t>(values[attempt]);
  if (!of_number || !of_fence || !of_attempt || values[writer].empty() || !word.empty()) return std::nullopt;
  OutputRun run{.number = *of_number,
                .fence = *of_fence,
                .attempt = static_cast<std::uint32_t>(*of_attempt),
                .is_complete = values[complete] == "1"};
  for (std::size_t stream = 0; stream < output_streams; ++stream) {
    const auto begin = core::whole_number<std::uint64_t>(values[ranges + 2 * stream]);
    const auto end = core::whole_number<std::uint64_t>(values[ranges + 2 * stream + 1]);
    if (!begin || !end || *end < *begin) return std::nullopt;
    run.streams[stream] = {.begin = *begin, .end = *end};
  }
  return StoredOutput{.run = run, .is_text = values[writer].starts_with('u')};
}

/// Adds a piece as the parts of it that are in different chunks.
void add_chunks(Command& command, const OutputPiece& piece) {
  std::string_view left = piece.bytes;
  for (auto at = piece.at; !left.empty();) {
    const auto size = std::min<std::uint64_t>(left.size(), output_chunk_bytes - at % output_chunk_bytes);
    command.add(std::to_string(size)).add(core::escaped_bytes(left.substr(0, size)));
    left.remove_prefix(size);
    at += size;
  }
}
std::size_t chunks_of(const OutputPiece& piece) {
  if (piece.bytes.empty()) return 0;
  const auto last = piece.at + piece.bytes.size() - 1;
  return static_cast<std::size_t>(last / output_chunk_bytes - piece.at / output_chunk_bytes + 1);
}

/// What was asked for of the chunks that were read; empty if they are too short.
std::optional<std::string> cut(std::string_view chunks, bool is_text, const OutputRange& kept,
                               std::uint64_t from, std::size_t limit) {
  if (from >= kept.end) return std::string();
  const auto begin = std::max(from / output_chunk_bytes * output_chunk_bytes, kept.begin);
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kept.end - from, limit));
  const auto offset = static_cast<std::size_t>(from - begin);
  auto bytes = is_text ? core::unescaped_bytes(chunks) : std::string(chunks);
  if (from < begin || bytes.size() < offset + size) return std::nullopt;
  return bytes.substr(offset, size);
}

std::size_t read_limit(const ReadOutput& request) {
  return std::clamp<std::size_t>(request.limit, 1, max_output_read);
}

}  // namespace

RoutedCommand append_command(const StorageLayout& layout, const AppendOutput& request, By by) {
  std::size_t chunks = 0;
  for (const auto& piece : request.pieces) chunks += chunks_of(piece);
  auto command = call_script(output_scripts().append, by, 1, 14 + 2 * chunks);
  command.add_key(layout.record(request.key)).add(layout.channel(request.key));
  add_token(command, request.fence);
  command.add(request.incarnation).add(std::to_string(request.attempt));
  command.add(std::to_string(std::clamp<std::size_t>(request.keep, 1, max_kept_bytes)));
  command.add(request.is_complete ? "1" : "");
  for (const auto& piece : request.pieces) {
    command.add(std::to_string(piece.at)).add(std::to_string(chunks_of(piece)));
  }
  command.add(std::to_string(output_chunk_bytes)).add(std::to_string(max_output_runs));
  for (const auto& piece : request.pieces) add_chunks(command, piece);
  return std::move(command).routed();
}

Result<AppendOutcome> append_outcome(const redisReply& reply, const AppendOutput& request) {
  const auto parts = elements_of(reply);
  const auto code = parts.empty() ? std::nullopt : integer_of(*parts[0]);
  if (code == RecordCode::nothing_there) return NoRecord{};
  if (auto refused = refusal_by_guard<AppendOutcome>(parts, request.fence)) return *std::move(refused);
  if (code == 1 && parts.size() == 2) {
    if (const auto stored = stored_in(text_of(*parts[1]))) return stored->run;
  }
  return not_an_outcome(reply, "append_output", request.key.str());
}

RoutedCommand read_command(const StorageLayout& layout, const ReadOutput& request, By by) {
  auto command = call_script(output_scripts().read, by, 1, 6);
  command.add_key(layout.record(request.key)).add(request.incarnation).add(std::to_string(request.run));
  for (const auto from : request.from) command.add(std::to_string(from));
  command.add(std::to_string(read_limit(request)));
  command.add(std::to_string(output_chunk_bytes));
  return std::move(command).routed();
}

Result<std::optional<KeptOutput>> read_outcome(const redisReply& reply, const ReadOutput& request) {
  if (reply.type == REDIS_REPLY_NIL) return std::optional<KeptOutput>();
  constexpr std::size_t head = 1 + 2 * output_streams;
  const auto parts = elements_of(reply);
  const auto run = parts.size() < head ? std::nullopt : integer_of(*parts[0]);
  if (!run || *run < 0) return not_an_outcome(reply, "read_output", request.key.str());
  KeptOutput output{.runs = {}, .run = static_cast<std::uint64_t>(*run)};
  std::optional<StoredOutput> found;
  for (const auto* word : parts.subspan(head)) {
    const auto stored = stored_in(text_of(*word));
    if (!stored) return not_an_outcome(reply, "read_output", request.key.str());
    output.runs.push_back(stored->run);
    if (stored->run.number == output.run) found = stored;
  }
  for (std::size_t stream = 0; found && stream < output_streams; ++stream) {
    const auto at = core::whole_number<std::uint64_t>(text_of(*parts[1 + 2 * stream]));
    auto bytes = at ? cut(text_of(*parts[2 + 2 * stream]), found->is_text, found->run.streams[stream], *at,
                          read_limit(request))
                    : std::nullopt;
    if (!bytes) return not_an_outcome(reply, "read_output", request.key.str());
    output.pieces[stream] = {.at = *at, .bytes = *std::move(bytes)};
  }
  return std::optional(std::move(output));
}

}  // namespace holdfast::redis
