// A holder is notified of a lost lock before another process can acquire it. This program provokes the loss
// with a short ttl and no renewal. In production, the cause is a suspended machine or an engine that does not
// answer.
#include <chrono>
#include <future>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stop_token>
#include <thread>

using namespace std::chrono_literals;

int main() {
  auto hf = holdfast::open("memory:");
  auto guard = hf.locks().lock("report", {.ttl = 300ms, .auto_renew = false});

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
  if (guard.still_held() || guard.remaining() > 0ns) return 1;

  // Releasing a lost lock is harmless. It returns true only if the lease had not expired yet: a holder is
  // notified before that.
  (void)guard.release();

  // With renewal (the default), the lock stays held for longer than its ttl.
  auto renewed = hf.locks().lock("report", {.ttl = 300ms, .wait = 5s});
  std::this_thread::sleep_for(900ms);
  std::cout << "renewed: " << (renewed.still_held() ? "still held after three times its ttl" : "lost")
            << '\n';
  return renewed.release() ? 0 : 1;
}
