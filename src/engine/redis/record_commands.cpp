#include "engine/redis/record_commands.hpp"

#include <algorithm>

#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/record_replies.hpp"
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
  Script members{embedded::task_members_lua};
  Script list{embedded::task_list_lua};
};
const RecordScripts& record_scripts() {
  static const auto& all =
      *new RecordScripts;  // never destroyed: threads may still use it while the process exits
  return all;
}

}  // namespace

RoutedCommand get_command(const StorageLayout& layout, const GetRecord& request, By by) {
  auto command = call_script(record_scripts().get, by, 1, 0);
  command.add_key(layout.record(request.key));
  return std::move(command).routed();
}

Result<std::optional<StoredRecord>> get_outcome(const redisReply& reply, std::string_view key) {
  if (reply.type == REDIS_REPLY_NIL) return std::optional<StoredRecord>();
  if (auto record = record_of(elements_of(reply))) return record;
  return not_an_outcome(reply, "get", key);
}

RoutedCommand create_command(const StorageLayout& layout, const CreateRecord& request, const std::string& id,
                             const QuotaSweep& sweep, By by) {
  const auto& key = request.key;
  auto command = call_script(record_scripts().create, by, 2 + sweep.tasks.size(), 13 + sweep.tasks.size());
  command.add_key(layout.record(key)).add_key(layout.index(key.owner()));
  const auto record_prefix = layout.record_prefix(key.owner());
  for (const auto& task : sweep.tasks) command.add_key(record_prefix + task);
  command.add(request.data.text()).add(expires_at_text(request.data)).add(key.task());
  command.add(std::to_string(core::to_ms(request.data.created_at())))
      .add(dropped_at_text(request.data))
      .add(id);
  command.add(layout.channel(key)).add(request.quota ? std::to_string(*request.quota) : std::string());
  command.add(sweep.checked).add(request.origin);
  add_token(command, request.fence);
  for (const auto& task : sweep.tasks) command.add(task);
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
  if (code == RecordCode::quota_reached && parts.size() >= 4) {
    if (const auto records = version_of(*parts[2])) return QuotaReached{.records = *records};
  }
  return not_an_outcome(reply, "create", request.key.str());
}

QuotaSweep next_sweep(const redisReply& reply) {
  const auto parts = elements_of(reply);
  QuotaSweep sweep;
  if (parts.size() < 4 || integer_of(*parts[0]) != RecordCode::quota_reached) return sweep;
  sweep.checked = text_of(*parts[3]);
  for (const auto* task : parts.subspan(4)) sweep.tasks.emplace_back(text_of(*task));
  return sweep;
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

RoutedCommand remove_command(const StorageLayout& layout, const RemoveRecord& request,
                             std::string_view channels, By by) {
  const auto& key = request.key;
  const auto& expected = request.expected;
  const auto queue = layout.queue(key.owner());
  auto command = call_script(record_scripts().remove, by, queue.size() + 1, 10);
  for (const auto& name : queue) command.add_key(name);
  command.add_key(layout.record(key)).add(key.task());
  command.add(expected ? std::to_string(expected->version) : std::string());
  command.add(expected ? expected->incarnation : std::string()).add(layout.channel(key));
  add_token(command, request.fence);
  command.add(layout.record_prefix(key.owner())).add(layout.work_prefix(key.owner())).add(channels);
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

namespace {

/// Also how many dead members a page passes before it is returned as it is.
constexpr std::size_t most_members = 1000;

}  // namespace

RecordListing::RecordListing(const ListRecords& request)
    : owner_(request.prefix.substr(0, request.prefix.size() - 1)),
      after_(request.after),
      room_(std::clamp<std::size_t>(request.limit, 1, max_record_page)),
      bytes_(max_record_page_bytes),
      newest_first_(request.order == ListOrder::newest_first),
      only_dead_(request.only_dead) {}

RoutedCommand RecordListing::command(const StorageLayout& layout, By by) const {
  const auto index = only_dead_ ? layout.dead_letters(owner_) : layout.index(owner_);
  if (step_ == Step::members) {
    auto command = call_script(record_scripts().members, by, 1, after_ ? 4 : 2);
    command.add_key(index).add(newest_first_ ? "1" : "0");
    // One more than there is room for shows whether there are more. Behind dead members there may be many.
    command.add(std::to_string(seen_ == 0 ? room_ + 1 : most_members));
    if (after_) command.add(std::to_string(core::to_ms(after_->created_at))).add(after_->task);
    return std::move(command).routed();
  }
  auto command = call_script(record_scripts().list, by, 1 + members_.size(), 4 + 2 * members_.size());
  command.add_key(index);
  const auto record_prefix = layout.record_prefix(owner_);
  for (const auto& member : members_) command.add_key(record_prefix + member.task);
  command.add(std::to_string(room_)).add(std::to_string(bytes_));
  command.add(page_.records.empty() ? "1" : "0").add(more_members_ ? "1" : "0");
  for (const auto& member : members_) command.add(member.score).add(member.task);
  return std::move(command).routed();
}

Status RecordListing::take(const redisReply& reply) {
  const bool understood = step_ == Step::members ? take_members(reply) : take_records(reply);
  if (understood) return Ok{};
  const auto parts = elements_of(reply);
  if (parts.size() == 2 && integer_of(*parts[0]) == RecordCode::not_a_record) {
    return not_an_outcome(reply, "list", owner_ + ":" + std::string(text_of(*parts[1])));
  }
  return not_an_outcome(reply, "list", owner_ + ":");
}

bool RecordListing::take_members(const redisReply& reply) {
  const auto parts = elements_of(reply);
  const auto more = parts.size() % 2 == 1 ? integer_of(*parts[0]) : std::nullopt;
  if (more != 0 && more != 1) return false;
  members_.clear();
  for (std::size_t at = 1; at < parts.size(); at += 2) {
    if (parts[at]->type != REDIS_REPLY_STRING || parts[at + 1]->type != REDIS_REPLY_STRING) return false;
    members_.push_back(
        {.score = std::string(text_of(*parts[at])), .task = std::string(text_of(*parts[at + 1]))});
  }
  if (members_.empty() && more == 1) return false;
  more_members_ = more == 1;
  step_ = members_.empty() ? Step::done : Step::records;
  return true;
}

bool RecordListing::take_records(const redisReply& reply) {
  enum MoreRecords : std::int8_t { none, page_is_full, page_has_room };
  constexpr std::size_t head = 3;
  constexpr std::size_t step = 2 + record_parts;
  const auto parts = elements_of(reply);
  if (parts.size() < head || (parts.size() - head) % step != 0) return false;
  const auto more = integer_of(*parts[0]);
  const auto type = parts[1]->type;
  if (parts[2]->type != type || (type != REDIS_REPLY_STRING && type != REDIS_REPLY_NIL)) return false;
  std::optional<ListPosition> next;
  if (more == page_is_full || more == page_has_room) {
    const auto score = number_of(*parts[1]);
    if (!score) return false;
    next = ListPosition{.created_at = core::from_ms(*score), .task = std::string(text_of(*parts[2]))};
  } else if (more != none) {
    return false;
  }
  for (std::size_t at = head; at < parts.size(); at += step) {
    const auto task = text_of(*parts[at]);
    auto key = RecordKey::of(owner_, task);
    const auto score = number_of(*parts[at + 1]);
    auto record = record_of(parts.subspan(at + 2, record_parts));
    room_ -= score && room_ > 0 ? 1 : 0;
    if (record) bytes_ -= std::min(bytes_, record->data.size());
    if (key && score && record) {
      page_.records.push_back(
          {.key = *std::move(key), .record = *std::move(record), .created_at = core::from_ms(*score)});
    } else {
      page_.unreadable.push_back(
          {.task = std::string(task),
           .why = key ? damage_of(parts.subspan(at + 2, record_parts)).value_or(unreadable_record())
                      : key.error(),
           .follows = page_.records.size()});
    }
  }
  seen_ += members_.size();
  const bool is_empty = page_.records.empty() && page_.unreadable.empty();
  const bool goes_on = more == page_has_room && room_ > 0 && (is_empty || seen_ <= most_members);
  step_ = goes_on ? Step::members : Step::done;
  page_.next = goes_on ? std::nullopt : next;
  after_ = std::move(next);
  return true;
}

}  // namespace holdfast::redis
