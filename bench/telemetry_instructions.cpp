// Takes and releases a lock of the memory engine N times, for callgrind to count the instructions of it: see
// the script `instructions`. Built twice, once without a mention of telemetry.
//   telemetry_instructions bare|guarded PAIRS [used|metrics]

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#ifdef HOLDFAST_WITH_TELEMETRY
#include <holdfast/instruments.hpp>
#endif

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace {

using holdfast::LockBackend;

// The counted code is compiled as separate functions, alike in both builds; inside main it would depend on
// the code around it.

/// The engine alone.
[[gnu::noinline]] void bare_pairs(LockBackend& backend, long pairs) {
  const auto key = *holdfast::LockKey::parse("orders:42");
  const auto id = *holdfast::LockId::parse("0123456789abcdefghij-_");  // not random: hashed alike each time
  const auto ttl = *holdfast::Ttl::of(std::chrono::seconds(30));
  for (long i = 0; i < pairs; ++i) {
    holdfast::Slot<holdfast::AcquireOutcome> acquired;
    backend.submit(holdfast::AcquireRequest{.id = id, .key = key, .ttl = ttl}, {},
                   holdfast::Done<holdfast::AcquireOutcome>::into(acquired));
    holdfast::Slot<holdfast::ReleaseOutcome> released;
    backend.submit(holdfast::ReleaseRequest{.lock = {.id = id, .key = key}}, {},
                   holdfast::Done<holdfast::ReleaseOutcome>::into(released));
  }
}

[[gnu::noinline]] void guarded_pairs(const holdfast::Locks& locks, long pairs) {
  for (long i = 0; i < pairs; ++i) locks.lock("orders:42").release();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const bool guarded = std::string_view(argv[1]) == "guarded";
  const long pairs = std::strtol(argv[2], nullptr, 10);
  // A clock that stands: how many instructions the kernel's takes depends on what it shows.
  auto backend = holdfast::make_memory_lock_backend(
      {.clock = [](void*) { return holdfast::WallTime(std::chrono::milliseconds(1'700'000'000'000)); }});
  std::shared_ptr<holdfast::Observer> observer;
#ifdef HOLDFAST_WITH_TELEMETRY
  if (argc > 3) {
    static std::atomic<long> events = 0;
    holdfast::Instruments instruments;
    instruments.metrics = std::make_shared<holdfast::Metrics>();
    if (std::string_view(argv[3]) == "used") instruments.telemetry.on_event = [](const auto&) { ++events; };
    observer = holdfast::observer_of(instruments);
    backend = holdfast::with_observer(backend, observer);
  }
#endif
  holdfast::Locks locks(backend, {}, observer);
  if (guarded) {
    guarded_pairs(locks, pairs);
  } else {
    bare_pairs(*backend, pairs);
  }
}
