#include "engine/redis/lock_commands.hpp"

#include <array>
#include <charconv>

#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/lock_record.hpp"
#include "engine/redis/lock_replies.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use: before main, OpenSSL may not be ready, and an exception could not be caught.
struct Scripts {
  Script acquire{embedded::acquire_lua};
  Script release{embedded::release_lua};
  Script release_for_good{embedded::release_for_good_lua};
  Script release_by_force{embedded::break_lua};
  Script release_evidence{embedded::release_evidence_lua};
  Script extend{embedded::extend_lua};
  Script is_locked{embedded::is_locked_lua};
  Script lookup{embedded::lookup_lua};
  Script cleanup{embedded::cleanup_lua};
  Script records{embedded::records_lua};
};
const Scripts& scripts() {
  static const auto& all = *new Scripts;  // never destroyed: threads may still use it while the process exits
  return all;
}

/// A refusal with the label of the holder: `n,"holder":"..."}`. Empty if the text is another.
std::optional<Refused> labelled_refusal(std::string_view text) {
  std::int64_t left = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), left);
  auto holder = holder_in(text.substr(static_cast<std::size_t>(end - text.data())));
  if (failed != std::errc() || left <= 0 || !holder) return std::nullopt;
  return Refused{.free_in = std::chrono::milliseconds(left),
                 .holder = std::make_shared<const LockHolder>(*std::move(holder))};
}

/// A call about the lock that an id holds: the index key, and the lock key if it is known.
Result<Command> call_on_held(const Layout& layout, const Script& script, const LockRef& lock, By by,
                             std::size_t arguments) {
  if (!lock.key) {
    auto command = call_script(script, by, 1, 1 + arguments);
    command.add_key(layout.index_key(lock.id)).add(lock.id.str());
    return command;
  }
  const auto lock_key = layout.lock_key(*lock.key);
  if (!lock_key) return lock_key.error().about(lock.key->str(), lock.id.str());
  auto command = call_script(script, by, 2, 1 + arguments);
  command.add_key(layout.index_key(lock.id)).add_key(*lock_key).add(lock.id.str());
  return command;
}

/// A call about the value at a lock key.
Result<Command> call_on_key(const Layout& layout, const Script& script, const LockKey& key, By by,
                            std::size_t arguments) {
  const auto lock_key = layout.lock_key(key);
  if (!lock_key) return lock_key.error().about(key.str(), {});
  auto command = call_script(script, by, 1, arguments);
  command.add_key(*lock_key);
  return command;
}

Result<RoutedCommand> routed(Result<Command> command) {
  if (!command) return command.error();
  return (*std::move(command)).routed();
}

}  // namespace

Result<RoutedCommand> acquire_command(const Layout& layout, const AcquireRequest& request,
                                      const RememberedFence& floor, By by) {
  const auto about = subject_of(request);
  const auto lock_key = layout.lock_key(request.key);
  if (!lock_key) return lock_key.error().about(about.key, about.id);
  const auto fence_key = layout.fence_key(*lock_key);
  if (!fence_key) return fence_key.error().about(about.key, about.id);
  const auto& lifetime = request.counter_lifetime;
  auto command = call_script(scripts().acquire, by, 4, lifetime ? 5 : 4);
  command.add_key(*lock_key)
      .add_key(layout.index_key(request.id))
      .add_key(*fence_key)
      .add_key(layout.authority_key());
  command.add(request.id.str())
      .add(std::to_string(request.ttl.length().count()))
      .add(json_string(request.key) + holder_field(request.holder.get()))
      .add_fence_floor(floor);
  if (lifetime) command.add(lifetime->until ? std::to_string(core::to_ms(*lifetime->until)) : std::string());
  return std::move(command).routed();
}

GrantDetails grant_details(const redisReply& reply) {
  const auto parts = elements_of(reply);
  const auto last = parts.size() == 5 ? integer_of(*parts[4]) : std::nullopt;
  if (!last) return {};
  if (*last < 0) return {.repeated = true};
  return {.low_counter = static_cast<std::uint64_t>(*last)};
}

Result<AcquireOutcome> acquire_outcome(const redisReply& reply, const AcquireRequest& request) {
  const auto parts = elements_of(reply);
  if ((parts.size() == 4 || parts.size() == 5) && integer_of(*parts[0]) == 1) {
    const auto fence = Fence::parse(text_of(*parts[1]));
    const auto expires_at = integer_of(*parts[2]);
    const auto authority = text_of(*parts[3]);
    if (fence && expires_at && !authority.empty()) {
      return Granted{
          .fence = *fence, .expires_at = core::from_ms(*expires_at), .authority = std::string(authority)};
    }
    if (fence && expires_at && parts[3]->type == REDIS_REPLY_STRING) {
      return Error(ErrorCode::Internal,
                   "the key in Redis that identifies this store (PREFIX:fence:PREFIX:) is empty; delete it, "
                   "and the next acquire creates a new one")
          .about(request.key.str(), request.id.str());
    }
  }
  if (reply.type == REDIS_REPLY_STRING) {
    if (auto refused = labelled_refusal(text_of(reply))) return *std::move(refused);
  }
  const auto left = integer_of(reply);
  // The remaining time of a record whose expiresAtMs overflows an integer.
  if (left && *left < LockCode::counter_below_zero)
    return no_lock_record().about(request.key.str(), request.id.str());
  if (left == 0) return Refused{};  // the documented script refuses so: the remaining time is unknown
  if (left && *left > 0) return Refused{.free_in = std::chrono::milliseconds(*left)};
  return not_an_outcome(reply, "acquire", subject_of(request));
}

Result<RoutedCommand> release_command(const Layout& layout, const LockRef& lock, Release how, By by) {
  const auto& script = how == Release::for_good   ? scripts().release_for_good
                       : how == Release::by_force ? scripts().release_by_force
                                                  : scripts().release;
  const std::size_t arguments = how == Release::for_good ? 2 : how == Release::by_force ? 3 : 1;
  auto command = call_on_held(layout, script, lock, by, arguments);
  if (!command) return command.error();
  command->add(layout.channel_prefix());
  if (arguments > 1) command->add(std::to_string(request_may_be_late.count()));
  if (how == Release::by_force) command->add(std::to_string(core::longest_break_mark.count()));
  return (*std::move(command)).routed();
}

Result<ReleaseOutcome> release_outcome(const redisReply& reply, const LockRef& lock) {
  if (integer_of(reply) == 1) return Released{};
  if (const auto absence = absence_of(reply)) return *absence;
  return not_an_outcome(reply, "release", subject_of(lock));
}

Result<RoutedCommand> release_evidence_command(const Layout& layout, const LockRef& lock, By by) {
  auto command = call_script(scripts().release_evidence, by, lock.key ? 3 : 2, 0);
  command.add_key(layout.index_key(lock.id)).add_key(layout.authority_key());
  if (lock.key) {
    const auto lock_key = layout.lock_key(*lock.key);
    if (!lock_key) return lock_key.error().about(lock.key->str(), lock.id.str());
    const auto fence_key = layout.fence_key(*lock_key);
    if (!fence_key) return fence_key.error().about(lock.key->str(), lock.id.str());
    command.add_key(*fence_key);
  }
  return std::move(command).routed();
}

Result<core::ReleaseEvidence> release_evidence(const redisReply& reply, const LockRef& lock) {
  const auto parts = elements_of(reply);
  const auto broken = parts.size() == 3 ? integer_of(*parts[0]) : std::nullopt;
  if (!broken) return not_an_outcome(reply, "release", subject_of(lock));
  core::ReleaseEvidence evidence{
      .broken = *broken == 1, .authority = std::string(text_of(*parts[1])), .counter = {}};
  if (lock.key) {
    // A counter that is not a number counts as lost.
    const auto text = text_of(*parts[2]);
    (void)std::from_chars(text.data(), text.data() + text.size(), evidence.counter.emplace(0));
  }
  return evidence;
}

Result<RoutedCommand> extend_command(const Layout& layout, const ExtendRequest& request, By by) {
  const auto& holder = request.new_holder;
  auto command = call_on_held(layout, scripts().extend, request.lock, by, holder ? 2 : 1);
  if (command) command->add(std::to_string(request.ttl.length().count()));
  if (command && holder) command->add(holder_field(holder->get()));
  return routed(std::move(command));
}

Result<ExtendOutcome> extend_outcome(const redisReply& reply, const LockRef& lock) {
  const auto parts = elements_of(reply);
  if (parts.size() == 2 && integer_of(*parts[0]) == 1) {
    const auto expires_at = integer_of(*parts[1]);
    if (expires_at) return Extended{.expires_at = core::from_ms(*expires_at)};
  }
  if (const auto absence = absence_of(reply)) return *absence;
  return not_an_outcome(reply, "extend", subject_of(lock));
}

Result<RoutedCommand> is_locked_command(const Layout& layout, const LockKey& key, By by) {
  return routed(call_on_key(layout, scripts().is_locked, key, by, 0));
}

Result<bool> is_locked_outcome(const redisReply& reply, const LockKey& key) {
  const auto code = integer_of(reply);
  if (code == 0 || code == 1) return code == 1;
  return not_an_outcome(reply, "is_locked", {.key = key.str(), .id = {}});
}

Result<RoutedCommand> lookup_command(const Layout& layout, const LookupRequest& request, By by) {
  if (const auto* key = std::get_if<LockKey>(&request.what)) {
    return routed(call_on_key(layout, scripts().lookup, *key, by, 0));
  }
  const auto& id = std::get<LockId>(request.what);
  auto command = call_script(scripts().lookup, by, 1, 1);
  command.add_key(layout.index_key(id)).add(id.str());
  return std::move(command).routed();
}

Result<std::optional<LockRecord>> lookup_outcome(const redisReply& reply, const LookupRequest& request) {
  if (reply.type == REDIS_REPLY_NIL) return std::nullopt;
  const auto about = subject_of(request);
  if (reply.type != REDIS_REPLY_STRING) return not_an_outcome(reply, "lookup", about);
  auto record = parse_lock_record(text_of(reply));
  if (!record) return record.error().about(about.key, about.id);
  return *std::move(record);
}

Result<RoutedCommand> cleanup_command(const Layout& layout, const LockKey& key, By by) {
  auto command = call_on_key(layout, scripts().cleanup, key, by, 1);
  if (command) command->add(layout.index_prefix());
  return routed(std::move(command));
}

RoutedCommand records_command(std::span<const std::string> lock_keys, By by) {
  auto command = call_script(scripts().records, by, lock_keys.size(), 0);
  for (const auto& lock_key : lock_keys) command.add_key(lock_key);
  return std::move(command).routed();
}

Result<std::vector<LockRecord>> records_outcome(const redisReply& reply, const Layout& layout,
                                                std::span<const std::string> lock_keys) {
  const auto texts = elements_of(reply);
  if (is_error(reply) || texts.size() != lock_keys.size()) return not_an_outcome(reply, "list", {});
  std::vector<LockRecord> records;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i]->type != REDIS_REPLY_STRING) continue;
    auto record = parse_lock_record(text_of(*texts[i]));
    if (!record) continue;
    // Another prefix may begin with this one; the key field of its locks yields another lock key.
    const auto lock_key = layout.lock_key(record->key);
    if (lock_key && *lock_key == lock_keys[i]) records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace holdfast::redis
