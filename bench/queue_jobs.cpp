// Adds, works on and picks up tasks of a queue: one step of the comparison that queue_peers.mjs makes.
//
//   queue_jobs URL add COUNT IN_FLIGHT       adds so many tasks
//   queue_jobs URL work COUNT IN_FLIGHT      works on so many, each outcome together with the next claim
//   queue_jobs URL pick-up COUNT IDLE        from the add of a task until a worker has it, with so many idle
//   workers
//
// Prints one line of JSON. The payload is that of queue_peers.mjs.

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdio>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "queue_payload.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

asio::awaitable<void> add(holdfast::AsyncQueue queue, std::size_t& left) {
  while (left > 0) {
    --left;
    (void)co_await queue.add(bench::new_task());
  }
}

asio::awaitable<void> work(holdfast::AsyncQueue queue, std::size_t& done) {
  auto job = co_await queue.claim_next();
  while (job) {
    auto next = co_await job->complete_and_claim(bench::result());
    ++done;
    job = std::move(next);
  }
}

asio::awaitable<void> wait_and_note(holdfast::AsyncQueue queue, const std::size_t& left,
                                    std::optional<Clock::time_point>& picked_up, std::size_t& attempts) {
  while (left > 0) {
    auto job = co_await queue.claim_next({.wait = 2s});
    if (!job) continue;
    picked_up = Clock::now();
    attempts += job->attempt();
    (void)co_await job->complete(bench::result());
  }
}

/// Microseconds from the add of a task until a worker has it.
asio::awaitable<void> add_one_by_one(holdfast::AsyncQueue queue, std::size_t& left,
                                     std::optional<Clock::time_point>& picked_up, std::vector<double>& took) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  timer.expires_after(500ms);  // until all workers are idle
  co_await timer.async_wait(asio::use_awaitable);
  while (left > 0) {
    picked_up.reset();
    const auto start = Clock::now();
    (void)co_await queue.add(bench::new_task());
    while (!picked_up && Clock::now() - start < 5s) {
      timer.expires_after(200us);
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (picked_up) took.push_back(Micros(*picked_up - start).count());
    timer.expires_after(10ms);
    co_await timer.async_wait(asio::use_awaitable);
    --left;
  }
}

double at(const std::vector<double>& sorted, double part) {
  return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

int run(std::string_view url, std::string_view what, std::size_t count, std::size_t beside) {
  const auto hf = holdfast::open(url);
  asio::io_context context(1);
  const holdfast::AsyncQueue queue(context.get_executor(), hf.queue("mail", {.max_tasks = 0}));
  std::size_t left = count;
  std::size_t done = 0;
  std::size_t attempts = 0;
  std::optional<Clock::time_point> picked_up;
  std::vector<double> took;
  const auto start = Clock::now();
  if (what == "add") {
    for (std::size_t i = 0; i < beside; ++i) co_spawn(context, add(queue, left), asio::detached);
  } else if (what == "work") {
    for (std::size_t i = 0; i < beside; ++i) co_spawn(context, work(queue, done), asio::detached);
  } else {
    for (std::size_t i = 0; i < beside; ++i) {
      co_spawn(context, wait_and_note(queue, left, picked_up, attempts), asio::detached);
    }
    co_spawn(context, add_one_by_one(queue, left, picked_up, took), asio::detached);
  }
  context.run();
  const auto seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::ranges::sort(took);
  std::printf("{\"seconds\":%.4f,\"done\":%zu,\"p50\":%.1f,\"p99\":%.1f,\"attempts\":%zu}\n", seconds,
              what == "work" ? done : count - left, at(took, 0.5), at(took, 0.99), attempts);
  return what == "work" && done != count ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: queue_jobs URL add|work|pick-up COUNT IN_FLIGHT\n");
    return 64;
  }
  try {
    return run(argv[1], argv[2], std::stoul(argv[3]), std::stoul(argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "queue_jobs: %s\n", error.what());
    return 1;
  }
}
