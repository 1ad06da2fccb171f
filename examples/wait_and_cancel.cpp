// Three attempts that do not get the lock: one without waiting, one that times out, one that is cancelled.
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stop_token>
#include <thread>

using namespace std::chrono_literals;

int main() {
  auto hf = holdfast::open("memory:");
  auto& locks = hf.locks();
  auto holder = locks.lock("printer", {.ttl = 30s});

  // One attempt. A lock that is already held is a result, not an error.
  if (locks.try_lock("printer")) return 1;
  std::cout << "try_lock: taken\n";

  try {
    const auto guard = locks.lock("printer", {.wait = 100ms});
    return 1;
  } catch (const holdfast::Error& error) {
    if (error.code() != holdfast::ErrorCode::AcquisitionTimeout) return 1;
    std::cout << "lock: " << error.what() << '\n';
  }

  // A waiter without a time limit, until its stop token cancels it.
  bool aborted = false;
  {
    std::jthread waiter([&](const std::stop_token& stop) {
      try {
        const auto guard = locks.lock("printer", {.wait = holdfast::no_time_limit}, stop);
      } catch (const holdfast::Error& error) {
        aborted = error.code() == holdfast::ErrorCode::Aborted;
      }
    });
    std::this_thread::sleep_for(50ms);
    waiter.request_stop();
  }
  std::cout << "cancelled: " << (aborted ? "yes" : "no") << '\n';

  // A waiter that succeeds: it is woken when the holder releases the lock.
  holdfast::Fence next;
  {
    const std::jthread waiter([&] { next = locks.lock("printer", {.wait = 10s}).fence(); });
    std::this_thread::sleep_for(50ms);
    const auto before = holder.fence();
    holder.release();
    std::cout << "released " << before.to_string() << '\n';
  }
  std::cout << "then granted " << next.to_string() << '\n';
  return aborted && next.value() > 0 ? 0 : 1;
}
