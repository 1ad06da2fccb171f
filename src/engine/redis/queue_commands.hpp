#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <string>
#include <string_view>

#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

// Each operation on a queue: builds its command and interprets its reply, as record_commands.hpp does.
// docs/internals/queues.md explains them.

/// What a queue's scripts need to know of this process.
struct QueueClient {
  const StorageLayout& layout;
  /// The kind of its channels: see parts/queue_wake.lua.
  std::string_view channels;
  /// A name of this process, or of this client in it: 22 characters of base64url.
  std::string_view process;
};

/// What identifies one claim of a process, so that a second copy of it claims nothing.
struct ClaimCall {
  /// Distinguishes the claims of this process that are under way at the same time.
  std::uint32_t slot = 0;
  /// Rises with each claim of this process.
  std::uint64_t number = 0;
  /// Whether the process waits for the queue: see parts/queue_take.lua.
  std::string_view waiting;
};

/// The answer to a claim.
struct ClaimAnswer {
  ClaimedRecords records;
  /// Another waiter of this process should be woken.
  bool wakes_another = false;
};

[[nodiscard]] RoutedCommand queue_create_command(const QueueClient& client, const CreateRecord& request,
                                                 const std::string& id, By by);

[[nodiscard]] RoutedCommand claim_command(const QueueClient& client, const ClaimNext& request,
                                          const ClaimCall& call, By by);
[[nodiscard]] Result<ClaimAnswer> claim_outcome(const redisReply& reply, const ClaimNext& request);

[[nodiscard]] RoutedCommand claim_task_command(const QueueClient& client, const ClaimRecord& request,
                                               const std::string& id, By by);
[[nodiscard]] Result<ClaimOutcome> claim_task_outcome(const redisReply& reply, const ClaimRecord& request);

[[nodiscard]] RoutedCommand renew_command(const QueueClient& client, const RenewLeases& request, By by);
[[nodiscard]] Result<RenewLeases::Outcome> renew_outcome(const redisReply& reply, const RenewLeases& request);

/// The answer to the end of a lease.
struct EndAnswer {
  EndedLease ended;
  bool wakes_another = false;  ///< as ClaimAnswer
};
/// A record keeps the ids of this many of its last ends that left it in its queue (queue_end.lua).
inline constexpr std::uint64_t remembered_ends = 8;
/// The error for an end that was carried out, or may have been, with a result that is forgotten.
[[nodiscard]] Error forgotten_end(const RecordKey& key);
/// `call` is used only if the request claims the next record too.
[[nodiscard]] RoutedCommand end_command(const QueueClient& client, const EndLease& request,
                                        const std::string& id, const ClaimCall& call, By by);
[[nodiscard]] Result<EndAnswer> end_outcome(const redisReply& reply, const EndLease& request);

/// A put of a record that leaves its queue, or that has left it.
[[nodiscard]] RoutedCommand queue_put_command(const QueueClient& client, const PutRecord& request,
                                              const std::string& id, By by);
[[nodiscard]] Result<PutOutcome> queue_put_outcome(const redisReply& reply, const PutRecord& request);
/// Whether a put was refused because it must be sent as queue_put_command.
[[nodiscard]] bool is_put_of_queue(const redisReply& reply);

[[nodiscard]] RoutedCommand count_command(const QueueClient& client, const CountQueue& request, By by);
[[nodiscard]] RoutedCommand configure_command(const QueueClient& client, const ConfigureQueue& request,
                                              By by);
[[nodiscard]] Result<QueueCounts> count_outcome(const redisReply& reply, std::string_view owner);

}  // namespace holdfast::redis
