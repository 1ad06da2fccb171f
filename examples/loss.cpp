// A lock that is lost says so, before anyone else can hold it. Here the loss is made on purpose: a short ttl
// and no renewal. In earnest it comes from a suspended machine or an engine that does not answer.
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

  // Work in steps, and stop when told. A step that writes something passes guard.fence() along.
  int steps = 0;
  const std::stop_token lost = guard.lost();
  while (!lost.stop_requested()) {
    ++steps;
    std::this_thread::sleep_for(10ms);
  }
  std::cout << "lost after " << steps << " steps: " << to_string(told.get_future().get()) << '\n';
  if (guard.still_held() || guard.remaining() > 0ns) return 1;

  // Releasing what one no longer holds is harmless, and says so.
  if (guard.release()) return 1;

  // With renewal, the default, the same work outlives its ttl.
  auto renewed = hf.locks().lock("report", {.ttl = 300ms, .wait = 5s});
  std::this_thread::sleep_for(900ms);
  std::cout << "renewed: " << (renewed.still_held() ? "still held after three times its ttl" : "lost")
            << '\n';
  return renewed.release() ? 0 : 1;
}
