#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <holdfast/lock_backend.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

/// The watches of one queue in this process. The process is registered in Redis as one that waits while it
/// has an idle worker; a new task wakes one of the registered processes. Thread-safe.
class QueueWaits {
 public:
  /// `wake_one` wakes a watch of this queue.
  explicit QueueWaits(std::function<void()> wake_one) : wake_one_(std::move(wake_one)) {}

  /// Whether this process waits, as parts/queue_take.lua names it.
  [[nodiscard]] std::string_view waiting() const noexcept {
    if (sleepers_.load(std::memory_order_relaxed) > 0) return "3";
    return may_be_registered_.load(std::memory_order_relaxed) ? "2" : "1";
  }
  /// The answer to a claim that was sent with `waiting`.
  void answered(std::string_view waiting, bool claimed, bool wakes_another) {
    may_be_registered_.store(!claimed || waiting == "3", std::memory_order_relaxed);
    if (wakes_another) wake_one_();
  }

  void begin_sleep() noexcept { sleepers_.fetch_add(1, std::memory_order_relaxed); }
  void end_sleep() noexcept { sleepers_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const std::function<void()> wake_one_;
  std::atomic<std::uint32_t> sleepers_ = 0;
  std::atomic<bool> may_be_registered_ = false;
};

/// The queues that this process watches. Thread-safe.
class WatchedQueues {
 public:
  /// The queue of this owner, made by `make` unless it is watched already.
  template <class Make>
  std::shared_ptr<QueueWaits> watch(const std::string& owner, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const auto& queue) { return queue.second.expired(); });
    auto& known = queues_[owner];
    auto queue = known.lock();
    if (!queue) known = queue = make();
    return queue;
  }
  /// Null if it is not watched.
  [[nodiscard]] std::shared_ptr<QueueWaits> find(std::string_view owner) const {
    const std::lock_guard lock(mutex_);
    const auto at = queues_.find(owner);
    return at == queues_.end() ? nullptr : at->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<QueueWaits>, std::less<>> queues_;
};

/// A watch of a queue: counts while it sleeps.
class QueueWatch final : public Watch {
 public:
  QueueWatch(std::shared_ptr<QueueWaits> queue, std::unique_ptr<Watch> watch)
      : queue_(std::move(queue)), watch_(std::move(watch)) {}

  void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) override {
    queue_->begin_sleep();
    // Ended before the completion, whose thread may claim next.
    watch_->wait(look_again_at, deadline, std::move(stop),
                 Done<bool>::looked_at(std::move(woken),
                                       [queue = queue_](const Result<bool>&) { queue->end_sleep(); }));
  }
  void pass_on() noexcept override { watch_->pass_on(); }

 private:
  const std::shared_ptr<QueueWaits> queue_;
  const std::unique_ptr<Watch> watch_;
};

/// Gives each claim that is under way a slot of its own, the lowest that is free: Redis remembers the last
/// claim of each. Thread-safe.
class ClaimSlots {
 public:
  class Taken {
   public:
    explicit Taken(std::shared_ptr<ClaimSlots> slots) : slots_(std::move(slots)), numbers_(slots_->take()) {}
    Taken(Taken&&) = default;
    Taken& operator=(Taken&&) = delete;
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
      if (slots_) slots_->free(numbers_.first);
    }
    [[nodiscard]] std::uint32_t slot() const noexcept { return numbers_.first; }
    /// Rises with each claim of this process.
    [[nodiscard]] std::uint64_t call() const noexcept { return numbers_.second; }

   private:
    std::shared_ptr<ClaimSlots> slots_;
    std::pair<std::uint32_t, std::uint64_t> numbers_;
  };

 private:
  std::pair<std::uint32_t, std::uint64_t> take() {
    const std::lock_guard lock(mutex_);
    ++calls_;
    if (free_.empty()) return {next_++, calls_};
    std::ranges::pop_heap(free_, std::greater());
    const auto slot = free_.back();
    free_.pop_back();
    return {slot, calls_};
  }
  void free(std::uint32_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
    std::ranges::push_heap(free_, std::greater());
  }

  std::mutex mutex_;
  std::vector<std::uint32_t> free_;  ///< a heap, the lowest first
  std::uint32_t next_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace holdfast::redis
