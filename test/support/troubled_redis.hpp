#pragma once

#include <chrono>
#include <thread>

#include "support/redis_server.hpp"

namespace holdfast::test {

/// A server with constant faults, which an engine should hide from its users.
class TroubledRedis {
 public:
  using Trouble = void (*)(RedisServer& server);
  TroubledRedis(RedisServer::Options options, Trouble trouble, std::chrono::milliseconds every);

  [[nodiscard]] RedisOptions tcp() const { return server_.tcp(); }

  /// Scripts vanish and connections are cut.
  static void disturb(RedisServer& server);
  static void restart(RedisServer& server) { server.restart(); }

 private:
  RedisServer server_;
  std::jthread troublemaker_;
};

}  // namespace holdfast::test
