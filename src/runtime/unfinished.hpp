#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace holdfast::runtime {

/// Counts pending background work, on whichever thread it ends, so that an owner can wait for all of it.
class Unfinished {
 public:
  /// One piece of pending work.
  class Piece {
   public:
    explicit Piece(const Unfinished& all) noexcept : count_(all.count_) { count_->fetch_add(1); }
    ~Piece() {
      if (count_->fetch_sub(1) == 1) count_->notify_all();
    }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    const std::shared_ptr<std::atomic<std::size_t>> count_;  ///< may outlive the waiter
  };

  /// For jobs, which must be copyable.
  [[nodiscard]] std::shared_ptr<const Piece> piece() const { return std::make_shared<const Piece>(*this); }

  [[nodiscard]] std::size_t count() const noexcept { return count_->load(); }
  [[nodiscard]] bool none() const noexcept { return count() == 0; }
  void wait_until_none() const noexcept {
    while (const auto left = count_->load()) count_->wait(left);
  }

 private:
  std::shared_ptr<std::atomic<std::size_t>> count_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace holdfast::runtime
