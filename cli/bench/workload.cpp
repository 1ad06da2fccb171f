#include "bench/workload.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using Clock = Pace::Clock;

/// Short: if this process is killed, the keys are free after this time.
constexpr milliseconds bench_lease{10'000};

/// Sleeps until then, or until a stop is requested.
void sleep_until(Clock::time_point time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop, time, [] { return false; });
}

/// Calls `call` at most so often per second, until `end` or a stop request. Returns how long it took.
template <class Call>
std::chrono::duration<double> repeat(double rate, Clock::time_point end, const std::stop_token& stop,
                                     const Call& call) {
  const auto start = Clock::now();
  Pace pace(rate, start);
  for (auto now = start; now < end && !stop.stop_requested(); now = Clock::now()) {
    const auto turn = pace.next_turn(now);
    if (turn > now) sleep_until(std::min(turn, end), stop);
    if (turn >= end || stop.stop_requested()) break;
    try {
      call();
    } catch (const Error&) {
      if (!stop.stop_requested()) throw;
      break;  // it was cut off
    }
  }
  return Clock::now() - start;
}

[[nodiscard]] LockOptions held_briefly() {
  return {.ttl = bench_lease};
}

}  // namespace

Workload::Workload(Locks locks, Locks waiter, BenchLimits limits, std::stop_token stop,
                   std::function<void(const BenchStep&)> on_step)
    : locks_(std::move(locks)),
      waiter_(std::move(waiter)),
      limits_(limits),
      stop_(std::move(stop)),
      on_step_(std::move(on_step)) {}

void Workload::run() {
  using Step = void (Workload::*)(milliseconds);
  struct Planned {
    std::string_view what;
    int tenths;
    Step step;
  };
  constexpr std::array plan{
      Planned{"reads, one at a time", 1, &Workload::measure_reads},
      Planned{"acquire and release, one pair at a time", 3, &Workload::measure_pairs},
      Planned{"extends, one at a time", 1, &Workload::measure_extends},
      Planned{"acquire and release, eight pairs in flight", 3, &Workload::measure_parallel_pairs},
      Planned{"hand-offs to a waiter", 2, &Workload::measure_hand_offs},
  };
  const int rounds = std::max(1, static_cast<int>(limits_.time / std::chrono::seconds(1)));
  try {
    check_keys();
    for (int round = 1; round <= rounds; ++round) {
      for (const auto& planned : plan) {
        if (stop_.stop_requested()) return;
        on_step_({.what = planned.what, .round = round, .rounds = rounds});
        (this->*planned.step)(limits_.time * planned.tenths / (10 * rounds));
      }
    }
  } catch (const Error&) {
    if (!stop_.stop_requested()) throw;
  }
}

Guard Workload::acquire(std::string_view key) const {
  if (auto guard = locks_.try_lock(key, held_briefly(), stop_)) return *std::move(guard);
  std::string holder;
  if (const auto held = locks_.get_by_key(key, stop_); held && held->holder) holder = held->holder->str();
  throw Error(ErrorCode::AcquisitionTimeout,
              quote(key) + " is held" + (holder.empty() ? "" : " by " + holder) +
                  ". Another bench uses this store; try again when it has ended");
}

void Workload::check_keys() {
  for (const auto key : bench_keys) {
    acquire(key).release();
    ++grants_;
  }
}

void Workload::keep(Measurement measured) {
  if (measured.took.empty()) return;
  const auto same = std::ranges::find(results_, measured.name, &Measurement::name);
  if (same == results_.end()) {
    results_.push_back(std::move(measured));
  } else {
    same->took.add(measured.took);
    same->busy += measured.busy;
  }
}

void Workload::measure_reads(milliseconds length) {
  Measurement read{.name = "read", .description = "read: is a key locked?"};
  (void)locks_.is_locked(bench_keys[0], stop_);  // a Redis server may have to get the script first
  const auto call = [&] {
    const auto start = Clock::now();
    (void)locks_.is_locked(bench_keys[0], stop_);
    read.took.add(Clock::now() - start);
  };
  read.busy = repeat(limits_.rate, Clock::now() + length, stop_, call);
  keep(std::move(read));
}

void Workload::measure_pairs(milliseconds length) {
  Measurement acquired{.name = "acquire", .description = "acquire"};
  Measurement released{.name = "release", .description = "release"};
  Measurement both{.name = "pair", .description = "acquire + release"};
  const auto call = [&] {
    const auto start = Clock::now();
    auto guard = acquire(bench_keys[0]);
    const auto granted = Clock::now();
    guard.release();
    const auto end = Clock::now();
    ++grants_;
    acquired.took.add(granted - start);
    released.took.add(end - granted);
    both.took.add(end - start);
  };
  both.busy = repeat(limits_.rate, Clock::now() + length, stop_, call);
  keep(std::move(acquired));
  keep(std::move(released));
  keep(std::move(both));
}

void Workload::measure_extends(milliseconds length) {
  Measurement extended{.name = "extend", .description = "extend"};
  auto guard = acquire(bench_keys[0]);
  ++grants_;
  const auto call = [&] {
    const auto start = Clock::now();
    if (!guard.extend(bench_lease)) {
      throw Error(ErrorCode::Internal,
                  "the lock " + quote(bench_keys[0]) + " was lost during the measurement");
    }
    extended.took.add(Clock::now() - start);
  };
  (void)guard.extend(bench_lease);
  extended.busy = repeat(limits_.rate, Clock::now() + length, stop_, call);
  guard.release();
  keep(std::move(extended));
}

void Workload::measure_parallel_pairs(milliseconds length) {
  struct Thread {
    Samples took;
    std::exception_ptr error = nullptr;
  };
  std::array<Thread, bench_keys.size()> threads;
  const auto begun = Clock::now();
  const auto end = begun + length;
  {
    std::vector<std::jthread> running;
    running.reserve(threads.size());
    for (std::size_t i = 0; i < threads.size(); ++i) {
      running.emplace_back([this, end, key = bench_keys[i], &thread = threads[i]] {
        const auto call = [&] {
          const auto start = Clock::now();
          acquire(key).release();
          thread.took.add(Clock::now() - start);
        };
        try {
          (void)repeat(limits_.rate / static_cast<double>(bench_keys.size()), end, stop_, call);
        } catch (...) {
          thread.error = std::current_exception();
        }
      });
    }
  }
  Measurement all{.name = "pair_8", .description = "acquire + release, 8 in flight"};
  for (const auto& thread : threads) {
    all.took.add(thread.took);
  }
  all.busy = Clock::now() - begun;
  grants_ += all.took.count();
  keep(std::move(all));
  for (const auto& thread : threads) {
    if (thread.error) std::rethrow_exception(thread.error);
  }
}

void Workload::measure_hand_offs(milliseconds length) {
  Measurement handed{.name = "hand_off", .description = "hand-off to a waiter"};
  const auto key = bench_keys.back();
  // Until the waiter sleeps: it fails to acquire, listens for the release, and fails again.
  const auto until_it_waits = milliseconds(5) + 4 * results_.front().took.percentile(0.5);
  const auto call = [&] {
    auto guard = acquire(key);
    Clock::time_point granted;
    std::exception_ptr error;
    std::jthread waiter([&] {
      try {
        auto next = waiter_.lock(key, {.ttl = bench_lease, .wait = bench_lease}, stop_);
        granted = Clock::now();
        next.release();
      } catch (...) {
        error = std::current_exception();
      }
    });
    sleep_until(Clock::now() + until_it_waits, stop_);
    const auto start = Clock::now();
    guard.release();
    waiter.join();
    if (error) std::rethrow_exception(error);
    grants_ += 2;
    handed.took.add(granted - start);
  };
  repeat(limits_.rate, Clock::now() + length, stop_, call);
  keep(std::move(handed));
}

}  // namespace holdfast::cli
