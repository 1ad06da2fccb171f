#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <holdfast/locks.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "bench/samples.hpp"

namespace holdfast::cli {

/// The only keys that are locked, so that runs leave no more than one run does. The prefix keeps them apart
/// from a user's keys; that of the store is the user's, because a Redis user may have no rights elsewhere.
inline constexpr std::array<std::string_view, 8> bench_keys{
    "holdfast-bench:1", "holdfast-bench:2", "holdfast-bench:3", "holdfast-bench:4",
    "holdfast-bench:5", "holdfast-bench:6", "holdfast-bench:7", "holdfast-bench:8"};

struct BenchLimits {
  std::chrono::milliseconds time;  ///< of all measurements together
  double rate;                     ///< pairs (or reads, or extends) per second
};

/// Calls of one kind.
struct Measurement {
  std::string_view name;         ///< for JSON
  std::string_view description;  ///< for people
  Samples took = {};
  /// How long only these calls were made; zero for parts of other calls.
  std::chrono::duration<double> busy = {};

  [[nodiscard]] std::optional<double> per_second() const {
    if (busy.count() <= 0) return std::nullopt;
    return static_cast<double>(took.count()) / busy.count();
  }
};

/// What is measured next.
struct BenchStep {
  std::string_view what;
  int round;  ///< from 1 to `rounds`
  int rounds;
};

/// Measures the locks of a store: in rounds of a second, one kind of call after the other. So what else the
/// machine and the store do meanwhile hits all kinds alike.
class Workload {
 public:
  /// `waiter`: the same store, opened a second time, as another process would; `locks` again for a store that
  /// cannot be opened twice. `on_step` is called before each kind of each round.
  Workload(Locks locks, Locks waiter, BenchLimits limits, std::stop_token stop,
           std::function<void(const BenchStep&)> on_step);

  /// Makes all measurements. After a stop request it returns soon, and results() are those until then. Throws
  /// Error, AcquisitionTimeout if one of the keys is held. No lock is held afterwards, except by a store that
  /// failed.
  void run();

  /// Kinds that were not measured are left out.
  [[nodiscard]] const std::vector<Measurement>& results() const noexcept { return results_; }
  /// How many locks were granted: by how much fences rose.
  [[nodiscard]] std::size_t grants() const noexcept { return grants_; }

 private:
  void check_keys();
  void measure_reads(std::chrono::milliseconds length);
  void measure_pairs(std::chrono::milliseconds length);
  void measure_extends(std::chrono::milliseconds length);
  void measure_parallel_pairs(std::chrono::milliseconds length);
  void measure_hand_offs(std::chrono::milliseconds length);
  [[nodiscard]] Guard acquire(std::string_view key) const;
  void keep(Measurement measured);

  Locks locks_;
  Locks waiter_;
  BenchLimits limits_;
  std::stop_token stop_;
  std::function<void(const BenchStep&)> on_step_;
  std::vector<Measurement> results_;
  std::size_t grants_ = 0;
};

}  // namespace holdfast::cli
