#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <cstdint>
#include <holdfast/change_feed.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/redis.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/repeated_release.hpp"
#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

/// How long a request may still reach the server after its connection was given up: the connection was reset,
/// so bytes in the network or in the server's kernel are not delivered after this. For this long, the release
/// of an unanswered acquire keeps that acquire from being granted, and the mark of a break outlives the
/// lease.
inline constexpr std::chrono::milliseconds request_may_be_late = std::chrono::seconds(60);

enum class Release : std::uint8_t {
  plain,
  /// By a holder whose proof holds, on a layout that relies on it (LockLayout::relies_on_proofs).
  proven,
  /// For an id with an unanswered acquire: leaves a tombstone.
  for_good,
  /// By an operator: leaves a mark.
  by_force,
};

/// What a reply that grants a lock says beyond its outcome.
struct GrantDetails {
  bool repeated = false;  ///< the id held the lock already: the script has written nothing
  /// The fence counter before the grant, if it was below one of the floors.
  std::optional<std::uint64_t> low_counter = std::nullopt;
};

/// Whether a hint replaces one that is there.
enum class Hint : std::uint8_t { if_absent, in_any_case };

/// Whether a request of the lock contract is one script in every layout. The others are not scripts, or
/// LockLayout names their functions.
template <class Request>
inline constexpr bool is_one_script = true;
template <>
inline constexpr bool is_one_script<AcquireRequest> = false;
template <>
inline constexpr bool is_one_script<ReleaseRequest> = false;
template <>
inline constexpr bool is_one_script<ListRequest> = false;
template <>
inline constexpr bool is_one_script<WaitersRequest> = false;
template <>
inline constexpr bool is_one_script<WatchRequest> = false;
template <>
inline constexpr bool is_one_script<FollowLocks> = false;

/// The functions of a layout for the requests that are one script: a pair for each of them, so that a layout
/// which lacks one does not compile.
template <class Operations>
class OneScriptRequests;

/// The end of the recursion over the request types.
template <>
class OneScriptRequests<Contract<>> {
 public:
  OneScriptRequests() = default;
  OneScriptRequests(const OneScriptRequests&) = delete;
  OneScriptRequests& operator=(const OneScriptRequests&) = delete;
  virtual ~OneScriptRequests() = default;
  // Names for derived classes to inherit; never called.
  void command() = delete;
  void outcome() = delete;
};

template <class First, class... Rest>
class OneScriptRequests<Contract<First, Rest...>> : public OneScriptRequests<Contract<Rest...>> {};

template <class First, class... Rest>
  requires is_one_script<First>
class OneScriptRequests<Contract<First, Rest...>> : public OneScriptRequests<Contract<Rest...>> {
 public:
  using OneScriptRequests<Contract<Rest...>>::command;
  using OneScriptRequests<Contract<Rest...>>::outcome;
  [[nodiscard]] virtual Result<RoutedCommand> command(const First& request, std::string_view found_at,
                                                      By by) const = 0;
  [[nodiscard]] virtual Result<typename First::Outcome> outcome(const redisReply& reply, const First& request,
                                                                std::string_view found_at) const = 0;
};

/// How locks are kept in Redis: their names, the scripts that change them, the meaning of the replies, and
/// how they are listed. Has no state and does no I/O; the engine sends the commands.
///
/// Each pair of functions is one operation of the lock contract: the first builds its command, the second
/// interprets the reply. Most pairs are `command` and `outcome`, overloaded by the request. A command is
/// refused with InvalidArgument for a reserved key. An error reply, or one that the script cannot return,
/// becomes an Error that carries the request's key and lock id.
///
/// `found_at` is the name of the lock in Redis, for a request that knows only the lock id on a layout that
/// `finds_ids_by_hint`; else it is empty.
class LockLayout : public OneScriptRequests<LockBackend::Operations> {
 public:
  /// The layout that the options name. InvalidArgument for an invalid prefix.
  [[nodiscard]] static Result<std::shared_ptr<const LockLayout>> make(const RedisOptions& options,
                                                                      Channels channels);

  [[nodiscard]] const Layout& names() const noexcept { return names_; }

  /// The id of the store (LockBackend::authority): reads it, or creates it from this one. Two commands, of
  /// which the second is needed if the first found none; then the first again. The same if there is only one.
  [[nodiscard]] virtual RoutedCommand read_store_id(std::string_view new_id) const = 0;
  [[nodiscard]] virtual std::optional<RoutedCommand> create_store_id(std::string_view new_id) const = 0;
  /// Whether each key has an authority of its own (Capabilities::authority_per_key).
  [[nodiscard]] virtual bool authority_per_key() const noexcept = 0;

  /// `floor`: the fence is above this; the connection may raise it.
  [[nodiscard]] virtual Result<RoutedCommand> acquire(const AcquireRequest& request,
                                                      const RememberedFence& floor, By by) const = 0;
  [[nodiscard]] virtual Result<AcquireOutcome> acquired(const redisReply& reply,
                                                        const AcquireRequest& request) const = 0;

  /// Requires that `reply` granted a lock.
  [[nodiscard]] virtual GrantDetails grant_details(const redisReply& reply) const = 0;

  [[nodiscard]] virtual Result<RoutedCommand> release(const LockRef& lock, std::string_view found_at,
                                                      Release how, By by) const = 0;
  [[nodiscard]] Result<ReleaseOutcome> released(const redisReply& reply, const LockRef& lock) const;
  /// Whether Release::proven does not check the expiry, which is cheaper. Then the proof must be checked
  /// again when the answer is there: if it holds, the lease had not expired.
  [[nodiscard]] virtual bool relies_on_proofs() const noexcept = 0;

  /// Reads the evidence whether a release that was sent more than once released the lock.
  [[nodiscard]] virtual Result<RoutedCommand> release_evidence(const LockRef& lock, std::string_view found_at,
                                                               By by) const = 0;
  [[nodiscard]] virtual Result<core::ReleaseEvidence> evidence(const redisReply& reply,
                                                               const LockRef& lock) const = 0;

  /// Removes what is left of a lock that expired more than two seconds ago; its reply is ignored.
  [[nodiscard]] virtual Result<RoutedCommand> cleanup(const LockKey& key, By by) const = 0;

  /// The beginning of the names that a grant writes: the narrower, the less a server reports to a feed that
  /// tracks them (KeyFeed). Empty: too many others begin so.
  [[nodiscard]] virtual std::string tracked_prefix() const = 0;
  /// What a write of a key with this name means, which begins so; empty: nothing.
  [[nodiscard]] virtual std::optional<Change> tracked(std::string_view name) const = 0;

  /// The type of the value at a lock key, as SCAN names it.
  [[nodiscard]] virtual std::string_view type() const noexcept = 0;
  /// Reads the locks at these lock keys (the names in Redis). On a cluster, all must be in one slot.
  [[nodiscard]] RoutedCommand records(std::span<const std::string> lock_keys, By by) const;
  /// The live locks among them that belong to this prefix, in that order.
  [[nodiscard]] Result<std::vector<LockRecord>> listed(const redisReply& reply,
                                                       std::span<const std::string> lock_keys) const;

  /// Whether a lock id alone does not lead a script to its lock, because the two may be in different slots of
  /// a cluster. Then the engine keeps a hint, `read_hint` finds the name of the lock, and the script that is
  /// sent there verifies it. A hint is written only for locks that outlive their process
  /// (Durability::machine): their id travels alone.
  [[nodiscard]] virtual bool finds_ids_by_hint() const noexcept = 0;
  [[nodiscard]] Result<RoutedCommand> read_hint(const LockId& id) const;
  /// The name of the lock; empty if there is no hint.
  [[nodiscard]] Result<std::string> hint(const redisReply& reply, const LockId& id) const;
  /// A hint outlives its lease somewhat: the two may be on different servers.
  /// Its reply is nil if there is one, and it was not to be replaced.
  [[nodiscard]] Result<RoutedCommand> write_hint(const LockId& id, std::string_view lock_key, Ttl ttl,
                                                 Hint how) const;
  [[nodiscard]] Result<RoutedCommand> drop_hint(const LockId& id) const;

  /// Explains an error if its cause is that the prefix is used with the other layout.
  [[nodiscard]] virtual Error explained(const redisReply& reply, Error error) const = 0;

 protected:
  explicit LockLayout(Layout names) : names_(std::move(names)) {}

  /// The script of `records`, and a record that it read at a lock key; empty if there is no valid one.
  [[nodiscard]] virtual const Script& records_script() const = 0;
  [[nodiscard]] virtual std::optional<LockRecord> read_record(const redisReply& value,
                                                              std::string_view lock_key) const = 0;

  /// A call about the value at a lock key.
  [[nodiscard]] Result<RoutedCommand> on_key(const Script& script, const LockKey& key, By by) const;

  /// The outcome of an extend, which both layouts return alike.
  [[nodiscard]] Result<ExtendOutcome> extend_outcome(const redisReply& reply,
                                                     const ExtendRequest& request) const;

  /// The error for a reply that is not an outcome of the operation.
  [[nodiscard]] Error refused(const redisReply& reply, std::string_view operation,
                              const RequestSubject& about) const;
  template <class Request>
  [[nodiscard]] Error refused(const redisReply& reply, const Request& request) const {
    return refused(reply, to_string(request.activity()), request.subject());
  }

 private:
  const Layout names_;
};

/// The layout that the options name, or the default of their topology.
[[nodiscard]] RedisLayout layout_of(const RedisOptions& options) noexcept;
/// The channels that a store of these options uses if its servers have them. Sharded ones need a channel in
/// the slot of the key, which the documented layout does not have. `member`: the options are those of one
/// node of a cluster.
[[nodiscard]] Channels channels_of(const RedisOptions& options, bool member = false) noexcept;

/// Which keys a script can reach. On a cluster: those of one slot, which its call declares.
enum class Reach : std::uint8_t { one_slot, every_key };
[[nodiscard]] std::shared_ptr<const LockLayout> documented_layout(Layout names,
                                                                  Reach reach = Reach::one_slot);
[[nodiscard]] std::shared_ptr<const LockLayout> native_layout(Layout names, Reach reach = Reach::one_slot);

}  // namespace holdfast::redis
