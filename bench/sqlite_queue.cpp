// Jobs per second of a queue in a file, beside the same transactions by prepared statements alone: on the
// engine's own tables, and on the least that can hold a queue. All take turns within one run.
//
//   sqlite_queue [JOBS [ROUNDS]]     each round adds so many jobs, and then works on them (500, 20)

#include <array>
#include <cstdlib>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <memory>
#include <string>

#include "bare_sqlite_queue.hpp"
#include "sqlite_fixture.hpp"

namespace {

using namespace std::chrono_literals;

/// As large as the documents of the engine's tasks.
const std::string task_text(300, 'x'), result_text(330, 'y');

struct Spent {
  double add = 0, work = 0;
};

/// The seconds that `each` takes for all jobs.
template <class Each>
void time_into(double& spent, int jobs, Each each) {
  const auto start = bench::now();
  for (int i = 0; i < jobs; ++i) each();
  spent += bench::microseconds_since(start) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::atoi(argv[1]) : 500, rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  const bench::TemporaryDirectory directory;
  const auto hf = holdfast::open("sqlite:" + directory.file("engine.db").string());
  const auto queue = hf.queue("jobs", {.max_tasks = 0});
  {
    // Its tables, without its jobs.
    const auto other = holdfast::open("sqlite:" + directory.file("tables.db").string());
    const auto one = other.queue("jobs");
    (void)one.add({});
    (void)one.claim_next({.lease = 30s})->complete();
  }
  bench::BareQueue tables(directory.file("tables.db"), bench::BareQueue::Tables::engines);
  bench::BareQueue least(directory.file("least.db"), bench::BareQueue::Tables::least);

  Spent of_engine, of_tables, of_least;
  double batches = 0;
  const auto bare_round = [&](bench::BareQueue& bare, Spent& spent) {
    // Random, as the engine's.
    time_into(spent.add, jobs, [&] { bare.add(std::string(holdfast::LockId::generate().str()), task_text); });
    time_into(spent.work, jobs, [&] { bare.work(result_text); });
  };
  for (int round = 0; round < rounds; ++round) {
    time_into(of_engine.add, jobs, [&] { (void)queue.add({}); });
    time_into(of_engine.work, jobs, [&] { (void)queue.claim_next({.lease = 30s})->complete(); });
    bare_round(tables, of_tables);
    bare_round(least, of_least);
    for (int i = 0; i < jobs; ++i) (void)queue.add({});
    time_into(batches, jobs / 100, [&] {
      for (auto& job : queue.claim_batch(100, {.lease = 30s})) (void)job.complete();
    });
  }

  const double all = static_cast<double>(jobs) * rounds;
  std::printf("jobs per second, %d rounds of %d jobs; adds and outcomes wait for the disk\n", rounds, jobs);
  std::printf("  %-46s %10s %22s\n", "", "add", "claim one and end it");
  const auto row = [&](const char* what, const Spent& spent) {
    std::printf("  %-46s %6.0f x%-4.2f %16.0f x%-4.2f\n", what, all / spent.add, spent.add / of_engine.add,
                all / spent.work, spent.work / of_engine.work);
  };
  row("queue", of_engine);
  row("bare transactions on its tables", of_tables);
  row("bare transactions on the least table", of_least);
  std::printf("  queue, claimed in batches of 100, each ended alone: %.0f jobs/s\n", all / batches);
  std::printf("xR: the queue does R of this\n");
}
