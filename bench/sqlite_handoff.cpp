// From a release in one process to the grant in another that waits for it, through the engine's watch:
// how long, and how much processor time the waiter uses meanwhile.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "sqlite_fixture.hpp"

namespace {

using holdfast::Durability;

struct Shared {
  std::atomic<int> held = -1;     // the round for which the parent holds the lock
  std::atomic<int> waiting = -1;  // the round in which the child was refused and goes to sleep
  std::atomic<int> done = -1;     // the round that is over
  std::atomic<std::int64_t> released_at_ns = 0;
};

std::int64_t now_ns() {
  return holdfast::BootClock::now().time_since_epoch().count();
}

double processor_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

/// Waits for the lock as the library's waiters do: watch, try, sleep.
void take(holdfast::LockBackend& backend, const holdfast::LockId& id, const holdfast::LockKey& key,
          std::atomic<int>* refused) {
  const auto watch = bench::watch(backend, key);
  while (true) {
    if (std::holds_alternative<holdfast::Granted>(bench::acquire(backend, id, key, Durability::process)))
      return;
    if (refused != nullptr) ++*refused;
    refused = nullptr;
    static_cast<void>(bench::wait_until(*watch, holdfast::BootClock::now() + std::chrono::seconds(1)));
  }
}

int wait_in_child(const std::filesystem::path& file, int rounds, Shared& shared) {
  const auto backend = bench::open(file);
  const auto key = *holdfast::LockKey::parse("baton");
  std::vector<double> times;
  const double used_before = processor_ms();
  const auto start = bench::now();
  for (int round = 0; round < rounds; ++round) {
    while (shared.held != round) ::usleep(200);
    const auto id = holdfast::LockId::generate();
    take(*backend, id, key, &shared.waiting);
    times.push_back(static_cast<double>(now_ns() - shared.released_at_ns) / 1e3);
    bench::release(*backend, id, key, Durability::process);
    shared.done = round;
  }
  const double seconds = bench::microseconds_since(start) / 1e6;
  const double used = processor_ms() - used_before;
  const auto us = bench::spread(times);
  std::printf("%d hand-offs: median %.0f us, p99 %.0f us, max %.0f us; the waiter used %.2f %% of a core\n",
              rounds, us.p50, us.p99, us.max, used / 10 / seconds);

  const double idle_before = processor_ms();
  const auto watch = bench::watch(*backend, key);
  static_cast<void>(bench::wait_until(*watch, holdfast::BootClock::now() + std::chrono::seconds(3)));
  std::printf("asleep for 3 s: %.2f ms of processor time\n", processor_ms() - idle_before);
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
  const bench::TemporaryDirectory directory;
  const auto file = directory.file("locks.db");
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& shared = *new (memory) Shared;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(wait_in_child(file, rounds, shared));

  const auto backend = bench::open(file);
  const auto key = *holdfast::LockKey::parse("baton");
  for (int round = 0; round < rounds; ++round) {
    const auto id = holdfast::LockId::generate();
    take(*backend, id, key, nullptr);
    shared.held = round;
    while (shared.waiting != round) ::usleep(200);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // let it fall asleep
    shared.released_at_ns = now_ns();
    bench::release(*backend, id, key, Durability::process);
    while (shared.done != round) ::usleep(200);
  }
  ::waitpid(child, nullptr, 0);
}
