#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/redis.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::test {

/// A plain connection to a Redis for tests to see and change what is stored: blocking, no TLS, nothing of
/// the code under test but the type of a reply.
class RawRedis {
 public:
  /// Connects, authenticates and selects the db; throws std::runtime_error if that fails.
  explicit RawRedis(const RedisOptions& where);

  /// The server's answer, errors included. Throws std::runtime_error if there is none.
  redis::Reply command(const std::vector<std::string>& arguments);
  /// The answer as text: strings as they are, integers in digits, "(nil)", arrays as lines. An error throws.
  std::string text(const std::vector<std::string>& arguments);
  std::int64_t integer(const std::vector<std::string>& arguments);
  /// The server's clock.
  std::int64_t now_ms();

  /// For pub/sub: sends without waiting for an answer, and waits for the next one.
  void send(const std::vector<std::string>& arguments);
  redis::Reply receive();

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };
  [[noreturn]] void fail(const std::string& what) const;
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace holdfast::test
