// Takes and releases a lock of the memory engine N times, for callgrind to count the instructions of it: see
// the script `instructions`. Built twice, once without a mention of telemetry.
//   telemetry_instructions bare|guarded PAIRS [used]

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#ifdef HOLDFAST_WITH_TELEMETRY
#include <holdfast/instruments.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

using holdfast::LockBackend;

/// The engine alone.
void bare_pair(LockBackend& backend, const holdfast::LockId& id, const holdfast::LockKey& key,
               holdfast::Ttl ttl) {
  holdfast::Slot<holdfast::AcquireOutcome> acquired;
  backend.acquire({.id = id, .key = key, .ttl = ttl}, {},
                  holdfast::Done<holdfast::AcquireOutcome>::into(acquired));
  holdfast::Slot<holdfast::ReleaseOutcome> released;
  backend.release({.lock = {.id = id, .key = key}}, {},
                  holdfast::Done<holdfast::ReleaseOutcome>::into(released));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const bool guarded = std::string_view(argv[1]) == "guarded";
  const long pairs = std::strtol(argv[2], nullptr, 10);
  auto backend = holdfast::make_memory_lock_backend();
  std::shared_ptr<holdfast::Observer> observer;
#ifdef HOLDFAST_WITH_TELEMETRY
  if (argc > 3) {
    static long events = 0;
    observer = holdfast::observer_of({.metrics = std::make_shared<holdfast::Metrics>(),
                                      .telemetry = {.on_event = [](const auto&) { ++events; }}});
    backend = holdfast::with_observer(backend, observer);
  }
#endif
  holdfast::Locks locks(backend, {}, observer);
  const auto key = *holdfast::LockKey::parse("orders:42");
  const auto id = holdfast::LockId::generate();
  const auto ttl = *holdfast::Ttl::of(std::chrono::seconds(30));
  for (long i = 0; i < pairs; ++i) {
    if (guarded) {
      locks.lock("orders:42").release();
    } else {
      bare_pair(*backend, id, key, ttl);
    }
  }
}
