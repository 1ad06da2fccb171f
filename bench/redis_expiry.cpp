// How long after a dead holder's lease expired its lock reaches a waiter.
//
//   redis_expiry [ROUNDS] [TTL_MS] [URL]      default: 50 rounds, 300 ms, redis://127.0.0.1:6379
//
// Each round acquires a lock that is never released or renewed, and waits for it with the default policy. The
// delay is counted on the server's clock, which must be this machine's: from the record's expiresAtMs to the
// moment the waiter has its guard.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace {

double wall_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  const std::chrono::milliseconds ttl(argc > 2 ? std::atoi(argv[2]) : 300);
  auto dead = holdfast::open(argc > 3 ? argv[3] : "redis://127.0.0.1:6379");
  auto alive = holdfast::open(dead.url());
  std::vector<double> delays;
  for (int round = 0; round < rounds; ++round) {
    const std::string key = "redis_expiry:" + std::to_string(round);
    const auto left_behind = dead.locks().acquire(key, {.ttl = ttl});
    auto guard = alive.locks().lock(key, {.wait = std::chrono::seconds(30)});
    delays.push_back(wall_ms() - static_cast<double>(left_behind.expires_at.time_since_epoch().count()));
    guard.release();
  }
  std::ranges::sort(delays);
  std::cout << "rounds " << delays.size() << ", median " << delays[delays.size() / 2] << " ms, worst "
            << delays.back() << " ms, later than 20 ms: "
            << std::ranges::count_if(delays, [](double delay) { return delay > 20; }) << '\n';
}
