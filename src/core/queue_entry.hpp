#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/storage_types.hpp>

namespace holdfast::core {

/// The state of a record in its queue, as an engine stores it.
struct QueueEntry {
  /// What readers see.
  QueueState state;
  /// The place among the ready records of one priority, and among the exhausted ones. 0: it had none yet.
  std::uint64_t sequence = 0;
  /// When the lease expires, on the clock of leases; zero unless it is leased.
  std::chrono::milliseconds lease_deadline = {};
  /// The latest lease_deadline that renewals can reach; zero if there is no limit.
  std::chrono::milliseconds attempt_deadline = {};
  /// When it became a dead letter; the epoch unless it is one.
  WallTime died_at = {};
};

}  // namespace holdfast::core
