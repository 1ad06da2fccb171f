// Acquire + release pairs per second of the SQLite engine, beside the same bare SQL transactions (one
// insert and one counter update, then one delete), with commits that wait for the disk and without.
// The two take turns within one run, so that a noisy machine disturbs both alike.

#include <cstdlib>

#include "bare_sqlite.hpp"
#include "sqlite_fixture.hpp"

namespace {

using holdfast::Durability;

/// Alternates short slices of both until the time is up; pairs per second of each.
template <class Engine, class Bare>
std::pair<double, double> compare(std::chrono::milliseconds time, Engine engine, Bare bare) {
  double spent[2] = {0, 0}, pairs[2] = {0, 0};
  const auto slice = [&](int which, auto& pair) {
    const auto start = bench::now();
    while (bench::microseconds_since(start) < 20'000) {
      pair();
      ++pairs[which];
    }
    spent[which] += bench::microseconds_since(start);
  };
  const auto end = bench::now() + time;
  while (bench::now() < end) {
    slice(0, engine);
    slice(1, bare);
  }
  return {pairs[0] / spent[0] * 1e6, pairs[1] / spent[1] * 1e6};
}

}  // namespace

int main(int argc, char** argv) {
  const auto time = std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 4000);
  const bench::TemporaryDirectory directory;
  std::printf("%-22s %14s %14s %8s\n", "commits", "engine pairs/s", "bare pairs/s", "ratio");
  for (const auto durability : {Durability::process, Durability::machine}) {
    const bool synced = durability == Durability::machine;
    const auto backend = bench::open(directory.file(synced ? "engine-full.db" : "engine-normal.db"));
    bench::BareTransactions bare(directory.file(synced ? "bare-full.db" : "bare-normal.db"), durability);
    const auto key = *holdfast::LockKey::parse("orders:42");
    const auto [engine_rate, bare_rate] = compare(
        time,
        [&] {
          const auto id = holdfast::LockId::generate();
          bench::acquire(*backend, id, key, durability);
          bench::release(*backend, id, key, durability);
        },
        [&] { bare.pair(); });
    std::printf("%-22s %14.0f %14.0f %8.2f\n", synced ? "FULL (machine)" : "NORMAL (process)", engine_rate,
                bare_rate, engine_rate / bare_rate);
  }
}
