#include "engine/redis/record_commands.hpp"

#include <algorithm>
#include <charconv>
#include <span>

#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use: before main, OpenSSL may not be ready, and an exception could not be caught.
struct RecordScripts {
  Script get{embedded::task_get_lua};
  Script create{embedded::task_create_lua};
  Script put{embedded::task_put_lua};
  Script put_if_version{embedded::task_put_if_version_lua};
  Script remove{embedded::task_remove_lua};
  Script bind{embedded::task_bind_lua};
  Script rebind{embedded::task_rebind_lua};
  Script list{embedded::task_list_lua};
};
const RecordScripts& record_scripts() {
  static const auto& all =
      *new RecordScripts;  // never destroyed: threads may still use it while the process exits
  return all;
}

/// The codes that scripts return in place of success; see their headers.
enum RecordCode : std::int8_t {
  conflict_of_put = 0,
  nothing_there = -1,
  stale_fence = -2,
  not_a_record = -3,
  wrong_lock = -4,
  conflict_of_remove = -5,
  quota_reached = -5,
};

using Parts = std::span<redisReply* const>;

/// The parts of a record in an answer: version, data, incarnation, origin, fence, authority, lock key.
constexpr std::size_t record_parts = 7;

std::string expires_at_text(const RecordData& data) {
  if (!data.expires_at()) return {};
  // Rounded up: a reader that uses this field alone does not lose the record's last second.
  return std::to_string((core::to_ms(*data.expires_at()) + 999) / 1000);
}

std::string dropped_at_text(const RecordData& data) {
  // Redis drops a key after the millisecond of its PXAT; the record must be gone when that one begins.
  return data.expires_at() ? std::to_string(core::to_ms(*data.expires_at()) - 1) : std::string();
}

void add_token(Command& command, const std::optional<FencingToken>& token) {
  if (token) {
    command.add(token->authority).add(token->lock_key).add(token->fence.to_string());
  } else {
    command.add("").add("").add("");
  }
}

Error unreadable_record() {
  return {ErrorCode::Internal,
          "invalid record of this task in Redis: version, data, expires_at, fence or the index entry is "
          "missing or malformed. It was not changed; inspect it with HGETALL, then repair or remove it"};
}

/// The error for a reply that is not an outcome of the operation.
Error not_an_outcome(const redisReply& reply, std::string_view operation, std::string_view key) {
  const auto error = [&] {
    if (is_error(reply)) return error_of(reply, key);
    const auto parts = elements_of(reply);
    if (integer_of(parts.empty() ? reply : *parts[0]) == RecordCode::not_a_record) {
      return unreadable_record();
    }
    return Error(ErrorCode::Internal, "unexpected reply of Redis to " + std::string(operation) +
                                          " of a record; check for a proxy, or a server that is not Redis");
  }();
  return error.about(key, {});
}

std::optional<std::uint64_t> version_of(const redisReply& reply) {
  const auto version = integer_of(reply);
  if (!version || *version < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*version);
}

std::optional<FencingToken> token_of(const redisReply& authority, const redisReply& lock_key,
                                     const redisReply& fence) {
  auto parsed = Fence::parse(text_of(fence));
  if (!parsed || authority.type != REDIS_REPLY_STRING || lock_key.type != REDIS_REPLY_STRING)
    return std::nullopt;
  return FencingToken{.authority = std::string(text_of(authority)),
                      .lock_key = std::string(text_of(lock_key)),
                      .fence = *parsed};
}

/// Empty if no script returns such parts.
std::optional<StoredRecord> record_of(Parts parts) {
  if (parts.size() != record_parts) return std::nullopt;
  const auto version = version_of(*parts[0]);
  if (!version || parts[1]->type != REDIS_REPLY_STRING || parts[2]->type != REDIS_REPLY_STRING)
    return std::nullopt;
  StoredRecord record{.data = std::string(text_of(*parts[1])),
                      .version = *version,
                      .incarnation = std::string(text_of(*parts[2])),
                      .bound_to = {},
                      .origin = std::string(text_of(*parts[3]))};
  if (parts[4]->type != REDIS_REPLY_NIL) {
    record.bound_to = token_of(*parts[5], *parts[6], *parts[4]);
    if (!record.bound_to) return std::nullopt;
  }
  return record;
}

/// FenceRefused, for any outcome type that has it; empty if the reply is something else.
template <class Outcome>
std::optional<Outcome> refusal_by_guard(Parts parts, const FencingToken& given) {
  if (parts.empty()) return std::nullopt;
  const auto code = integer_of(*parts[0]);
  if (code == RecordCode::stale_fence && parts.size() == 2) {
    if (const auto highest = Fence::parse(text_of(*parts[1]))) {
      FencingToken bound_to{.authority = given.authority, .lock_key = given.lock_key, .fence = *highest};
      return Outcome(
          FenceRefused{.why = ErrorCode::StaleFence, .given = given.fence, .bound_to = std::move(bound_to)});
    }
  }
  if (code == RecordCode::wrong_lock && parts.size() == 4) {
    if (auto bound_to = token_of(*parts[1], *parts[2], *parts[3])) {
      return Outcome(
          FenceRefused{.why = ErrorCode::WrongLock, .given = given.fence, .bound_to = *std::move(bound_to)});
    }
  }
  return std::nullopt;
}

/// A record of other software has only a digest as incarnation, which changes with its data: if its version
/// changed too, it is most likely the same record.
bool is_digest(const std::string& incarnation) {
  return incarnation.starts_with('~');
}

std::optional<VersionConflict> conflict_of(Parts parts, const ExpectedVersion& expected) {
  if (parts.size() != 3 || parts[2]->type != REDIS_REPLY_STRING) return std::nullopt;
  const auto actual = version_of(*parts[1]);
  if (!actual) return std::nullopt;
  const bool another = !expected.incarnation.empty() && text_of(*parts[2]) != expected.incarnation;
  const bool changed_by_others = is_digest(expected.incarnation) && *actual > expected.version;
  return VersionConflict{
      .expected = expected.version, .actual = *actual, .replaced = another && !changed_by_others};
}

std::string_view owner_of(const ListRecords& request) {
  return std::string_view(request.prefix).substr(0, request.prefix.size() - 1);
}

}  // namespace

RoutedCommand get_command(const StorageLayout& layout, const GetRecord& request, By by) {
  auto command = call_script(record_scripts().get, by, 1, 0);
  command.add_key(layout.record(request.key));
  return std::move(command).routed();
}

Result<std::optional<StoredRecord>> get_outcome(const redisReply& reply, const RecordKey& key) {
  if (reply.type == REDIS_REPLY_NIL) return std::optional<StoredRecord>();
  if (auto record = record_of(elements_of(reply))) return record;
  return not_an_outcome(reply, "get", key.str());
}

RoutedCommand create_command(const StorageLayout& layout, const CreateRecord& request, const std::string& id,
                             By by) {
  const auto& key = request.key;
  auto command = call_script(record_scripts().create, by, 2, 13);
  command.add_key(layout.record(key)).add_key(layout.index(key.owner()));
  command.add(request.data.text()).add(expires_at_text(request.data)).add(key.task());
  command.add(std::to_string(core::to_ms(request.data.created_at())))
      .add(dropped_at_text(request.data))
      .add(id);
  command.add(layout.channel(key)).add(request.quota ? std::to_string(*request.quota) : std::string());
  command.add(layout.record_prefix(key.owner())).add(request.origin);
  add_token(command, request.fence);
  return std::move(command).routed();
}

Result<CreateOutcome> create_outcome(const redisReply& reply, const CreateRecord& request,
                                     const std::string& id) {
  const auto parts = elements_of(reply);
  const auto code = parts.size() < 2 ? std::nullopt : integer_of(*parts[0]);
  if (code == 1) return Written{.version = 1, .incarnation = id};
  if (code == 0) {
    if (auto record = record_of(parts.subspan(2))) return AlreadyThere{*std::move(record)};
  }
  if (code == RecordCode::quota_reached && parts.size() == 3) {
    if (const auto records = version_of(*parts[2])) return QuotaReached{.records = *records};
  }
  return not_an_outcome(reply, "create", request.key.str());
}

std::optional<std::int64_t> server_time_of(const redisReply& reply) {
  const auto parts = elements_of(reply);
  return parts.size() < 2 ? std::nullopt : integer_of(*parts[1]);
}

RoutedCommand put_command(const StorageLayout& layout, const PutRecord& request, const std::string& id,
                          By by) {
  const auto& key = request.key;
  const auto& data = request.data;
  auto command = request.expected ? call_script(record_scripts().put_if_version, by, 2, 12)
                                  : call_script(record_scripts().put, by, 2, 11);
  command.add_key(layout.record(key)).add_key(layout.index(key.owner())).add(data.text());
  if (request.expected) command.add(std::to_string(request.expected->version));
  command.add(expires_at_text(data)).add(key.task()).add(std::to_string(core::to_ms(data.created_at())));
  if (request.expected) command.add(request.expected->incarnation);
  command.add(dropped_at_text(data)).add(id).add(layout.channel(key));
  if (!request.expected) command.add(!request.fence || request.fenced_may_create ? "1" : "");
  add_token(command, request.fence);
  return std::move(command).routed();
}

Result<PutOutcome> put_outcome(const redisReply& reply, const PutRecord& request) {
  const auto parts = elements_of(reply);
  const auto code = parts.empty() ? std::nullopt : integer_of(*parts[0]);
  if (code == RecordCode::nothing_there) return NoRecord{};
  if (request.fence) {
    if (auto refused = refusal_by_guard<PutOutcome>(parts, *request.fence)) return *std::move(refused);
  }
  if (code && *code >= 0) {
    // The version; before it, if one was expected, whether it matched.
    const auto written = request.expected ? (code == 1 ? parts.subspan(1) : Parts()) : parts;
    if (written.size() == 2 && written[1]->type == REDIS_REPLY_STRING) {
      if (const auto version = version_of(*written[0])) {
        return Written{.version = *version, .incarnation = std::string(text_of(*written[1]))};
      }
    }
  }
  if (request.expected && code == RecordCode::conflict_of_put) {
    if (const auto conflict = conflict_of(parts, *request.expected)) return *conflict;
  }
  return not_an_outcome(reply, "put", request.key.str());
}

RoutedCommand remove_command(const StorageLayout& layout, const RemoveRecord& request, By by) {
  const auto& key = request.key;
  const auto& expected = request.expected;
  auto command = call_script(record_scripts().remove, by, 2, 7);
  command.add_key(layout.record(key)).add_key(layout.index(key.owner())).add(key.task());
  command.add(expected ? std::to_string(expected->version) : std::string());
  command.add(expected ? expected->incarnation : std::string()).add(layout.channel(key));
  add_token(command, request.fence);
  return std::move(command).routed();
}

Result<RemoveOutcome> remove_outcome(const redisReply& reply, const RemoveRecord& request) {
  const auto done = integer_of(reply);
  if (done == 1) return Removed{};
  if (done == 0) return NoRecord{};
  const auto parts = elements_of(reply);
  if (request.fence) {
    if (auto refused = refusal_by_guard<RemoveOutcome>(parts, *request.fence)) return *std::move(refused);
  }
  if (request.expected && !parts.empty() && integer_of(*parts[0]) == RecordCode::conflict_of_remove) {
    if (const auto conflict = conflict_of(parts, *request.expected)) return *conflict;
  }
  return not_an_outcome(reply, "remove", request.key.str());
}

RoutedCommand guard_command(const StorageLayout& layout, const BindRecord& request, const std::string& id,
                            By by) {
  auto command = call_script(record_scripts().bind, by, 1, 6);
  command.add_key(layout.record(request.key)).add(layout.channel(request.key));
  add_token(command, request.fence);
  command.add(request.incarnation).add(id);
  return std::move(command).routed();
}

Result<BindOutcome> guard_outcome(const redisReply& reply, const BindRecord& request) {
  if (reply.type == REDIS_REPLY_NIL) return NoRecord{};
  const auto parts = elements_of(reply);
  if (auto record = record_of(parts)) return *std::move(record);
  if (auto refused = refusal_by_guard<BindOutcome>(parts, request.fence)) return *std::move(refused);
  return not_an_outcome(reply, "bind", request.key.str());
}

RoutedCommand rebind_command(const StorageLayout& layout, const RebindRecord& request, By by) {
  auto command = call_script(record_scripts().rebind, by, 1, request.from_authority ? 5 : 4);
  command.add_key(layout.record(request.key)).add(layout.channel(request.key));
  add_token(command, request.fence);
  if (request.from_authority) command.add(*request.from_authority);
  return std::move(command).routed();
}

Result<RebindOutcome> rebind_outcome(const redisReply& reply, const RebindRecord& request) {
  if (reply.type == REDIS_REPLY_NIL) return NoRecord{};
  if (auto record = record_of(elements_of(reply))) return *std::move(record);
  return not_an_outcome(reply, "rebind", request.key.str());
}

RoutedCommand list_command(const StorageLayout& layout, const ListRecords& request, By by) {
  const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
  const auto owner = owner_of(request);
  auto command = call_script(record_scripts().list, by, 1, request.after ? 6 : 4);
  command.add_key(layout.index(owner)).add(layout.record_prefix(owner));
  command.add(request.order == ListOrder::newest_first ? "1" : "0").add(std::to_string(limit));
  command.add(std::to_string(max_record_page_bytes));
  if (request.after)
    command.add(std::to_string(core::to_ms(request.after->created_at))).add(request.after->task);
  return std::move(command).routed();
}

namespace {

std::optional<std::int64_t> score_of(const redisReply& reply) {
  const auto text = text_of(reply);
  std::int64_t score = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), score);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return score;
}

std::optional<RecordPage> page_of(Parts parts, std::string_view owner) {
  constexpr std::size_t head = 3;
  constexpr std::size_t step = 2 + record_parts;
  if (parts.size() < head || (parts.size() - head) % step != 0) return std::nullopt;
  const auto more = integer_of(*parts[0]);
  RecordPage page;
  const auto type = parts[1]->type;
  if (parts[2]->type != type || (type != REDIS_REPLY_STRING && type != REDIS_REPLY_NIL)) return std::nullopt;
  if (more == 1) {
    const auto score = score_of(*parts[1]);
    if (!score) return std::nullopt;
    page.next = ListPosition{.created_at = core::from_ms(*score), .task = std::string(text_of(*parts[2]))};
  } else if (more != 0) {
    return std::nullopt;
  }
  for (std::size_t at = head; at < parts.size(); at += step) {
    const auto task = text_of(*parts[at]);
    auto key = RecordKey::of(owner, task);
    const auto score = score_of(*parts[at + 1]);
    auto record = record_of(parts.subspan(at + 2, record_parts));
    if (key && score && record) {
      page.records.push_back(
          {.key = *std::move(key), .record = *std::move(record), .created_at = core::from_ms(*score)});
    } else {
      page.unreadable.push_back({.task = std::string(task),
                                 .why = key ? unreadable_record() : key.error(),
                                 .follows = page.records.size()});
    }
  }
  return page;
}

}  // namespace

Result<RecordPage> list_outcome(const redisReply& reply, const ListRecords& request) {
  const auto parts = elements_of(reply);
  const auto owner = owner_of(request);
  if (auto page = page_of(parts, owner)) return *std::move(page);
  if (parts.size() == 2 && integer_of(*parts[0]) == RecordCode::not_a_record) {
    return not_an_outcome(reply, "list", std::string(owner) + ":" + std::string(text_of(*parts[1])));
  }
  return not_an_outcome(reply, "list", request.prefix);
}

}  // namespace holdfast::redis
