#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/redis.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/certificates.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {

/// A master, its replicas and three sentinels, on loopback: started in about a second, dead with this object.
/// Functions throw std::runtime_error if the servers do not do as told.
class RedisSentinels {
 public:
  struct Options {
    std::size_t replicas = 2;
    /// Sentinels take a master for dead after this much silence. By default a loaded machine is not mistaken
    /// for a dead one; `pause_master` shortens it.
    std::chrono::milliseconds down_after = std::chrono::minutes(1);
    /// Sentinels look at their servers more often than Redis' own constants say, so that a failover takes
    /// about as long as `down_after`. Off: as in production. Redis before 7.0 ignores it.
    bool hurry = true;
    /// All connections use TLS, those between the servers too.
    bool tls = false;
    /// Of the servers' default user, and of the sentinels'.
    std::string password = {};
    std::string sentinel_password = {};
    /// More lines of redis.conf, for every server.
    std::vector<std::string> config = {};
  };
  static constexpr std::size_t sentinel_count = 3;
  static constexpr std::chrono::milliseconds soon_down{500};
  static constexpr const char* service = "holdfast-test";

  RedisSentinels() : RedisSentinels(Options{}) {}
  explicit RedisSentinels(Options options);

  /// How a client finds the master.
  [[nodiscard]] RedisOptions client() const;
  [[nodiscard]] std::string url() const;

  /// The master's number, as two of the sentinels name it; throws after some seconds if no two agree. In a
  /// failover that may still be the old one when clients already use the new one.
  [[nodiscard]] std::size_t master() const;
  [[nodiscard]] std::uint64_t epoch() const;
  [[nodiscard]] RedisServer& server(std::size_t number) { return *servers_.at(number); }
  [[nodiscard]] RedisServer& sentinel(std::size_t number) { return *sentinels_.at(number); }
  [[nodiscard]] std::size_t size() const { return servers_.size(); }

  /// Stops the master as a hung host does, and returns its number. Only then the sentinels wait no longer
  /// than `soon_down`: until then a server that a loaded machine delays is not taken for dead.
  std::size_t pause_master();
  /// An operator's planned failover.
  void fail_over();
  /// Returns the master's number when it is not `former`, and the replicas follow it.
  std::size_t wait_for_another_master(std::size_t former);
  /// Returns when every server that runs is the master or its replica, connected, and all sentinels know it.
  void settle();

 private:
  struct View {
    std::string port;
    std::uint64_t epoch;
    std::string flags;
    std::size_t replicas, sentinels;
  };
  [[nodiscard]] std::vector<View> views() const;
  /// The port at which clients and the others reach it.
  [[nodiscard]] std::uint16_t port_of(const RedisServer& server) const;
  [[nodiscard]] std::unique_ptr<RedisServer> start(RedisServer::Options options);
  void set_periods(const std::vector<std::string>& names_and_milliseconds);
  [[nodiscard]] bool is_settled() const;
  void wait(const std::string& what, const std::function<bool()>& done) const;

  Options options_;
  TempDir directory_;
  std::optional<CertificateAuthority> authority_;
  std::map<const RedisServer*, std::uint16_t> tls_ports_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<RedisServer>> sentinels_;
};

}  // namespace holdfast::test
