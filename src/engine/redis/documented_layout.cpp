#include "engine/redis/errors.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// The layout of SyncGuard's documents: see lock_commands.hpp and docs/internals/redis.md.
class DocumentedLayout final : public LockLayout {
 public:
  explicit DocumentedLayout(Layout names) : LockLayout(std::move(names)) {}

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
    return acquire_command(names(), request, floor, by);
  }
  Result<AcquireOutcome> acquired(const redisReply& reply, const AcquireRequest& request) const override {
    return with_explanation(reply, acquire_outcome(reply, request));
  }
  GrantDetails grant_details(const redisReply& reply) const override { return redis::grant_details(reply); }
  Result<RoutedCommand> release(const LockRef& lock, std::string_view, Release how, By by) const override {
    return release_command(names(), lock, how, by);
  }
  Result<ReleaseOutcome> released(const redisReply& reply, const LockRef& lock) const override {
    return with_explanation(reply, release_outcome(reply, lock));
  }
  bool relies_on_proofs() const noexcept override { return false; }
  Result<RoutedCommand> release_evidence(const LockRef& lock, std::string_view, By by) const override {
    return release_evidence_command(names(), lock, by);
  }
  Result<core::ReleaseEvidence> evidence(const redisReply& reply, const LockRef& lock) const override {
    return redis::release_evidence(reply, lock);
  }
  Result<RoutedCommand> extend(const ExtendRequest& request, std::string_view, By by) const override {
    return extend_command(names(), request, by);
  }
  Result<ExtendOutcome> extended(const redisReply& reply, const LockRef& lock) const override {
    return with_explanation(reply, extend_outcome(reply, lock));
  }
  Result<RoutedCommand> is_locked(const LockKey& key, By by) const override {
    return is_locked_command(names(), key, by);
  }
  Result<bool> was_locked(const redisReply& reply, const LockKey& key) const override {
    return with_explanation(reply, is_locked_outcome(reply, key));
  }
  Result<RoutedCommand> lookup(const LookupRequest& request, std::string_view, By by) const override {
    return lookup_command(names(), request, by);
  }
  Result<std::optional<LockRecord>> looked_up(const redisReply& reply, const LookupRequest& request,
                                              std::string_view) const override {
    return with_explanation(reply, lookup_outcome(reply, request));
  }
  Result<RoutedCommand> cleanup(const LockKey& key, By by) const override {
    return cleanup_command(names(), key, by);
  }
  std::string_view type() const noexcept override { return "string"; }
  RoutedCommand records(std::span<const std::string> lock_keys, By by) const override {
    return records_command(lock_keys, by);
  }
  Result<std::vector<LockRecord>> listed(const redisReply& reply,
                                         std::span<const std::string> lock_keys) const override {
    return records_outcome(reply, names(), lock_keys);
  }
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
  template <class Outcome>
  Result<Outcome> with_explanation(const redisReply& reply, Result<Outcome> outcome) const {
    if (outcome || !is_error(reply)) return outcome;
    return explained(reply, outcome.error());
  }
};

}  // namespace

std::shared_ptr<const LockLayout> documented_layout(Layout names) {
  return std::make_shared<DocumentedLayout>(std::move(names));
}

}  // namespace holdfast::redis
