#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/redis.hpp>
#include <memory>
#include <string>
#include <vector>

#include "support/redis_server.hpp"

namespace holdfast::test {

/// A real Redis Cluster on loopback: three masters with a third of the slots each, and a replica of each on
/// request. The config epochs of the masters are 1, 2, 3. Ready for writes when it is made; stopped with this
/// object. Functions throw std::runtime_error if the cluster does not obey in time.
class RedisCluster {
 public:
  static constexpr std::size_t masters = 3;
  static constexpr std::uint16_t slots = 16384;

  struct Options {
    /// Node 3 is a replica of node 0, 4 of 1, 5 of 2.
    bool replicas = false;
    /// After this a silent node counts as failed, and its replica asks for votes.
    std::chrono::milliseconds node_timeout = std::chrono::seconds(1);
    /// More lines of every node's redis.conf.
    std::vector<std::string> config = {};
  };

  RedisCluster() : RedisCluster(Options{}) {}
  explicit RedisCluster(const Options& options);

  /// How to reach it: every node is named.
  [[nodiscard]] RedisOptions options() const;
  [[nodiscard]] std::string url() const;

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] RedisServer& node(std::size_t index) { return *nodes_.at(index); }
  [[nodiscard]] const std::string& id(std::size_t index) const { return ids_.at(index); }

  /// By the server's own arithmetic.
  [[nodiscard]] std::uint16_t slot_of(const std::string& key);
  /// The master of a slot, according to this node.
  [[nodiscard]] std::size_t owner_of(std::uint16_t slot, std::size_t according_to = 0);
  [[nodiscard]] std::size_t owner_of_key(const std::string& key) { return owner_of(slot_of(key)); }

  /// The steps of a migration, as redis-cli takes them.
  void begin_migration(std::uint16_t slot, std::size_t from, std::size_t to);
  void move_keys(std::uint16_t slot, std::size_t from, std::size_t to);
  void end_migration(std::uint16_t slot, std::size_t from, std::size_t to);
  void migrate(std::uint16_t slot, std::size_t from, std::size_t to) { migrate_slots(slot, 1, from, to); }

  /// Moves that many slots, one after the other, from this one on.
  void migrate_slots(std::uint16_t first, int count, std::size_t from, std::size_t to);

  /// A planned failover: returns when this replica is the master.
  void fail_over_to(std::size_t replica);
  /// Returns when the masters would vote again: they do so for the replicas of one master no more often than
  /// every two node timeouts, and an election that fails keeps the old master from serving for seconds.
  void allow_next_failover();
  [[nodiscard]] bool is_master(std::size_t index);
  /// Returns when this node considers the cluster usable.
  void wait_until_ok(std::size_t according_to);

 private:
  struct Migration;
  [[nodiscard]] Migration migration(std::size_t from, std::size_t to);
  void await(const std::string& what, const std::function<bool()>& condition);

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::string> ids_;
  std::chrono::milliseconds node_timeout_;
};

}  // namespace holdfast::test
