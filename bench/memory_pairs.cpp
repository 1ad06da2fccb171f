// What the policies cost: acquire+release on the memory engine, bare and through a guard.

#include <benchmark/benchmark.h>

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>

namespace {

using namespace std::chrono_literals;
using holdfast::LockId;

const auto backend = holdfast::make_memory_lock_backend();

/// The engine alone: what a lock costs without waiting, renewal or loss.
void bare_pair(benchmark::State& state) {
  const auto key = *holdfast::LockKey::parse("key-" + std::to_string(state.thread_index()));
  const auto ttl = *holdfast::Ttl::of(30s);
  for (auto _ : state) {
    holdfast::Slot<holdfast::AcquireOutcome> acquired;
    const auto id = LockId::generate();
    backend->submit(holdfast::AcquireRequest{.id = id, .key = key, .ttl = ttl}, {},
                    holdfast::Done<holdfast::AcquireOutcome>::into(acquired));
    holdfast::Slot<holdfast::ReleaseOutcome> released;
    backend->submit(holdfast::ReleaseRequest{.lock = {.id = id, .key = key}}, {},
                    holdfast::Done<holdfast::ReleaseOutcome>::into(released));
    benchmark::DoNotOptimize(released);
  }
}
BENCHMARK(bare_pair)->Threads(1)->Threads(2)->UseRealTime();

void guarded_pair(benchmark::State& state) {
  static holdfast::Locks locks(backend);
  const auto key = "guarded-" + std::to_string(state.thread_index());
  for (auto _ : state) {
    const auto guard = locks.lock(key);
    benchmark::DoNotOptimize(guard.fence());
  }
}
BENCHMARK(guarded_pair)->Threads(1)->Threads(2)->UseRealTime();

void lock_id(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(LockId::generate());
}
BENCHMARK(lock_id);

}  // namespace

BENCHMARK_MAIN();
