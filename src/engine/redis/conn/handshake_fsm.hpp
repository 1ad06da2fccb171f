#pragma once

#include <cstdint>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <string>
#include <vector>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// What a new connection says before it is used: who we are, which database, our name. All of it is sent at
/// once, then the replies are judged in order. Pure.
class Handshake {
 public:
  explicit Handshake(const RedisOptions& options);

  /// The bytes to send, once.
  [[nodiscard]] const std::string& request() const noexcept { return request_; }
  /// True when all replies are in and the connection can be used. An error ends it: AuthFailed for wrong
  /// credentials, else what the server said (LOADING, BUSY, no such database, ...).
  [[nodiscard]] Result<bool> on_reply(const redisReply& reply);

 private:
  enum class Step : std::uint8_t { authenticate, name, select, ping };
  void ask(Step step, std::initializer_list<std::string_view> command);

  std::string request_;
  std::vector<Step> waiting_;  ///< in the order of the replies
  std::size_t answered_ = 0;
  std::uint32_t db_;
};

}  // namespace holdfast::redis
