// Several processes hammer different keys of one file, compared with one process alone in the same run:
// total throughput, and how long single operations wait for their turn to write.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "sqlite_fixture.hpp"

namespace {

constexpr std::size_t most_samples = 1'000'000;

/// In memory that the processes share.
struct Report {
  std::atomic<int> ready = 0;
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> samples = 0;
  double operation_us[most_samples];
};

struct Outcome {
  double pairs_per_second = 0;
  bench::Spread operation_us;
  double log_mib = 0;
};

void hammer(const std::filesystem::path& file, int process, int processes, holdfast::Durability durability,
            Report& report) {
  const auto backend = bench::open(file);
  const auto key = *holdfast::LockKey::parse("key:" + std::to_string(process));
  ++report.ready;
  while (report.ready < processes) ::usleep(100);
  while (!report.stop) {
    const auto id = holdfast::LockId::generate();
    const auto timed = [&](auto operation) {
      const auto start = bench::now();
      operation();
      const auto slot = report.samples++;
      if (slot < most_samples) report.operation_us[slot] = bench::microseconds_since(start);
    };
    timed([&] { bench::acquire(*backend, id, key, durability); });
    timed([&] { bench::release(*backend, id, key, durability); });
  }
}

Outcome measure(int processes, holdfast::Durability durability, int milliseconds) {
  const bench::TemporaryDirectory directory;
  const auto file = directory.file("locks.db");
  void* memory = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  auto& report = *new (memory) Report;
  for (int i = 0; i < processes; ++i) {
    if (::fork() == 0) {
      try {
        hammer(file, i, processes, durability, report);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "process %d: %s\n", i, error.what());
        report.stop = true;
        report.ready = processes;
      }
      ::_exit(0);
    }
  }
  while (report.ready < processes) ::usleep(100);
  const auto start = bench::now();
  const auto samples_before = report.samples.load();
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
  const double seconds = bench::microseconds_since(start) / 1e6;
  const auto samples = report.samples.load() - samples_before;
  Outcome outcome;
  std::error_code ignored;
  outcome.log_mib =
      static_cast<double>(std::filesystem::file_size(file.string() + "-wal", ignored)) / 1048576.0;
  report.stop = true;
  for (int i = 0; i < processes; ++i) ::wait(nullptr);
  const auto kept = std::min(report.samples.load(), most_samples);
  std::vector<double> times(report.operation_us, report.operation_us + kept);
  outcome.pairs_per_second = static_cast<double>(samples) / 2 / seconds;
  outcome.operation_us = bench::spread(times);
  ::munmap(memory, sizeof(Report));
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 4000;
  const int many = argc > 2 ? std::atoi(argv[2]) : 4;
  std::printf("%-18s %9s %10s %7s %9s %9s %9s %9s %8s\n", "commits", "processes", "pairs/s", "ratio",
              "p50 us", "p99 us", "p99.9 us", "max us", "log MiB");
  for (const auto durability : {holdfast::Durability::process, holdfast::Durability::machine}) {
    double alone = 0;
    for (const int processes : {1, many}) {
      const auto [rate, us, log_mib] = measure(processes, durability, milliseconds);
      if (processes == 1) alone = rate;
      std::printf("%-18s %9d %10.0f %7.2f %9.0f %9.0f %9.0f %9.0f %8.1f\n",
                  durability == holdfast::Durability::machine ? "FULL (machine)" : "NORMAL (process)",
                  processes, rate, rate / alone, us.p50, us.p99, us.p999, us.max, log_mib);
    }
  }
}
