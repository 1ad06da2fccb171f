// 10 000 coroutines on one thread, each acquiring and releasing its own lock on a Redis, against eight
// threads that do the same through the blocking API: pairs a second, in turns, as ratios. Also the cost of a
// coroutine that waits for a lock.
//
//   asio_coroutines [COROUTINES [SECONDS]]

#include <malloc.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <thread>

#include "redis_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int port = 17379;
constexpr std::size_t threads = 8;
constexpr holdfast::LockOptions options{.ttl = 30s, .wait = 60s};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Pairs a second of the blocking API.
double blocking_pairs(holdfast::Locks locks, std::chrono::duration<double> length) {
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> pairs = 0;
  std::vector<std::jthread> workers;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i]() mutable {
      const auto key = "blocking-" + std::to_string(i);
      std::size_t done = 0;
      for (; !stop; ++done) locks.lock(key, options).release();
      pairs += done;
    });
  }
  std::this_thread::sleep_for(length);
  stop = true;
  workers.clear();
  return static_cast<double>(pairs) / seconds_since(start);
}

asio::awaitable<void> take_turns(holdfast::AsyncLocks locks, std::string key, const bool& stop,
                                 std::size_t& pairs) {
  while (!stop) {
    auto guard = co_await locks.lock(key, options);
    (void)co_await guard.release();
    ++pairs;
  }
}

/// Pairs a second of that many coroutines on this thread.
double coroutine_pairs(const holdfast::Locks& locks, std::size_t count,
                       std::chrono::duration<double> length) {
  asio::io_context context(1);
  const holdfast::AsyncLocks asynchronous(context.get_executor(), locks);
  bool stop = false;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < count; ++i) {
    asio::co_spawn(context, take_turns(asynchronous, "coroutine-" + std::to_string(i), stop, pairs),
                   asio::detached);
  }
  asio::steady_timer timer(context, std::chrono::duration_cast<Clock::duration>(length));
  timer.async_wait([&](auto) { stop = true; });
  const auto start = Clock::now();
  context.run();
  return static_cast<double>(pairs) / seconds_since(start);
}

asio::awaitable<void> wait_for(holdfast::AsyncLocks locks, std::string key, std::size_t& granted) {
  auto guard = co_await locks.lock(key, options);
  ++granted;
  (void)co_await guard.release();
}

std::size_t heap_bytes() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// Bytes of heap per coroutine that waits for a lock with another holder, and how long it takes until all
/// have held it.
void print_waiters(const holdfast::Locks& locks, std::size_t count, bool one_key) {
  auto blocking = locks;
  const auto key_of = [&](std::size_t i) { return "held-" + std::to_string(one_key ? 0 : i); };
  std::vector<holdfast::Lease> held;
  for (std::size_t i = 0; i < (one_key ? 1 : count); ++i)
    held.push_back(blocking.acquire(key_of(i), {.ttl = 300s}));

  asio::io_context context(1);
  const holdfast::AsyncLocks asynchronous(context.get_executor(), locks);
  std::size_t granted = 0;
  const auto before = heap_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    asio::co_spawn(context, wait_for(asynchronous, key_of(i), granted), asio::detached);
  }
  context.run_for(3s);  // each has been refused, and watches
  const auto each = (heap_bytes() - before) / count;
  const auto start = Clock::now();
  for (const auto& lock : held) blocking.release(lock.id.str());
  context.run();
  std::printf("%zu coroutines wait for %s: %zu bytes of heap each; all had it %.2f s after the release\n",
              count, one_key ? "one lock" : "a lock each", each, seconds_since(start));
  if (granted != count) std::printf("only %zu were granted\n", granted);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::size_t coroutines = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10'000;
  const std::chrono::duration<double> length(argc > 2 ? std::strtod(argv[2], nullptr) : 1.0);
  const bench::Server server(port);
  auto holdfast = holdfast::open(server.url());

  std::vector<double> ratios;
  for (int round = 0; round < 7; ++round) {
    const double blocking = blocking_pairs(holdfast.locks(), length);
    const double asynchronous = coroutine_pairs(holdfast.locks(), coroutines, length);
    ratios.push_back(asynchronous / blocking);
    std::printf("%zu threads: %.0f pairs/s   %zu coroutines on one thread: %.0f pairs/s   ratio %.2f\n",
                threads, blocking, coroutines, asynchronous, ratios.back());
  }
  std::ranges::sort(ratios);
  std::printf("median ratio: %.2f\n", ratios[ratios.size() / 2]);
  print_waiters(holdfast.locks(), coroutines, false);
  print_waiters(holdfast.locks(), coroutines, true);
}
