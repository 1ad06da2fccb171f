#pragma once

#include <condition_variable>
#include <mutex>

#include "engine/sqlite/patience.hpp"

namespace holdfast::sqlite {

/// Which thread of this process uses the connection. A mutex one can give up waiting for (not
/// std::timed_mutex: ThreadSanitizer of g++ 12 does not know its timed wait).
class Turn {
 public:
  class Taken {
   public:
    explicit Taken(Turn& turn) noexcept : turn_(turn) {}
    ~Taken() { turn_.end(); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    Turn& turn_;
  };

  /// Throws when the patience is over, before anything has begun.
  [[nodiscard]] Taken take(const Patience& patience, const std::string& file) {
    constexpr std::chrono::nanoseconds look_up_every = std::chrono::milliseconds(20);
    if (patience.stopped() || patience.deadline_passed()) throw patience.exhausted(file);
    std::unique_lock lock(mutex_);
    while (taken_) {
      if (patience.over()) throw patience.exhausted(file);
      ended_.wait_for(lock, look_up_every);
    }
    taken_ = true;
    return Taken(*this);
  }

 private:
  void end() noexcept {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    ended_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool taken_ = false;
};

}  // namespace holdfast::sqlite
