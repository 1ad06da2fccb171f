#pragma once

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <holdfast/sqlite.hpp>
#include <string>
#include <vector>

namespace bench {

using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime now() {
  return std::chrono::steady_clock::now();
}
inline double microseconds_since(SteadyTime start) {
  return std::chrono::duration<double, std::micro>(now() - start).count();
}

/// A directory below $HOLDFAST_BENCH_DIR (or /tmp) that is gone at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* below = std::getenv("HOLDFAST_BENCH_DIR");
    std::string name = std::string(below == nullptr ? "/tmp" : below) + "/holdfast-bench-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] std::filesystem::path file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::shared_ptr<holdfast::LockBackend> open(const std::filesystem::path& file) {
  return holdfast::make_sqlite_lock_backend(file).value_or_throw();
}

/// One attempt; the engine completes inline.
inline holdfast::AcquireOutcome acquire(holdfast::LockBackend& backend, const holdfast::LockId& id,
                                        const holdfast::LockKey& key, holdfast::Durability durability) {
  holdfast::Slot<holdfast::AcquireOutcome> slot;
  backend.submit(holdfast::AcquireRequest{.id = id,
                                          .key = key,
                                          .ttl = *holdfast::Ttl::of(std::chrono::seconds(30)),
                                          .durability = durability},
                 {}, holdfast::Done<holdfast::AcquireOutcome>::into(slot));
  return std::move(*slot.result).value_or_throw();
}

inline std::unique_ptr<holdfast::Watch> watch(holdfast::LockBackend& backend, const holdfast::LockKey& key) {
  holdfast::Slot<std::unique_ptr<holdfast::Watch>> slot;
  backend.submit(holdfast::WatchRequest{.key = key}, {},
                 holdfast::Done<std::unique_ptr<holdfast::Watch>>::into(slot));
  return std::move(*slot.result).value_or_throw();
}

/// Sleeps on this thread.
inline bool wait_until(holdfast::Watch& watch, holdfast::BootTime deadline) {
  holdfast::Slot<bool> slot;
  watch.wait(deadline, deadline, {}, holdfast::Done<bool>::into(slot));
  return **slot.result;
}

inline void release(holdfast::LockBackend& backend, const holdfast::LockId& id, const holdfast::LockKey& key,
                    holdfast::Durability durability) {
  holdfast::Slot<holdfast::ReleaseOutcome> slot;
  backend.submit(holdfast::ReleaseRequest{.lock = {.id = id, .key = key}, .durability = durability}, {},
                 holdfast::Done<holdfast::ReleaseOutcome>::into(slot));
  static_cast<void>(std::move(*slot.result).value_or_throw());
}

struct Spread {
  double p50 = 0, p99 = 0, p999 = 0, max = 0;
};
inline Spread spread(std::vector<double>& values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  return {.p50 = at(0.5), .p99 = at(0.99), .p999 = at(0.999), .max = values.back()};
}

}  // namespace bench
