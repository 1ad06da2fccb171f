#pragma once

#include <functional>
#include <holdfast/change_feed.hpp>
#include <holdfast/done.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/conn/dialer.hpp"

namespace holdfast::redis {

/// The servers that together have all keys. `anew`: there may be others now; for later calls they are looked
/// for.
using AllServers = std::function<std::vector<std::shared_ptr<const Endpoint>>(bool anew)>;

/// What a KeyFeed follows.
struct TrackedKeys {
  /// Of the keys; not empty.
  std::string prefix;
  /// The meaning of a write of such a key; empty: none. Called by the feed's thread.
  std::function<std::optional<Change>(std::string_view name)> meaning_of;
  /// Called by the feed's thread, every second: a cluster gets other masters. Perhaps only the feed notices
  /// them, so it passes `anew` every ten seconds, and every second while a server is not heard.
  AllServers servers;
};

/// Opens a feed of the keys that are written, by any client: the servers report their names (KeyTracking). It
/// has a thread and one connection to each server, from its creation to its end; nothing is asked of those
/// that write. Null if a server refuses: one before Redis 6, or a user without the right.
///
/// If the reports exceed what TrackingBudget allows a server, the feed leaves it for half a minute, and
/// reports Change::Kind::anything when it is back; the same after a lost connection.
///
/// `done` is completed inline if a thread waits for it, else by the feed's thread: when all servers have
/// confirmed, one has refused, or after a while.
void open_key_feed(TrackedKeys keys, BootTime deadline, const std::stop_token& stop,
                   Done<std::unique_ptr<ChangeFeed>> done);

}  // namespace holdfast::redis
