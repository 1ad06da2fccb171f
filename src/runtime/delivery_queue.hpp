#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {

/// Delivers items to user code on a dedicated thread, one after another. User code may block or throw without
/// affecting the senders, which never wait for it. When it falls too far behind, new items are dropped; the
/// next delivered item carries their number. Thread-safe.
template <class Item>
class DeliveryQueue {
 public:
  using Receive = std::function<void(Item& item, std::size_t dropped_before)>;

  /// `most`: items that may be queued at once.
  DeliveryQueue(std::size_t most, Receive receive)
      : state_(std::make_shared<State>(most, std::move(receive))) {}

  /// Waits until every item is received, unless it runs on a thread of the library.
  ~DeliveryQueue() {
    // In a forked child, a thread of the parent may have been changing the state: leak it untouched.
    if (!thread_.in_own_process()) new std::shared_ptr<State>(std::move(state_));
  }
  DeliveryQueue(const DeliveryQueue&) = delete;
  DeliveryQueue& operator=(const DeliveryQueue&) = delete;

  /// False if the item was dropped; in a forked child it always is.
  bool push(Item item) noexcept {
    if (!thread_.in_own_process()) return false;
    if (state_->on_the_way.fetch_add(1) >= state_->most || !add(item)) {
      state_->on_the_way.fetch_sub(1);
      state_->dropped.fetch_add(1);
      return false;
    }
    return true;
  }

  /// Waits until all items pushed before are received. On a thread of the library it does nothing.
  void flush() {
    if (WorkerPool::on_library_thread() || !thread_.in_own_process()) return;
    {
      // No item was ever pushed. A thread started for this would not be free at once for the next item,
      // which would be dropped.
      const std::lock_guard lock(state_->mutex);
      if (!state_->has_thread) return;
    }
    auto reached = std::make_shared<std::promise<void>>();
    thread_.post([reached] { reached->set_value(); });
    reached->get_future().wait();
  }

 private:
  /// Shared with the thread, which may outlive the queue.
  struct State {
    State(std::size_t limit, Receive function) : most(limit), receive(std::move(function)) {}

    const std::size_t most;
    const Receive receive;
    std::atomic<std::size_t> on_the_way{0};
    std::atomic<std::size_t> dropped{0};
    std::mutex mutex;
    std::vector<Item> waiting;
    bool has_thread = false;
    bool fetched = false;     ///< a job is posted that will take the waiting items
    std::vector<Item> taken;  ///< of the thread alone

    /// Takes only the items that wait now, so that a flush queued behind it gets its turn.
    void deliver() noexcept {
      {
        const std::lock_guard lock(mutex);
        taken.swap(waiting);
        fetched = false;
      }
      for (auto& next : taken) {
        {
          Item item = std::move(next);  // destroyed before the next is received
          try {
            receive(item, dropped.exchange(0));
          } catch (...) {  // NOLINT(bugprone-empty-catch): there is no other place to report it
          }
        }
        on_the_way.fetch_sub(1);
      }
      taken.clear();
    }
  };

  bool add(Item& item) noexcept {
    try {
      const std::lock_guard lock(state_->mutex);
      state_->waiting.push_back(std::move(item));
      try {
        if (!state_->fetched) state_->fetched = fetch();
      } catch (...) {
        state_->waiting.pop_back();
        throw;
      }
      if (!state_->fetched) state_->waiting.pop_back();
      return state_->fetched;
    } catch (...) {  // out of memory: only the report is lost, not the event
      return false;
    }
  }

  /// Never runs on this thread, unlike `post` on a machine without a free thread.
  bool fetch() {
    auto job = [state = state_] { state->deliver(); };
    if (state_->has_thread) {
      thread_.post(std::move(job));
    } else {
      state_->has_thread = thread_.try_post(std::move(job));
    }
    return state_->has_thread;
  }

  std::shared_ptr<State> state_;
  WorkerPool thread_{1};
};

}  // namespace holdfast::runtime
