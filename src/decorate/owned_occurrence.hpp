#pragma once

#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/observer.hpp>
#include <string>

namespace holdfast::decorate {

/// An occurrence queued for the thread that calls user code, with copies of everything that it viewed. The
/// raw key and lock id are destroyed with it; that thread hashes them.
struct OwnedOccurrence {
  explicit OwnedOccurrence(const Occurrence& what)
      : occurrence(what),
        backend(what.backend),
        key(what.key),
        lock_id(what.lock_id),
        broken_because(what.broken_because),
        holder(what.holder) {}

  [[nodiscard]] std::string key_hash() const { return hash_of(key); }
  [[nodiscard]] std::string lock_id_hash() const { return hash_of(lock_id); }

  Occurrence occurrence;  ///< its views are not valid any more
  std::string backend, key, lock_id, broken_because, holder;

 private:
  static std::string hash_of(const std::string& raw) {
    return raw.empty() ? std::string() : holdfast::key_hash(raw);
  }
};

/// Converts moments of the boot clock to the machine's other clocks, by their current difference. Two moments
/// converted by one object keep their distance, even if the wall clock was set in between.
class WallTime {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point of(BootTime at) const noexcept {
    return system_ - std::chrono::duration_cast<std::chrono::system_clock::duration>(boot_ - at);
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady(BootTime at) const noexcept {
    return steady_ - std::chrono::duration_cast<std::chrono::steady_clock::duration>(boot_ - at);
  }

 private:
  BootTime boot_ = BootClock::now();
  std::chrono::system_clock::time_point system_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point steady_ = std::chrono::steady_clock::now();
};

}  // namespace holdfast::decorate
