#include "engine/redis/incidents.hpp"

#include <holdfast/redis.hpp>
#include <string>

#include "engine/redis/conn/fence_floor.hpp"

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

void Incidents::granted_in_epoch(const std::string& server, std::uint64_t epoch, Fence fence) noexcept {
  const bool too_high = epoch > highest_epoch;
  if (!too_high && fence.value() < (epoch + 1) * fences_per_epoch) return;
  if (warned_of_epoch_.exchange(true)) return;
  const auto why = too_high ? " is above " + std::to_string(highest_epoch) + " and is not applied"
                            : " is lower than the fence counters show (" + fence.to_string() +
                                  "), because the data is of another cluster or the epochs were lost";
  report(incident(Activity::unusable_epoch),
         server + ": its epoch " + std::to_string(epoch) + why +
             ". A failover that loses writes may repeat fences. What to do: holdfast doctor");
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
