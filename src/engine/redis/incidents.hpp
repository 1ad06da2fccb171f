#pragma once

#include <atomic>
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
  /// A grant by a master of this epoch, named `server`, has this fence. Reports once if the epoch is too high
  /// to be applied, or if the fence is above all fences of the epoch: then the next epoch does not bring
  /// higher ones, and a failover that loses writes may repeat fences.
  void granted_in_epoch(const std::string& server, std::uint64_t epoch, Fence fence) noexcept;
  /// The server's clock moved by this much against this machine's.
  void clock_jumped(std::chrono::milliseconds by) const noexcept;

 private:
  void report(const Occurrence& occurrence, std::string message) const noexcept;

  std::shared_ptr<Log> log_;
  std::shared_ptr<Observer> observer_;
  std::atomic<bool> warned_of_epoch_ = false;
};

}  // namespace holdfast::redis
