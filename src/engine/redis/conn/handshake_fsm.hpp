#pragma once

#include <cstdint>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// Which servers a connection is made to.
enum class Servers : std::uint8_t {
  standalone,  ///< those that can hold locks: neither a Sentinel nor a member of a cluster
  any,         ///< to examine them
};

/// What a new connection says before it is used: who we are, which database, our name. All of it is sent at
/// once, then the replies are judged in order. Each must be what Redis answers: whatever else listens at that
/// address, or sends our own words back, is not taken for one. Pure.
class Handshake {
 public:
  explicit Handshake(const RedisOptions& options, Servers servers = Servers::standalone);

  /// The bytes to send, once.
  [[nodiscard]] const std::string& request() const noexcept { return request_; }
  /// True when all replies are in and the connection can be used. An error ends it: AuthFailed for wrong
  /// credentials, InvalidArgument for a server of a kind that cannot be used, ServiceUnavailable for what is
  /// no Redis, else what the server said (LOADING, BUSY, no such database, ...).
  [[nodiscard]] Result<bool> on_reply(const redisReply& reply);

 private:
  enum class Step : std::uint8_t { authenticate, mode, name, select, ping };
  void ask(Step step, const Command& command);
  /// What an answer that is no error means, and one that is; nothing if it is all right.
  [[nodiscard]] std::optional<Error> judge(Step step, const redisReply& reply) const;
  [[nodiscard]] std::optional<Error> judge_error(Step step, const redisReply& reply) const;
  [[nodiscard]] std::optional<Error> judge_mode(const redisReply& reply) const;

  std::string request_;
  std::vector<Step> waiting_;  ///< in the order of the replies
  std::size_t answered_ = 0;
  std::uint32_t db_;
  bool user_without_password_;
  std::string credentials_;  ///< whose, for an error; never the password
  Servers servers_;
};

}  // namespace holdfast::redis
