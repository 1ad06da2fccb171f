#include "engine/redis/lock_layout.hpp"

#include "engine/redis/lock_replies.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

RedisLayout layout_of(const RedisOptions& options) noexcept {
  return options.layout.value_or(options.cluster_nodes.empty() ? RedisLayout::documented
                                                               : RedisLayout::native);
}

Channels channels_of(const RedisOptions& options, bool member) noexcept {
  const bool in_cluster = member || !options.cluster_nodes.empty();
  return in_cluster && layout_of(options) == RedisLayout::native ? Channels::sharded : Channels::global;
}

Result<std::shared_ptr<const LockLayout>> LockLayout::make(const RedisOptions& options, Channels channels) {
  auto names = Layout::make(options.lock_prefix, options.db, channels);
  if (!names) return names.error();
  const auto reach = options.cluster_nodes.empty() ? Reach::every_key : Reach::one_slot;
  switch (layout_of(options)) {
    case RedisLayout::native:
      return native_layout(*std::move(names), reach);
    case RedisLayout::documented:
      break;
  }
  return documented_layout(*std::move(names), reach);
}

Result<ReleaseOutcome> LockLayout::released(const redisReply& reply, const LockRef& lock) const {
  if (integer_of(reply) == 1) return Released{};
  if (const auto absence = absence_of(reply)) return *absence;
  return refused(reply, "release", lock.subject());
}

Result<ExtendOutcome> LockLayout::extend_outcome(const redisReply& reply,
                                                 const ExtendRequest& request) const {
  if (const auto extended = extended_of(reply)) return *extended;
  if (const auto absence = absence_of(reply)) return *absence;
  return refused(reply, request);
}

Error LockLayout::refused(const redisReply& reply, std::string_view operation,
                          const RequestSubject& about) const {
  return explained(reply, not_an_outcome(reply, operation, about));
}

RoutedCommand LockLayout::records(std::span<const std::string> lock_keys, By by) const {
  auto command = call_script(records_script(), by, lock_keys.size(), 0);
  for (const auto& lock_key : lock_keys) command.add_key(lock_key);
  return std::move(command).routed();
}

Result<std::vector<LockRecord>> LockLayout::listed(const redisReply& reply,
                                                   std::span<const std::string> lock_keys) const {
  const auto values = elements_of(reply);
  if (is_error(reply) || values.size() != lock_keys.size()) return refused(reply, "list", {});
  std::vector<LockRecord> records;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto record = read_record(*values[i], lock_keys[i]);
    if (!record) continue;
    // Another prefix may begin with this one; the user keys of its locks yield other lock keys.
    const auto lock_key = names_.lock_key(record->key);
    if (lock_key && *lock_key == lock_keys[i]) records.push_back(*std::move(record));
  }
  return records;
}

Result<RoutedCommand> LockLayout::on_key(const Script& script, const LockKey& key, By by) const {
  const auto lock_key = names_.lock_key(key);
  if (!lock_key) return lock_key.error().about(key.str(), {});
  auto command = call_script(script, by, 1, 0);
  command.add_key(*lock_key);
  return std::move(command).routed();
}

Result<RoutedCommand> LockLayout::read_hint(const LockId& id) const {
  const auto name = names_.index_key(id);
  if (!name) return name.error().about({}, id.str());
  auto command = Command::begin("GET", 1);
  command.add_key(*name);
  return std::move(command).routed();
}

Result<std::string> LockLayout::hint(const redisReply& reply, const LockId& id) const {
  if (is_error(reply)) return error_of(reply).about({}, id.str());
  const auto name = text_of(reply);
  // A name outside the prefix is not ours, and the user may have no right to it.
  return names_.after_prefix(name) ? std::string(name) : std::string();
}

Result<RoutedCommand> LockLayout::write_hint(const LockId& id, std::string_view lock_key, Ttl ttl,
                                             Hint how) const {
  const auto name = names_.index_key(id);
  if (!name) return name.error().about({}, id.str());
  const auto lasts = ttl.length() + request_may_be_late;
  auto command = Command::begin("SET", how == Hint::if_absent ? 5 : 4);
  command.add_key(*name).add(lock_key).add("PX").add(std::to_string(lasts.count()));
  if (how == Hint::if_absent) command.add("NX");
  return std::move(command).routed();
}

Result<RoutedCommand> LockLayout::drop_hint(const LockId& id) const {
  const auto name = names_.index_key(id);
  if (!name) return name.error().about({}, id.str());
  auto command = Command::begin("SET", 4);  // for a millisecond: no further right is needed
  command.add_key(*name).add("").add("PX").add("1");
  return std::move(command).routed();
}

}  // namespace holdfast::redis
