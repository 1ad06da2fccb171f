#include <charconv>

#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_record.hpp"
#include "engine/redis/lock_replies.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use: before main, OpenSSL may not be ready, and an exception could not be caught.
struct DocumentedScripts {
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
const DocumentedScripts& scripts() {
  static const auto& all =
      *new DocumentedScripts;  // never destroyed: threads may still use it while the process exits
  return all;
}

/// A refusal with the label of the holder: `n,"holder":"..."}`. Empty if the text is another. A label that
/// cannot be used (empty, not UTF-8: other software wrote it) is left out: the lock is held all the same.
std::optional<Refused> labelled_refusal(std::string_view text) {
  std::int64_t left = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), left);
  const auto rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (failed != std::errc() || left <= 0 || !rest.starts_with(",\"holder\":")) return std::nullopt;
  Refused refusal{.free_in = std::chrono::milliseconds(left)};
  if (auto holder = holder_in(rest)) refusal.holder = std::make_shared<const LockHolder>(*std::move(holder));
  return refusal;
}

/// The layout of SyncGuard's documents: see docs/internals/redis.md.
class DocumentedLayout final : public LockLayout {
 public:
  DocumentedLayout(Layout names, Reach reach) : LockLayout(std::move(names)), reach_(reach) {}

  RoutedCommand read_store_id(std::string_view) const override {
    auto command = Command::begin("GET", 1);
    command.add_key(names().authority_key());
    return std::move(command).routed();
  }
  std::optional<RoutedCommand> create_store_id(std::string_view new_id) const override {
    auto command = Command::begin("SET", 3);
    command.add_key(names().authority_key()).add(new_id).add("NX");
    return std::move(command).routed();
  }
  bool authority_per_key() const noexcept override { return false; }

  Result<RoutedCommand> acquire(const AcquireRequest& request, const RememberedFence& floor,
                                By by) const override {
    const auto lock_key = names().lock_key(request.key);
    if (!lock_key) return about(lock_key.error(), request.subject());
    const auto fence_key = names().fence_key(*lock_key);
    if (!fence_key) return about(fence_key.error(), request.subject());
    const auto index_key = names().index_key(request.id);
    if (!index_key) return about(index_key.error(), request.subject());
    const auto& lifetime = request.counter_lifetime;
    auto command = call_script(scripts().acquire, by, 4, lifetime ? 5 : 4);
    command.add_key(*lock_key).add_key(*index_key).add_key(*fence_key).add_key(names().authority_key());
    command.add(request.id.str())
        .add(std::to_string(request.ttl.length().count()))
        .add(json_string(request.key) + holder_field(request.holder.get()))
        .add_fence_floor(floor);
    if (lifetime)
      command.add(lifetime->until ? std::to_string(core::to_ms(*lifetime->until)) : std::string());
    return std::move(command).routed();
  }

  Result<AcquireOutcome> acquired(const redisReply& reply, const AcquireRequest& request) const override {
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
        return about(Error(ErrorCode::Internal,
                           "the key in Redis that identifies this store (PREFIX:fence:PREFIX:) is empty; "
                           "delete it, and the next acquire creates a new one"),
                     request.subject());
      }
    }
    if (reply.type == REDIS_REPLY_STRING) {
      if (auto labelled = labelled_refusal(text_of(reply))) return *std::move(labelled);
    }
    const auto left = integer_of(reply);
    // The remaining time of a record whose expiresAtMs overflows an integer.
    if (left && *left < LockCode::counter_below_zero) return about(no_lock_record(), request.subject());
    if (left == 0) return Refused{};  // the documented script refuses so: the remaining time is unknown
    if (left && *left > 0) return Refused{.free_in = std::chrono::milliseconds(*left)};
    return refused(reply, request);
  }

  GrantDetails grant_details(const redisReply& reply) const override {
    const auto parts = elements_of(reply);
    const auto last = parts.size() == 5 ? integer_of(*parts[4]) : std::nullopt;
    if (!last) return {};
    if (*last < 0) return {.repeated = true};
    return {.low_counter = static_cast<std::uint64_t>(*last)};
  }

  Result<RoutedCommand> release(const LockRef& lock, std::string_view, Release how, By by) const override {
    const auto& script = how == Release::for_good   ? scripts().release_for_good
                         : how == Release::by_force ? scripts().release_by_force
                                                    : scripts().release;
    const std::size_t arguments = how == Release::for_good ? 2 : how == Release::by_force ? 3 : 1;
    auto command = on_held(script, lock, by, arguments);
    if (!command) return command.error();
    command->add(names().channel_prefix());
    if (arguments > 1) command->add(std::to_string(request_may_be_late.count()));
    if (how == Release::by_force) command->add(std::to_string(core::longest_break_mark.count()));
    return (*std::move(command)).routed();
  }

  bool relies_on_proofs() const noexcept override { return false; }

  Result<RoutedCommand> release_evidence(const LockRef& lock, std::string_view, By by) const override {
    const auto index_key = names().index_key(lock.id);
    if (!index_key) return about(index_key.error(), lock.subject());
    auto command = call_script(scripts().release_evidence, by, lock.key ? 3 : 2, 0);
    command.add_key(*index_key).add_key(names().authority_key());
    if (lock.key) {
      const auto lock_key = names().lock_key(*lock.key);
      if (!lock_key) return about(lock_key.error(), lock.subject());
      const auto fence_key = names().fence_key(*lock_key);
      if (!fence_key) return about(fence_key.error(), lock.subject());
      command.add_key(*fence_key);
    }
    return std::move(command).routed();
  }

  Result<core::ReleaseEvidence> evidence(const redisReply& reply, const LockRef& lock) const override {
    const auto parts = elements_of(reply);
    const auto broken = parts.size() == 3 ? integer_of(*parts[0]) : std::nullopt;
    if (!broken) return refused(reply, "release", lock.subject());
    core::ReleaseEvidence evidence{
        .broken = *broken == 1, .authority = std::string(text_of(*parts[1])), .counter = {}};
    if (lock.key) {
      // A counter that is not a number counts as lost.
      const auto text = text_of(*parts[2]);
      (void)std::from_chars(text.data(), text.data() + text.size(), evidence.counter.emplace(0));
    }
    return evidence;
  }

  Result<RoutedCommand> command(const ExtendRequest& request, std::string_view, By by) const override {
    const auto& holder = request.new_holder;
    auto command = on_held(scripts().extend, request.lock, by, holder ? 2 : 1);
    if (!command) return command.error();
    command->add(std::to_string(request.ttl.length().count()));
    if (holder) command->add(holder_field(holder->get()));
    return (*std::move(command)).routed();
  }
  Result<ExtendOutcome> outcome(const redisReply& reply, const ExtendRequest& request,
                                std::string_view) const override {
    return extend_outcome(reply, request);
  }

  Result<RoutedCommand> command(const IsLockedRequest& request, std::string_view, By by) const override {
    return on_key(scripts().is_locked, request.key, by);
  }
  Result<bool> outcome(const redisReply& reply, const IsLockedRequest& request,
                       std::string_view) const override {
    const auto code = integer_of(reply);
    if (code == 0 || code == 1) return code == 1;
    return refused(reply, request);
  }

  Result<RoutedCommand> command(const LookupRequest& request, std::string_view, By by) const override {
    if (const auto* key = std::get_if<LockKey>(&request.what)) return on_key(scripts().lookup, *key, by);
    const auto& id = std::get<LockId>(request.what);
    const auto index_key = names().index_key(id);
    if (!index_key) return about(index_key.error(), request.subject());
    auto command = finding(scripts().lookup, *index_key, by, 1);
    command.add(id.str());
    return std::move(command).routed();
  }
  Result<std::optional<LockRecord>> outcome(const redisReply& reply, const LookupRequest& request,
                                            std::string_view) const override {
    if (reply.type == REDIS_REPLY_NIL) return std::nullopt;
    if (reply.type != REDIS_REPLY_STRING) return refused(reply, request);
    auto record = parse_lock_record(text_of(reply));
    if (!record) return about(record.error(), request.subject());
    return *std::move(record);
  }

  Result<RoutedCommand> cleanup(const LockKey& key, By by) const override {
    const auto lock_key = names().lock_key(key);
    if (!lock_key) return lock_key.error().about(key.str(), {});
    auto command = finding(scripts().cleanup, *lock_key, by, 1);
    command.add(names().hashes_ids() ? std::string_view() : names().index_prefix());
    return std::move(command).routed();
  }

  /// Each grant increments the counter of its key, nothing else writes one, and the authority's name is the
  /// beginning of theirs. The name of a counter that ends in a hash does not begin so.
  std::string tracked_prefix() const override { return names().authority_key(); }
  std::optional<Change> tracked(std::string_view name) const override {
    if (!name.starts_with(names().authority_key()) || name == names().authority_key()) return std::nullopt;
    name.remove_prefix(names().authority_key().size());
    return Change{.kind = Change::Kind::acquired, .key = std::string(name)};
  }

  std::string_view type() const noexcept override { return "string"; }

  bool finds_ids_by_hint() const noexcept override { return false; }

  Error explained(const redisReply& reply, Error error) const override {
    if (!is_wrong_type(reply)) return error;
    return Error(error.code(),
                 error.message() +
                     ". If other programs use this prefix with layout=native, use that, or "
                     "another lock_prefix",
                 error.cause())
        .about(error.key(), error.lock_id());
  }

 private:
  /// A call of a script that finds further keys in the data. On a cluster it asks for them: the key is
  /// repeated, so that they come third. Elsewhere it reaches them, and a single key says so
  /// (parts/declared.lua).
  [[nodiscard]] Command finding(const Script& script, std::string_view key, By by,
                                std::size_t arguments) const {
    const bool asks = reach_ == Reach::one_slot;
    auto command = call_script(script, by, asks ? 2 : 1, arguments);
    command.add_key(key);
    if (asks) command.add_key(key);
    return command;
  }

  /// A call about the lock that an id holds: the index key, and the lock key if it is known.
  [[nodiscard]] Result<Command> on_held(const Script& script, const LockRef& lock, By by,
                                        std::size_t arguments) const {
    const auto index_key = names().index_key(lock.id);
    if (!index_key) return about(index_key.error(), lock.subject());
    if (!lock.key) {
      auto command = finding(script, *index_key, by, 1 + arguments);
      command.add(lock.id.str());
      return command;
    }
    const auto lock_key = names().lock_key(*lock.key);
    if (!lock_key) return about(lock_key.error(), lock.subject());
    auto command = call_script(script, by, 2, 1 + arguments);
    command.add_key(*index_key).add_key(*lock_key).add(lock.id.str());
    return command;
  }

  const Script& records_script() const override { return scripts().records; }
  std::optional<LockRecord> read_record(const redisReply& value, std::string_view) const override {
    if (value.type != REDIS_REPLY_STRING) return std::nullopt;
    auto record = parse_lock_record(text_of(value));
    return record ? std::optional(*std::move(record)) : std::nullopt;
  }

  const Reach reach_;
};

}  // namespace

std::shared_ptr<const LockLayout> documented_layout(Layout names, Reach reach) {
  return std::make_shared<DocumentedLayout>(std::move(names), reach);
}

}  // namespace holdfast::redis
