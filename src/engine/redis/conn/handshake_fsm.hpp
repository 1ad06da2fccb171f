#pragma once

#include <cstdint>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// Which kinds of server are accepted.
enum class Servers : std::uint8_t {
  standalone,  ///< those that can hold locks: neither a Sentinel nor a member of a cluster
  master,      ///< the same, and not a replica: sentinels lead to it
  sentinel,
  cluster,  ///< members of a cluster
  any,      ///< for the doctor, which examines them
};

/// The handshake of a new connection: credentials, database, client name. All commands are sent at once, then
/// the replies are checked in order. Each must be one that Redis gives: another service at that address, or
/// one that echoes our bytes, is not mistaken for Redis. Pure.
class Handshake {
 public:
  explicit Handshake(const RedisOptions& options, Servers servers = Servers::standalone);

  /// The bytes to send, once.
  [[nodiscard]] const std::string& request() const noexcept { return request_; }
  /// True when all replies are in and the connection can be used. An error ends it: AuthFailed for wrong
  /// credentials, InvalidArgument for a server of a kind that cannot be used, ServiceUnavailable for a
  /// service that is not Redis and for a replica in place of a master, else the server's error (LOADING,
  /// BUSY, no such database, ...).
  [[nodiscard]] Result<bool> on_reply(const redisReply& reply);

 private:
  enum class Step : std::uint8_t { authenticate, mode, name, select, ping };
  void ask(Step step, const Command& command);
  /// The error that a normal reply means, and that an error reply means; empty if it is acceptable.
  [[nodiscard]] std::optional<Error> judge(Step step, const redisReply& reply) const;
  [[nodiscard]] std::optional<Error> judge_error(Step step, const redisReply& reply) const;
  /// For a missing password.
  [[nodiscard]] std::string where_to_put_it() const;
  [[nodiscard]] std::optional<Error> judge_mode(const redisReply& reply) const;
  [[nodiscard]] std::optional<Error> judge_kind(std::string_view mode, std::string_view role) const;

  std::string request_;
  std::vector<Step> waiting_;  ///< in the order of the replies
  std::size_t answered_ = 0;
  std::uint32_t db_;
  bool user_without_password_;
  std::string credentials_;  ///< for error messages; never the password
  Servers servers_;
};

}  // namespace holdfast::redis
