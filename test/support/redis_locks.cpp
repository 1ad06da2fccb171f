#include "support/redis_locks.hpp"

#include <stdexcept>

#include "engine/redis/listings.hpp"
#include "engine/redis/script.hpp"
#include "support/calls.hpp"
#include "support/replies.hpp"

namespace holdfast::test {
namespace {

using redis::By;

LockRef ref(const LockId& id, const std::optional<std::string>& name) {
  return {.id = id, .key = name ? std::optional(key(*name)) : std::nullopt};
}

/// The script with the server's clock replaced by one that stands still.
std::string frozen(std::string script, std::int64_t now_ms) {
  const std::string ask = "redis.call('TIME')";
  const std::string answer =
      "{'" + std::to_string(now_ms / 1000) + "', '" + std::to_string(now_ms % 1000 * 1000 + 999) + "'}";
  auto at = script.find(ask);
  if (at == std::string::npos) throw std::runtime_error("this script does not ask for the time");
  for (; at != std::string::npos; at = script.find(ask, at)) script.replace(at, ask.size(), answer);
  return script;
}

}  // namespace

std::vector<std::string> arguments_of(const std::string& bytes) {
  const auto command = reply_of(bytes);  // a command is an array of strings, as a reply may be
  std::vector<std::string> arguments;
  for (const auto* argument : redis::elements_of(*command)) arguments.emplace_back(redis::text_of(*argument));
  return arguments;
}

std::vector<std::string> arguments_of(const redis::RoutedCommand& command) {
  return arguments_of(command.bytes);
}

RedisLocks::RedisLocks(const RedisOptions& where, std::string_view prefix, RedisLayout how,
                       redis::Reach reach)
    : raw(where),
      layout(redis::Layout::make(prefix, where.db).value_or_throw()),
      locks(how == RedisLayout::native ? redis::native_layout(layout, reach)
                                       : redis::documented_layout(layout, reach)) {}

std::string RedisLocks::found_at(const LockId& id, bool key_is_known) {
  if (key_is_known || !locks->finds_ids_by_hint()) return {};
  auto name = locks->hint(*ask(locks->read_hint(id).value_or_throw()), id).value_or_throw();
  return name.empty() ? layout.named("there-is-no-hint") : name;
}

redis::Reply RedisLocks::ask(const std::string& bytes) {
  auto arguments = arguments_of(bytes);
  if (frozen_ms_ && arguments[0] == "EVAL") arguments[1] = frozen(arguments[1], *frozen_ms_);
  auto reply = raw.command(arguments);
  const auto keys = redis::undeclared_keys(*reply);
  if (keys.empty()) return reply;
  return ask(redis::with_keys({.bytes = bytes}, keys).bytes);
}

Result<AcquireOutcome> RedisLocks::try_acquire(const LockId& id, std::string_view name, milliseconds length,
                                               std::optional<CounterLifetime> counter, std::uint64_t floor) {
  const AcquireRequest request{.id = id, .key = key(name), .ttl = ttl(length), .counter_lifetime = counter};
  const auto command = locks->acquire(request, {.fence = floor}, By::text);
  if (!command) return command.error();
  return locks->acquired(*ask(*command), request);
}

std::optional<Granted> RedisLocks::acquire(const LockId& id, std::string_view name, milliseconds length,
                                           std::optional<CounterLifetime> counter) {
  const auto outcome = try_acquire(id, name, length, counter).value_or_throw();
  const auto* granted = std::get_if<Granted>(&outcome);
  return granted == nullptr ? std::nullopt : std::optional(*granted);
}

Result<ReleaseOutcome> RedisLocks::try_release(const LockId& id, std::optional<std::string> name,
                                               redis::Release how) {
  const auto lock = ref(id, name);
  const auto command = locks->release(lock, found_at(id, name.has_value()), how, By::text);
  if (!command) return command.error();
  return locks->released(*ask(*command), lock);
}

std::optional<Absence> RedisLocks::release(const LockId& id, std::optional<std::string> name,
                                           redis::Release how) {
  const auto outcome = try_release(id, std::move(name), how).value_or_throw();
  const auto* absence = std::get_if<Absence>(&outcome);
  return absence == nullptr ? std::nullopt : std::optional(*absence);
}

Result<ExtendOutcome> RedisLocks::try_extend(const LockId& id, std::optional<std::string> name,
                                             milliseconds length) {
  return try_call(ExtendRequest{.lock = ref(id, name), .ttl = ttl(length)}, found_at(id, name.has_value()));
}

Result<bool> RedisLocks::try_is_locked(std::string_view name) {
  return try_call(IsLockedRequest{.key = key(name)});
}

Result<std::optional<LockRecord>> RedisLocks::try_lookup(std::string_view name) {
  return try_call(LookupRequest{.what = key(name)});
}

Result<std::optional<LockRecord>> RedisLocks::try_lookup(const LockId& id) {
  return try_call(LookupRequest{.what = id}, found_at(id, false));
}

Result<core::ReleaseEvidence> RedisLocks::evidence(const LockId& id, std::string_view name) {
  const auto lock = ref(id, std::string(name));
  const auto frozen_ms = std::exchange(frozen_ms_, std::nullopt);  // the script does not ask for the time
  const auto restore = [&](auto result) {
    frozen_ms_ = frozen_ms;
    return result;
  };
  return restore(locks->evidence(*ask(locks->release_evidence(lock, {}, By::text).value_or_throw()), lock));
}

std::int64_t RedisLocks::cleanup(std::string_view name) {
  const auto reply = ask(locks->cleanup(key(name), By::text).value_or_throw());
  const auto code = redis::integer_of(*reply);
  if (!code) throw std::runtime_error("cleanup: " + std::string(redis::text_of(*reply)));
  return *code;
}

LockPage RedisLocks::page(std::string cursor, std::size_t limit) {
  auto listing =
      redis::LockListing::start(*locks, {.cursor = std::move(cursor), .limit = limit}).value_or_throw();
  while (const auto command = listing.command(By::text)) {
    static_cast<void>(listing.take(*ask(*command), 1).value_or_throw());
  }
  return std::move(listing).page();
}

std::string RedisLocks::lock_key(std::string_view name) const {
  return layout.lock_key(key(name)).value_or_throw();
}

std::string RedisLocks::fence_key(std::string_view name) const {
  return layout.fence_key(lock_key(name)).value_or_throw();
}

}  // namespace holdfast::test
