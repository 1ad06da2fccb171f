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

/// Hands things over to a thread of its own, where user code receives them, one after another. It may block
/// or throw without disturbing those who hand over: they never wait for it, and when it falls too far behind,
/// what comes is dropped and the number told with the next that is not. Thread-safe.
template <class Item>
class Courier {
 public:
  using Receive = std::function<void(Item& item, std::size_t dropped_before)>;

  /// `most`: may be on their way at once.
  Courier(std::size_t most, Receive receive) : state_(std::make_shared<State>(most, std::move(receive))) {}

  /// Waits until everything is received, unless it is called from a thread of the library.
  ~Courier() {
    // In a forked child it may be in the middle of a change by a thread that is not here: leave it alone.
    if (!thread_.in_own_process()) new std::shared_ptr<State>(std::move(state_));
  }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// False if it was dropped; in a forked child it always is.
  bool hand_over(Item item) noexcept {
    if (!thread_.in_own_process()) return false;
    if (state_->on_the_way.fetch_add(1) >= state_->most || !add(item)) {
      state_->on_the_way.fetch_sub(1);
      state_->dropped.fetch_add(1);
      return false;
    }
    return true;
  }

  /// Waits until what was handed over before is received. On a thread of the library it does nothing.
  void flush() {
    if (WorkerPool::on_library_thread() || !thread_.in_own_process()) return;
    {
      // Nothing was ever handed over. And a thread that starts for this is not at once free for what comes
      // next, which would be dropped.
      const std::lock_guard lock(state_->mutex);
      if (!state_->has_thread) return;
    }
    auto reached = std::make_shared<std::promise<void>>();
    thread_.post([reached] { reached->set_value(); });
    reached->get_future().wait();
  }

 private:
  /// Shared with the thread, which may outlive the courier.
  struct State {
    State(std::size_t limit, Receive function) : most(limit), receive(std::move(function)) {}

    const std::size_t most;
    const Receive receive;
    std::atomic<std::size_t> on_the_way{0};
    std::atomic<std::size_t> dropped{0};
    std::mutex mutex;
    std::vector<Item> waiting;
    bool has_thread = false;
    bool fetched = false;     ///< a job is posted that will take what waits
    std::vector<Item> taken;  ///< of the thread alone

    /// Takes what waits now and no more, so that a flush behind it gets its turn.
    void deliver() noexcept {
      {
        const std::lock_guard lock(mutex);
        taken.swap(waiting);
        fetched = false;
      }
      for (auto& next : taken) {
        {
          Item item = std::move(next);  // ends before the next is received
          try {
            receive(item, dropped.exchange(0));
          } catch (...) {  // NOLINT(bugprone-empty-catch): its failure has nowhere else to go
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
    } catch (...) {  // out of memory: the item is lost, what it tells of is not
      return false;
    }
  }

  /// Never on this thread, as `post` would where the machine has no thread to give.
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
