#include <array>
#include <cstdio>

#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_replies.hpp"
#include "engine/redis/native_state.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use: before main, OpenSSL may not be ready, and an exception could not be caught.
struct NativeScripts {
  Script open{embedded::native_open_lua};
  Script acquire{embedded::native_acquire_lua};
  Script release{embedded::native_release_lua};
  Script release_proven{embedded::native_release_proven_lua};
  Script release_for_good{embedded::native_release_for_good_lua};
  Script release_by_force{embedded::native_break_lua};
  Script release_evidence{embedded::native_release_evidence_lua};
  Script extend{embedded::native_extend_lua};
  Script lookup{embedded::native_lookup_lua};
  Script cleanup{embedded::native_cleanup_lua};
  Script records{embedded::native_records_lua};
};
const NativeScripts& native_scripts() {
  static const auto& all =
      *new NativeScripts;  // never destroyed: threads may still use it while the process exits
  return all;
}

/// One hash per lock; every script touches one key, except that an acquire looks for SyncGuard's counter if
/// the hash does not exist, where that counter is in reach. See docs/internals/redis-native.md.
class NativeLayout final : public LockLayout {
 public:
  NativeLayout(Layout names, Reach reach) : LockLayout(std::move(names)), reach_(reach) {}

  RoutedCommand read_store_id(std::string_view new_id) const override {
    auto command = call_script(native_scripts().open, By::text, 1, 1);
    command.add_key(names().authority_key()).add(new_id);
    return std::move(command).routed();
  }
  std::optional<RoutedCommand> create_store_id(std::string_view) const override { return std::nullopt; }
  bool authority_per_key() const noexcept override { return true; }

  Result<RoutedCommand> acquire(const AcquireRequest& request, const RememberedFence& floor,
                                By by) const override {
    const auto lock_key = names().lock_key(request.key);
    if (!lock_key) return lock_key.error().about(request.key.str(), request.id.str());
    // A lock whose hint could not be named afterwards is not acquired.
    if (const auto hint = names().index_key(request.id); !hint) return about(hint.error(), request.subject());
    // Without it the script is a twentieth faster.
    const auto counter = floor.key_exists ? std::string() : counter_in_reach(*lock_key);
    if (!counter) return about(counter.error(), request.subject());
    const auto& lifetime = request.counter_lifetime;
    auto command = call_script(native_scripts().acquire, by, counter->empty() ? 1 : 2, lifetime ? 5 : 4);
    command.add_key(*lock_key);
    if (!counter->empty()) command.add_key(*counter);
    command.add(request.id.str()).add(std::to_string(request.ttl.length().count()));
    command.add(NativeState::key_part(*lock_key, names().prefix_bytes(), request.key, request.holder.get()));
    command.add_fence_floor(floor);
    if (lifetime)
      command.add(lifetime->until ? std::to_string(core::to_ms(*lifetime->until)) : std::string());
    return std::move(command).routed();
  }

  Result<AcquireOutcome> acquired(const redisReply& reply, const AcquireRequest& request) const override {
    const auto parts = elements_of(reply);
    const auto& granted = parts.empty() ? reply : *parts[0];
    const auto state = NativeState::parse(text_of(granted));
    const auto fence = state && state->counter != 0 && state->holder && state->holder->id == request.id.str()
                           ? std::optional(Fence::of(state->counter))
                           : std::nullopt;
    if (fence && *fence) {
      return Granted{.fence = **fence,
                     .expires_at = core::from_ms(state->holder->expires_ms),
                     .authority = state->authority};
    }
    if (reply.type == REDIS_REPLY_STRING) {
      if (auto labelled = native_refusal(text_of(reply))) return *std::move(labelled);
    }
    const auto left = integer_of(reply);
    if (left && *left > 0) return Refused{.free_in = std::chrono::milliseconds(*left)};
    return refused(reply, request);
  }

  GrantDetails grant_details(const redisReply& reply) const override {
    const auto parts = elements_of(reply);
    if (parts.empty()) return {};
    const auto before = parts.size() == 2 ? integer_of(*parts[1]) : std::nullopt;
    if (!before) return {.repeated = true};
    return {.low_counter = static_cast<std::uint64_t>(*before)};
  }

  Result<RoutedCommand> release(const LockRef& lock, std::string_view found_at, Release how,
                                By by) const override {
    const auto lock_key = name_of(lock, found_at);
    if (!lock_key) return lock_key.error();
    const auto& script = how == Release::plain      ? native_scripts().release
                         : how == Release::proven   ? native_scripts().release_proven
                         : how == Release::for_good ? native_scripts().release_for_good
                                                    : native_scripts().release_by_force;
    const std::size_t more = how == Release::for_good ? 1 : how == Release::by_force ? 2 : 0;
    const auto counter = how == Release::for_good ? counter_in_reach(*lock_key) : std::string();
    if (!counter) return about(counter.error(), lock.subject());
    auto command = call_script(script, by, counter->empty() ? 1 : 2, 2 + more);
    command.add_key(*lock_key);
    if (!counter->empty()) command.add_key(*counter);
    command.add(lock.id.str()).add(names().channel(*lock_key));
    if (more != 0) command.add(std::to_string(request_may_be_late.count()));
    if (how == Release::by_force) command.add(std::to_string(core::longest_break_mark.count()));
    return std::move(command).routed();
  }

  bool relies_on_proofs() const noexcept override { return true; }

  Result<RoutedCommand> release_evidence(const LockRef& lock, std::string_view found_at,
                                         By by) const override {
    const auto lock_key = name_of(lock, found_at);
    if (!lock_key) return lock_key.error();
    auto command = call_script(native_scripts().release_evidence, by, 1, 1);
    command.add_key(*lock_key).add(lock.id.str());
    return std::move(command).routed();
  }

  Result<core::ReleaseEvidence> evidence(const redisReply& reply, const LockRef& lock) const override {
    const auto parts = elements_of(reply);
    const auto broken = parts.size() == 2 ? integer_of(*parts[0]) : std::nullopt;
    if (!broken) return refused(reply, "release", lock.subject());
    core::ReleaseEvidence evidence{.broken = *broken == 1, .authority = {}, .counter = 0};
    // A counter that cannot be read counts as lost.
    if (auto state = NativeState::parse(text_of(*parts[1]))) {
      evidence.authority = std::move(state->authority);
      evidence.counter = state->counter;
    }
    return evidence;
  }

  Result<RoutedCommand> command(const ExtendRequest& request, std::string_view found_at,
                                By by) const override {
    const auto lock_key = name_of(request.lock, found_at);
    if (!lock_key) return lock_key.error();
    const auto& label = request.new_holder;
    auto command = call_script(native_scripts().extend, by, 1, label ? 3 : 2);
    command.add_key(*lock_key).add(request.lock.id.str()).add(std::to_string(request.ttl.length().count()));
    if (label) command.add(*label ? (*label)->str() : std::string());
    return std::move(command).routed();
  }
  Result<ExtendOutcome> outcome(const redisReply& reply, const ExtendRequest& request,
                                std::string_view) const override {
    return extend_outcome(reply, request);
  }

  Result<RoutedCommand> command(const IsLockedRequest& request, std::string_view, By by) const override {
    return on_key(native_scripts().lookup, request.key, by);
  }
  Result<bool> outcome(const redisReply& reply, const IsLockedRequest& request,
                       std::string_view) const override {
    if (reply.type == REDIS_REPLY_NIL) return false;
    if (reply.type == REDIS_REPLY_STRING) return true;
    return refused(reply, request);
  }

  Result<RoutedCommand> command(const LookupRequest& request, std::string_view found_at,
                                By by) const override {
    if (const auto* key = std::get_if<LockKey>(&request.what)) {
      return on_key(native_scripts().lookup, *key, by);
    }
    auto command = call_script(native_scripts().lookup, by, 1, 0);
    command.add_key(found_at);
    return std::move(command).routed();
  }
  Result<std::optional<LockRecord>> outcome(const redisReply& reply, const LookupRequest& request,
                                            std::string_view found_at) const override {
    if (reply.type == REDIS_REPLY_NIL) return std::nullopt;
    if (reply.type != REDIS_REPLY_STRING) return refused(reply, request);
    const auto* key = std::get_if<LockKey>(&request.what);
    auto record =
        native_record(text_of(reply), key != nullptr ? names().lock_key(*key).value_or_throw() : found_at);
    if (!record) return about(no_lock_record(), request.subject());
    // The hint may be of an earlier time: the lock has the last word.
    if (key == nullptr && record->id != std::get<LockId>(request.what)) return std::nullopt;
    return record;
  }

  Result<RoutedCommand> cleanup(const LockKey& key, By by) const override {
    return on_key(native_scripts().cleanup, key, by);
  }

  /// A lock is one key, which everything writes. Without a prefix that would be all keys of the server.
  std::string tracked_prefix() const override {
    return names().prefix().empty() ? std::string() : std::string(names().prefix()) + ':';
  }
  std::optional<Change> tracked(std::string_view name) const override {
    const auto key = names().after_prefix(name);
    if (!key) return std::nullopt;
    return Change{.kind = Change::Kind::written, .key = std::string(*key)};
  }

  std::string_view type() const noexcept override { return "hash"; }

  bool finds_ids_by_hint() const noexcept override { return true; }

  Error explained(const redisReply& reply, Error error) const override {
    if (!is_wrong_type(reply)) return error;
    return Error(error.code(),
                 "the lock prefix \"" + std::string(names().prefix()) +
                     "\" is used with layout=documented, or by SyncGuard; use that layout, or another "
                     "lock_prefix for layout=native",
                 error.cause())
        .about(error.key(), error.lock_id());
  }

 private:
  [[nodiscard]] Result<std::string> name_of(const LockRef& lock, std::string_view found_at) const {
    if (!lock.key) return std::string(found_at);
    auto lock_key = names().lock_key(*lock.key);
    if (!lock_key) return lock_key.error().about(lock.key->str(), lock.id.str());
    return lock_key;
  }

  const Script& records_script() const override { return native_scripts().records; }
  std::optional<LockRecord> read_record(const redisReply& value, std::string_view lock_key) const override {
    return native_record(text_of(value), lock_key);
  }

  /// The counter that the documented layout would have for this lock key; empty if it may be in another slot.
  [[nodiscard]] Result<std::string> counter_in_reach(std::string_view lock_key) const {
    if (reach_ == Reach::one_slot) return std::string();
    return names().fence_key(lock_key);
  }

  const Reach reach_;
};

}  // namespace

std::shared_ptr<const LockLayout> native_layout(Layout names, Reach reach) {
  return std::make_shared<NativeLayout>(std::move(names), reach);
}

}  // namespace holdfast::redis
