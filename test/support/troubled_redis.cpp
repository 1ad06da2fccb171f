#include "support/troubled_redis.hpp"

namespace holdfast::test {

TroubledRedis::TroubledRedis(RedisServer::Options options, Trouble trouble, std::chrono::milliseconds every)
    : server_(std::move(options)), troublemaker_([this, trouble, every](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          std::this_thread::sleep_for(every);
          trouble(server_);
        }
      }) {}

void TroubledRedis::disturb(RedisServer& server) {
  auto raw = server.raw();
  raw.command({"SCRIPT", "FLUSH", "SYNC"});
  raw.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  raw.command({"CLIENT", "KILL", "TYPE", "pubsub"});
}

}  // namespace holdfast::test
