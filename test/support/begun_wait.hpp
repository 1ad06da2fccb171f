#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <mutex>
#include <optional>

namespace holdfast::test {

/// A wait without a thread, and how it ended.
class BegunWait {
 public:
  /// `on_end` runs in the completion, before the end is visible to other threads.
  explicit BegunWait(Watch& watch, BootTime look_again_at = never, BootTime deadline = never,
                     std::stop_token stop = {}, std::function<void(bool)> on_end = {})
      : end_(std::make_shared<End>()) {
    watch.wait(look_again_at, deadline, std::move(stop),
               [end = end_, on_end = std::move(on_end)](const Result<bool>& woken) {
                 if (on_end) on_end(*woken);
                 const std::lock_guard lock(end->mutex);
                 if (end->woken) std::terminate();  // ended twice
                 end->woken = *woken;
                 end->changed.notify_all();
               });
  }

  /// Empty if it has not ended.
  [[nodiscard]] std::optional<bool> ended() const {
    const std::lock_guard lock(end_->mutex);
    return end_->woken;
  }
  /// Waits for its end, for a limited time.
  [[nodiscard]] std::optional<bool> end() const {
    std::unique_lock lock(end_->mutex);
    end_->changed.wait_for(lock, std::chrono::seconds(20), [&] { return end_->woken.has_value(); });
    return end_->woken;
  }

 private:
  struct End {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::optional<bool> woken;
  };
  std::shared_ptr<End> end_;
};

inline void begin_watch(LockBackend& backend, const LockKey& key, BootTime deadline, std::stop_token stop,
                        Done<std::unique_ptr<Watch>> done) {
  backend.submit(WatchRequest{.key = key, .deadline = deadline}, std::move(stop), std::move(done));
}
inline void begin_watch(StorageBackend& backend, const RecordKey& key, BootTime deadline,
                        std::stop_token stop, Done<std::unique_ptr<Watch>> done) {
  backend.submit(WatchRecord{.key = key, .deadline = deadline}, std::move(stop), std::move(done));
}

/// A watch that was begun without a thread. Null too if it did not come.
template <class Backend, class Key>
std::unique_ptr<Watch> begun_watch(Backend& backend, const Key& key, BootTime deadline = never,
                                   std::stop_token stop = {}) {
  const auto made = std::make_shared<std::promise<std::unique_ptr<Watch>>>();
  auto future = made->get_future();
  begin_watch(backend, key, deadline, std::move(stop), [made](Result<std::unique_ptr<Watch>> watch) {
    made->set_value(std::move(watch).value_or_throw());
  });
  if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) return nullptr;
  return future.get();
}

}  // namespace holdfast::test
