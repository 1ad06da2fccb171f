// A holder is notified of a lost lock before another process can acquire it, in time to stop. This program
// provokes the loss with a short ttl and no renewal. In production, the cause is a suspended machine or an
// engine that does not answer.
#include <chrono>
#include <future>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stop_token>
#include <thread>

using namespace std::chrono_literals;

int main() {
  auto hf = holdfast::open("memory:");
  // This holder needs up to 200 ms to stop.
  auto guard = hf.locks().lock("report", {.ttl = 600ms, .auto_renew = false, .notice = 200ms});

  std::promise<holdfast::LossReason> told;
  guard.on_lost([&](holdfast::LossReason reason) { told.set_value(reason); });

  // Work in steps, and stop when the lock is lost. A step that writes must send guard.fence() with the write.
  int steps = 0;
  const std::stop_token lost = guard.lost();
  while (!lost.stop_requested()) {
    ++steps;
    std::this_thread::sleep_for(10ms);
  }
  std::cout << "lost after " << steps << " steps: " << to_string(told.get_future().get()) << '\n';
  // What is left of the notice, for the last step: no other holder can acquire the lock before that has
  // passed.
  if (guard.remaining() > 200ms) return 1;
  std::cout << (guard.still_held() ? "stopped in time\n" : "stopped too late\n");

  // A lost lock is released too, so that the next holder need not wait for the end of the lease. Returns true
  // if the lease had not expired yet.
  (void)guard.release();

  // With renewal (the default), the lock stays held for longer than its ttl.
  auto renewed = hf.locks().lock("report", {.ttl = 300ms, .wait = 5s});
  std::this_thread::sleep_for(900ms);
  std::cout << "renewed: " << (renewed.still_held() ? "still held after three times its ttl" : "lost")
            << '\n';
  return renewed.release() ? 0 : 1;
}
