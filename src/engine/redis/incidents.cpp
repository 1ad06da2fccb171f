#include "engine/redis/incidents.hpp"

#include <holdfast/redis.hpp>
#include <string>

namespace holdfast::redis {
namespace {

Occurrence incident(Activity activity) {
  const auto now = BootClock::now();
  return {.activity = activity, .backend = redis_capabilities.backend, .started = now, .ended = now};
}

Occurrence regression(const LockKey& key, Fence fence) {
  auto occurrence = incident(Activity::fence_regression);
  occurrence.key = key.str();
  occurrence.fence = fence;
  return occurrence;
}

constexpr auto advice = ". Check the server's persistence and failovers: holdfast doctor";

}  // namespace

void Incidents::fence_regressed(const LockKey& key, std::uint64_t counter, std::uint64_t remembered,
                                Fence fence) const noexcept {
  report(regression(key, fence),
         "fence counter of key hash " + key_hash(key.str()) + " went back: it was " +
             std::to_string(counter) + " although this process was granted " + std::to_string(remembered) +
             ", so the server lost writes. The new fence is " + fence.to_string() + advice);
}

void Incidents::store_replaced(const LockKey& key, Fence fence) const noexcept {
  report(regression(key, fence),
         "the Redis store lost its fence counters: it has another authority than before, so its fences "
         "cannot be compared with earlier ones" +
             std::string(advice));
}

void Incidents::clock_jumped(std::chrono::milliseconds by) const noexcept {
  const bool forwards = by > std::chrono::milliseconds::zero();
  report(incident(Activity::clock_jump),
         "the clock of the Redis server jumped " + std::string(forwards ? "forwards" : "back") + " by " +
             std::to_string(std::chrono::abs(by).count()) + " ms against this machine's: leases ended " +
             (forwards ? "sooner" : "later") +
             " by that. Let the time service of both machines adjust clocks gradually (chrony, ntpd)");
}

void Incidents::report(const Occurrence& occurrence, std::string message) const noexcept {
  if (observer_) observer_->ended(occurrence);
  if (log_) log_->write(LogLevel::warning, std::move(message));
}

}  // namespace holdfast::redis
