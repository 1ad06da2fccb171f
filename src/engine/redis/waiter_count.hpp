#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/lock_backend.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

/// Counts the subscribers of keys' channels, as a state machine like LockListing. Subscriptions by pattern,
/// of viewers, are not among them.
///
/// The waiters of a process subscribe at any master of a cluster, and a message reaches all: so each master
/// is asked, and the numbers are added.
class WaiterCount {
 public:
  using Page = WaiterCounts;

  WaiterCount(const Layout& names, const std::vector<LockKey>& keys, std::vector<std::uint32_t> masters = {});

  [[nodiscard]] std::optional<RoutedCommand> command(By) const;
  /// That `command` is for; empty: there is one server.
  [[nodiscard]] std::optional<std::uint32_t> master() const;
  /// A user without the right to ask knows no number.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] WaiterCounts page() && { return std::move(counts_); }

 private:
  std::vector<std::string> channels_;  ///< of the keys that have a name in Redis
  std::vector<std::size_t> places_;    ///< of these in `counts_`
  WaiterCounts counts_;
  std::vector<std::uint32_t> masters_;
  std::size_t asked_ = 0;  ///< masters
  bool done_;
};

}  // namespace holdfast::redis
