#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <holdfast/log.hpp>
#include <holdfast/observer.hpp>
#include <memory>

namespace holdfast::redis {

/// Reports to the log and to the observer what a server must not do but did: it lost writes, or its clock
/// jumped. Both may be null. Thread-safe; never throws.
class Incidents {
 public:
  Incidents(std::shared_ptr<Log> log, std::shared_ptr<Observer> observer)
      : log_(std::move(log)), observer_(std::move(observer)) {}

  /// The fence counter of the key was `counter`, although this client was granted `remembered` before. The
  /// grant that showed it has `fence`, which is above both.
  void fence_regressed(const LockKey& key, std::uint64_t counter, std::uint64_t remembered,
                       Fence fence) const noexcept;
  /// The store has another authority than before: it lost all its fence counters.
  void store_replaced(const LockKey& key, Fence fence) const noexcept;
  /// The server's clock moved by this much against this machine's.
  void clock_jumped(std::chrono::milliseconds by) const noexcept;

 private:
  void report(const Occurrence& occurrence, std::string message) const noexcept;

  std::shared_ptr<Log> log_;
  std::shared_ptr<Observer> observer_;
};

}  // namespace holdfast::redis
