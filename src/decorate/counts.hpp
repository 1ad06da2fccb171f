#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/observer.hpp>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace holdfast::decorate {

/// Relaxed atomic counter.
class Counter {
 public:
  void add(std::uint64_t by = 1) noexcept { value_.fetch_add(by, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Counts durations by upper bound, in seconds.
class Histogram {
 public:
  static constexpr std::size_t bounds = 16;
  /// For operations: from below a round trip on the same machine up to an overloaded server.
  static constexpr std::array<double, bounds> short_times{
      0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};
  /// For waiting and holding, which may take much longer.
  static constexpr std::array<double, bounds> long_times{0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5,  1,
                                                         2.5,   5,     10,   30,   60,  300,  1800, 7200};

  void record(std::chrono::nanoseconds time, const std::array<double, bounds>& upper) noexcept {
    const auto seconds = std::chrono::duration<double>(time).count();
    std::size_t bucket = 0;
    while (bucket < bounds && seconds > upper[bucket]) ++bucket;
    buckets_[bucket].add();
    nanoseconds_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
  }

  /// The last bucket counts durations above every bound.
  [[nodiscard]] const std::array<Counter, bounds + 1>& buckets() const noexcept { return buckets_; }
  [[nodiscard]] std::uint64_t nanoseconds() const noexcept { return nanoseconds_.value(); }

 private:
  std::array<Counter, bounds + 1> buckets_{};
  Counter nanoseconds_;
};

inline constexpr std::size_t error_code_count = static_cast<std::size_t>(ErrorCode::WrongLock) + 1;

/// The counts of one kind of activity.
struct ActivityCounts {
  Counter begun;
  Counter ok;
  std::array<Counter, reason_count> refused{};
  std::array<Counter, error_code_count> failed{};
  Histogram time;

  [[nodiscard]] std::uint64_t not_ok() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& count : refused) sum += count.value();
    for (const auto& count : failed) sum += count.value();
    return sum;
  }
};

struct EngineCounts {
  explicit EngineCounts(std::string_view engine) : name(engine) {}
  const std::string name;
  std::array<ActivityCounts, activity_count> activities{};

  [[nodiscard]] const ActivityCounts& of(Activity activity) const noexcept {
    return activities[static_cast<std::size_t>(activity)];
  }
};

/// Whether its durations need the buckets for waiting and holding.
[[nodiscard]] constexpr bool takes_long(Activity activity) noexcept {
  return activity == Activity::wait || activity == Activity::hold || activity == Activity::reconnect;
}
[[nodiscard]] constexpr const std::array<double, Histogram::bounds>& bounds_of(Activity activity) noexcept {
  return takes_long(activity) ? Histogram::long_times : Histogram::short_times;
}

/// The known engines, by name. There are few, so lookup is a linear search; none is ever removed.
class Engines {
 public:
  static constexpr std::size_t most = 8;

  ~Engines() {
    for (auto& engine : engines_) delete engine.load();
  }
  Engines() = default;
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

  /// Beyond the limit, or without memory, all engines share one entry: "other".
  [[nodiscard]] EngineCounts& of(std::string_view name) noexcept {
    for (auto& place : engines_) {
      auto* engine = place.load(std::memory_order_acquire);
      if (engine == nullptr) engine = settle(place, name);
      if (engine != nullptr && engine->name == name) return *engine;
    }
    return other_;
  }

  template <class F>
  void for_each(F&& function) const {
    for (const auto& place : engines_) {
      if (const auto* engine = place.load(std::memory_order_acquire)) function(*engine);
    }
    for (const auto& activity : other_.activities) {
      if (activity.begun.value() + activity.ok.value() + activity.not_ok() > 0) return function(other_);
    }
  }

 private:
  /// Creates the entry of this place; the first of several racing threads wins.
  static EngineCounts* settle(std::atomic<EngineCounts*>& place, std::string_view name) noexcept {
    try {
      auto fresh = std::make_unique<EngineCounts>(name);
      EngineCounts* present = nullptr;
      if (!place.compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel)) return present;
      return fresh.release();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  std::array<std::atomic<EngineCounts*>, most> engines_{};
  EngineCounts other_{"other"};
};

/// The counts in the Prometheus text format, version 0.0.4. Counters are present from the start, with 0, so
/// that a rate sees their first event. Counters by reason and the durations of operations appear with their
/// first event.
[[nodiscard]] std::string prometheus(const Engines& engines, std::uint64_t dropped_events);

}  // namespace holdfast::decorate
