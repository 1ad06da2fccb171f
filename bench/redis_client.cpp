// The client against bare ones, in one run, interleaved: how much of the server's throughput it reaches, what
// a blocking call costs, how fast a waiter gets a lock that is released.
//
//   redis_client [PORT]           all of it, on a redis-server of its own
//   redis_client pairs N [PORT]   N blocking acquire+release pairs and nothing else: for strace -c

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <iostream>
#include <latch>
#include <memory>
#include <thread>

#include "bare_redis.hpp"
#include "redis_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using holdfast::AcquireRequest;
using holdfast::LockId;
using holdfast::LockKey;
using holdfast::ReleaseRequest;
using holdfast::Ttl;

double seconds(Clock::duration length) {
  return std::chrono::duration<double>(length).count();
}

double micros(Clock::duration length) {
  return seconds(length) * 1e6;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::shared_ptr<holdfast::LockBackend> open_backend(const bench::Server& server) {
  return holdfast::make_redis_lock_backend(holdfast::parse_redis_url(server.url()).value_or_throw())
      .value_or_throw();
}

struct Rate {
  double pairs_per_second;
  double cpu;         ///< of one processor
  double server_cpu;  ///< the same of the server
};

double cpu_seconds_of(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  for (int i = 0; i < 13; ++i) stat >> word;
  double user = 0, kernel = 0;
  stat >> user >> kernel;
  return (user + kernel) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// The server's limit.
Rate bare_load(const bench::Server& server, int in_flight, Clock::duration length) {
  bench::BareGenerator generator(server.port(), in_flight);
  const double cpu = cpu_seconds();
  const double server_cpu = cpu_seconds_of(server.pid());
  const auto start = Clock::now();
  const auto pairs = generator.run(length);
  const double elapsed = seconds(Clock::now() - start);
  return {static_cast<double>(pairs) / elapsed, (cpu_seconds() - cpu) / elapsed,
          (cpu_seconds_of(server.pid()) - server_cpu) / elapsed};
}

/// The same through the lock backend: each completion starts the next operation.
Rate our_load(const bench::Server& server, holdfast::LockBackend& backend, int in_flight,
              Clock::duration length) {
  struct Chain {
    holdfast::LockBackend& backend;
    LockKey key;
    std::atomic<bool>& stop;
    std::latch& ended;
    std::uint64_t pairs = 0;
    std::uint64_t failures = 0;
    LockId id = LockId::generate();

    void acquire() {
      if (stop) return ended.count_down();
      id = LockId::generate();
      backend.submit(AcquireRequest{.id = id, .key = key, .ttl = *Ttl::of(30s)}, {},
                     [this](const holdfast::Result<holdfast::AcquireOutcome>& got) {
                       if (!got || !std::holds_alternative<holdfast::Granted>(*got)) ++failures;
                       backend.submit(ReleaseRequest{.lock = {.id = id, .key = key}}, {},
                                      [this](const holdfast::Result<holdfast::ReleaseOutcome>& freed) {
                                        if (!freed) ++failures;
                                        ++pairs;
                                        acquire();
                                      });
                     });
    }
  };
  std::atomic<bool> stop = false;
  std::latch ended(in_flight);
  std::vector<std::unique_ptr<Chain>> chains;
  for (int i = 0; i < in_flight; ++i) {
    chains.emplace_back(new Chain{backend, *LockKey::parse("ours:" + std::to_string(i)), stop, ended});
  }
  const double cpu = cpu_seconds();
  const double server_cpu = cpu_seconds_of(server.pid());
  const auto start = Clock::now();
  for (auto& chain : chains) chain->acquire();
  std::this_thread::sleep_for(length);
  stop = true;
  ended.wait();
  const double elapsed = seconds(Clock::now() - start);
  std::uint64_t pairs = 0;
  for (const auto& chain : chains) {
    pairs += chain->pairs;
    if (chain->failures != 0) throw std::runtime_error("operations failed");
  }
  return {static_cast<double>(pairs) / elapsed, (cpu_seconds() - cpu) / elapsed,
          (cpu_seconds_of(server.pid()) - server_cpu) / elapsed};
}

void compare_throughput(const bench::Server& server, int in_flight) {
  const auto backend = open_backend(server);
  std::vector<double> bare, ours, ratio, cpu, busy_bare, busy_ours;
  for (int round = 0; round < 10; ++round) {
    const auto theirs = bare_load(server, in_flight, 500ms);
    const auto mine = our_load(server, *backend, in_flight, 500ms);
    bare.push_back(theirs.pairs_per_second);
    ours.push_back(mine.pairs_per_second);
    ratio.push_back(mine.pairs_per_second / theirs.pairs_per_second);
    cpu.push_back(mine.cpu);
    busy_bare.push_back(theirs.server_cpu);
    busy_ours.push_back(mine.server_cpu);
  }
  std::printf(
      "  %3d in flight: bare %6.0f pairs/s   ours %6.0f   ratio %.2f   client's CPU %.0f %% of a core"
      "   (the server's: %.0f %%, %.0f %%)\n",
      in_flight, median(bare), median(ours), median(ratio), median(cpu) * 100, median(busy_bare) * 100,
      median(busy_ours) * 100);
}

template <class T, class Start>
T blocking(holdfast::LockBackend& backend, Start&& start) {
  holdfast::Slot<T> slot;
  start(holdfast::Done<T>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  return (*std::move(slot.result)).value_or_throw();
}

void acquire_blocking(holdfast::LockBackend& backend, const LockId& id, const LockKey& key) {
  const auto got = blocking<holdfast::AcquireOutcome>(backend, [&](auto done) {
    backend.submit(AcquireRequest{.id = id, .key = key, .ttl = *Ttl::of(30s)}, {}, std::move(done));
  });
  if (!std::holds_alternative<holdfast::Granted>(got)) throw std::runtime_error("not granted");
}

void release_blocking(holdfast::LockBackend& backend, const LockId& id, const LockKey& key) {
  blocking<holdfast::ReleaseOutcome>(backend, [&](auto done) {
    backend.submit(ReleaseRequest{.lock = {.id = id, .key = key}}, {}, std::move(done));
  });
}

void compare_latency(const bench::Server& server) {
  const auto backend = open_backend(server);
  bench::Raw raw(server.port());
  const bench::Scripts scripts(raw);
  const auto key = *LockKey::parse("latency:ours");
  const bench::Names names("latency:bare");
  std::vector<double> our_acquire, our_release, raw_acquire, raw_release;
  std::vector<double> acquire_ratio, release_ratio;
  for (int round = 0; round < 20; ++round) {
    std::vector<double> a, b, c, d;
    for (int i = 0; i < 500; ++i) {
      const auto id = LockId::generate();
      auto t0 = Clock::now();
      acquire_blocking(*backend, id, key);
      auto t1 = Clock::now();
      release_blocking(*backend, id, key);
      auto t2 = Clock::now();
      a.push_back(micros(t1 - t0));
      b.push_back(micros(t2 - t1));
      t0 = Clock::now();
      bench::append_acquire(raw, scripts, names, id.str());
      raw.take();
      t1 = Clock::now();
      bench::append_release(raw, scripts, names, id.str());
      raw.take();
      t2 = Clock::now();
      c.push_back(micros(t1 - t0));
      d.push_back(micros(t2 - t1));
    }
    our_acquire.push_back(median(a));
    our_release.push_back(median(b));
    raw_acquire.push_back(median(c));
    raw_release.push_back(median(d));
    acquire_ratio.push_back(median(a) / median(c));
    release_ratio.push_back(median(b) / median(d));
  }
  std::printf("  acquire: raw hiredis %5.1f us   ours %5.1f us   ratio %.2f\n", median(raw_acquire),
              median(our_acquire), median(acquire_ratio));
  std::printf("  release: raw hiredis %5.1f us   ours %5.1f us   ratio %.2f\n", median(raw_release),
              median(our_release), median(release_ratio));
}

/// From the call of release by one client to the grant of another that waits for it, against the same two
/// operations one after the other, by the same two clients after the same pause.
void compare_handoff(const bench::Server& server) {
  const auto holder = open_backend(server);
  const auto second = open_backend(server);
  holdfast::Locks waiter(second);
  const auto key = *LockKey::parse("handoff");
  std::vector<double> paced, handed, ratio;
  for (int round = 0; round < 300; ++round) {
    auto id = LockId::generate();
    acquire_blocking(*holder, id, key);
    std::this_thread::sleep_for(15ms);
    auto start = Clock::now();
    release_blocking(*holder, id, key);
    const auto next = LockId::generate();
    acquire_blocking(*second, next, key);
    const double one_after_the_other = micros(Clock::now() - start);
    release_blocking(*second, next, key);

    id = LockId::generate();
    acquire_blocking(*holder, id, key);
    Clock::time_point got;
    std::jthread thread([&] {
      const auto lock = waiter.acquire("handoff", {.wait = 10s, .base_delay = 1s});
      got = Clock::now();
      waiter.release(lock.id.str());
    });
    std::this_thread::sleep_for(15ms);  // it sleeps
    start = Clock::now();
    release_blocking(*holder, id, key);
    thread.join();
    paced.push_back(one_after_the_other);
    handed.push_back(micros(got - start));
    ratio.push_back(handed.back() / paced.back());
  }
  std::printf("  release, then acquire %5.1f us   hand-off through a wake-up %5.1f us   ratio %.2f\n",
              median(paced), median(handed), median(ratio));
}

/// A thousand threads wait for one key; each acquires and releases it.
void herd(const bench::Server& server) {
  constexpr int waiters = 1000;
  const auto backend = open_backend(server);
  holdfast::Locks locks(backend);
  bench::Raw raw(server.port());
  const auto key = *LockKey::parse("herd");
  const auto id = LockId::generate();
  acquire_blocking(*backend, id, key);
  std::atomic<int> held = 0;
  std::vector<double> waited(waiters);
  std::vector<std::jthread> threads;
  Clock::time_point start;
  for (int i = 0; i < waiters; ++i) {
    threads.emplace_back([&, i] {
      auto guard = locks.lock("herd", {.ttl = 30s, .wait = 120s});
      waited[static_cast<std::size_t>(i)] = seconds(Clock::now() - start);
      ++held;
    });
  }
  std::this_thread::sleep_for(3s);  // all of them wait
  const auto calls = [&] {
    const auto stats = raw.call({"INFO", "commandstats"});
    const auto at = stats.find("cmdstat_evalsha:calls=");
    return at == std::string::npos ? 0 : std::strtol(stats.c_str() + at + 22, nullptr, 10);
  };
  const auto before = calls();
  start = Clock::now();
  release_blocking(*backend, id, key);
  threads.clear();
  const double took = seconds(Clock::now() - start);
  // Each release is a call too; the rest are attempts.
  const auto attempts = calls() - before - (waiters + 1);
  std::printf(
      "  %d threads: all of %d had it after %.2f s, the last waited %.2f s; %.2f attempts per release\n",
      waiters, held.load(), took, *std::ranges::max_element(waited),
      static_cast<double>(attempts) / (waiters + 1));
}

void only_pairs(const bench::Server& server, int count) {
  const auto backend = open_backend(server);
  const auto key = *LockKey::parse("pairs");
  for (int i = 0; i < count; ++i) {
    const auto id = LockId::generate();
    acquire_blocking(*backend, id, key);
    release_blocking(*backend, id, key);
  }
}

int run(int argc, char** argv) {
  const bool pairs = argc > 2 && std::string_view(argv[1]) == "pairs";
  const int port_at = pairs ? 3 : 1;
  const bench::Server server(argc > port_at ? std::atoi(argv[port_at]) : 26379);
  if (pairs) {
    only_pairs(server, std::atoi(argv[2]));
    return 0;
  }
  bench::pin(server.pid(), 0);
  bench::pin(0, 1);
  std::printf("Saturated, server and client on a processor each:\n");
  compare_throughput(server, 256);
  compare_throughput(server, 64);
  bench::pin(0, 0);
  std::printf("One blocking call after another, server and client on one processor (p50):\n");
  compare_latency(server);
  bench::pin(0, -1);
  bench::pin(server.pid(), -1);
  std::printf("Hand-off to a waiter, not pinned (p50):\n");
  compare_handoff(server);
  bench::pin(0, 0);
  bench::pin(server.pid(), 0);
  std::printf("Hand-off to a waiter, all on one processor (p50):\n");
  compare_handoff(server);
  bench::pin(0, -1);
  bench::pin(server.pid(), -1);
  std::printf("Many waiters of one key in one process:\n");
  herd(server);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(argc, argv);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "redis_client: %s\n", failed.what());
    return 1;
  }
}
