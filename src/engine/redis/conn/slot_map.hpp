#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <cstdint>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/redis/conn/slot.hpp"

namespace holdfast::redis {

/// A master of a cluster that has slots.
struct ClusterMaster {
  std::string id;            ///< the cluster's name for it, 40 hex digits
  RedisAddress announced{};  ///< as the cluster names it
  RedisAddress address{};    ///< where to reach it from here
  /// Rises with every promotion, and with every slot that it takes over: by a majority's vote in a failover.
  std::uint64_t config_epoch = 0;
  std::size_t replicas = 0;  ///< that are not considered failed
  bool failed = false;       ///< the node that was asked, or the cluster, considers it failed
};

/// Which master has which slot, as one node of a cluster sees it. Pure.
///
/// Owners and epochs come from one text, the reply to CLUSTER NODES, so that an epoch never belongs to
/// another owner than the one that the same node saw. CLUSTER SLOTS only adds the addresses that clients
/// shall use (`cluster-preferred-endpoint-type`).
class SlotMap {
 public:
  /// `nodes` and `ranges` are the replies of the node at `asked` to CLUSTER NODES and CLUSTER SLOTS. An error
  /// reply is that Error; Internal for anything else that is no such reply.
  [[nodiscard]] static Result<SlotMap> from(const redisReply& nodes, const redisReply& ranges,
                                            const RedisAddress& asked,
                                            std::span<const RedisAnnouncement> connect_to);

  /// Null if no master has this slot.
  [[nodiscard]] const ClusterMaster* owner(std::uint16_t slot) const noexcept {
    return owners_[slot] == none ? nullptr : &masters_[owners_[slot]];
  }
  [[nodiscard]] const std::vector<ClusterMaster>& masters() const noexcept { return masters_; }
  [[nodiscard]] std::size_t slots_without_owner() const noexcept;
  /// Whether the node that was asked has sharded channels (Redis 7.0).
  [[nodiscard]] bool has_sharded_channels() const noexcept { return has_sharded_channels_; }

 private:
  static constexpr std::uint16_t none = 0xFFFF;
  SlotMap() { owners_.fill(none); }

  std::array<std::uint16_t, cluster_slots> owners_;
  std::vector<ClusterMaster> masters_;
  bool has_sharded_channels_ = false;
};

/// The config epoch that a master has itself, from its reply to CLUSTER INFO. Empty if it is no such reply.
[[nodiscard]] std::optional<std::uint64_t> own_epoch_in(const redisReply& info);

/// How many slots are on their way to the node that was asked, or from it, by its reply to CLUSTER NODES.
[[nodiscard]] std::size_t moving_slots_in(const redisReply& nodes);

/// The address to use for an announced one. An empty host is the host that was asked.
[[nodiscard]] RedisAddress reached_at(const RedisAddress& announced, const std::string& asked_host,
                                      std::span<const RedisAnnouncement> connect_to);

/// The host that the cluster announces for an address of the URL, as its certificate says: the URL may name
/// the end of a tunnel, which `connect_to` shows.
[[nodiscard]] const std::string& announced_for(const RedisAddress& in_url,
                                               std::span<const RedisAnnouncement> connect_to);

/// The options for one node of a cluster, which is announced under this host.
[[nodiscard]] RedisOptions node_options(const RedisOptions& cluster, const RedisAddress& address,
                                        const std::string& announced_host);

}  // namespace holdfast::redis
