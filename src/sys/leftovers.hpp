#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace holdfast::sys {

/// Counts what nobody owns any more but has not ended yet, on whichever thread it will, for one who waits
/// until nothing of it is left.
class Leftovers {
 public:
  /// One of them, from `count_in` to its end.
  class One {
   public:
    explicit One(const Leftovers& leftovers) noexcept : count_(leftovers.count_) {}
    ~One() {
      if (counted_ && count_->fetch_sub(1) == 1) count_->notify_all();
    }
    One(const One&) = delete;
    One& operator=(const One&) = delete;

    /// At most once.
    void count_in() noexcept {
      counted_ = true;
      count_->fetch_add(1);
    }

   private:
    const std::shared_ptr<std::atomic<std::size_t>> count_;  ///< whoever waits may be gone at once
    bool counted_ = false;
  };

  void wait_until_none() const noexcept {
    while (const auto left = count_->load()) count_->wait(left);
  }

 private:
  std::shared_ptr<std::atomic<std::size_t>> count_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace holdfast::sys
