#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/layout.hpp"
#include "engine/redis/lock_layout.hpp"
#include "support/raw_redis.hpp"

namespace holdfast::test {

/// The arguments of a command, read back from its bytes by hiredis.
std::vector<std::string> arguments_of(const std::string& bytes);
std::vector<std::string> arguments_of(const redis::RoutedCommand& command);

/// The lock scripts on a real server, without the engine's connection: command, reply, outcome.
class RedisLocks {
 public:
  RedisLocks(const RedisOptions& where, std::string_view prefix, RedisLayout how = RedisLayout::documented,
             redis::Reach reach = redis::Reach::one_slot);

  /// From now on the scripts run as they are, but for TIME, which says this: the only way to be at the edge
  /// of a millisecond on purpose.
  void freeze(std::int64_t now_ms) { frozen_ms_ = now_ms; }

  redis::Reply ask(const std::string& bytes);
  redis::Reply ask(const redis::RoutedCommand& command) { return ask(command.bytes); }

  /// A request that is one script. `found_at`: see LockLayout.
  template <class Request>
  Result<typename Request::Outcome> try_call(const Request& request, const std::string& found_at = {}) {
    const auto command = locks->command(request, found_at, redis::By::text);
    if (!command) return command.error();
    return locks->outcome(*ask(*command), request, found_at);
  }

  Result<AcquireOutcome> try_acquire(const LockId& id, std::string_view key,
                                     std::chrono::milliseconds length = std::chrono::seconds(60),
                                     std::optional<CounterLifetime> counter = {}, std::uint64_t floor = 0);
  /// The grant, or nothing if refused.
  std::optional<Granted> acquire(const LockId& id, std::string_view key,
                                 std::chrono::milliseconds length = std::chrono::seconds(60),
                                 std::optional<CounterLifetime> counter = {});
  Result<ReleaseOutcome> try_release(const LockId& id, std::optional<std::string> key = {},
                                     redis::Release how = redis::Release::plain);
  /// Empty: released.
  std::optional<Absence> release(const LockId& id, std::optional<std::string> key = {},
                                 redis::Release how = redis::Release::plain);
  Result<ExtendOutcome> try_extend(const LockId& id, std::optional<std::string> key = {},
                                   std::chrono::milliseconds length = std::chrono::seconds(60));
  Result<bool> try_is_locked(std::string_view key);
  Result<std::optional<LockRecord>> try_lookup(std::string_view key);
  Result<std::optional<LockRecord>> try_lookup(const LockId& id);
  Result<core::ReleaseEvidence> evidence(const LockId& id, std::string_view key);
  std::int64_t cleanup(std::string_view key);
  LockPage page(std::string cursor, std::size_t limit);

  /// The names of a key and an id in Redis.
  [[nodiscard]] std::string lock_key(std::string_view key) const;
  [[nodiscard]] std::string fence_key(std::string_view key) const;
  [[nodiscard]] std::string index_key(const LockId& id) const {
    return layout.index_key(id).value_or_throw();
  }

  RawRedis raw;
  const redis::Layout layout;
  const std::shared_ptr<const redis::LockLayout> locks;

 private:
  /// The hint for a lock id without a key, where the layout needs one.
  std::string found_at(const LockId& id, bool key_is_known);

  std::optional<std::int64_t> frozen_ms_;
};

}  // namespace holdfast::test
