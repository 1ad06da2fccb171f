#pragma once

#include <functional>
#include <holdfast/open.hpp>
#include <memory>

#include "view/read_pace.hpp"
#include "view/snapshot.hpp"

namespace holdfast::view {

/// Keeps a snapshot of a store up to date for all viewers of this process: one thread reads, and only while
/// there is a viewer.
///
/// A store that does not answer is retried with growing pauses; the snapshot says so. Locks and tasks are
/// never changed. All functions may be called from any thread.
///
/// @code
/// view::StoreView store(holdfast::open("redis://cache.internal"));
/// auto viewer = store.subscribe([](const std::shared_ptr<const view::Snapshot>& snapshot) { ... });
/// @endcode
class StoreView {
 public:
  struct Options {
    Limits limits = {};
    ReadPace::Options pace = {};
    /// Snapshots are made at most this often.
    std::chrono::milliseconds between_snapshots = std::chrono::milliseconds(200);
  };
  /// Returns the options that suit the store's engine: a server's time is its clients', the time to read a
  /// file is this process's own.
  [[nodiscard]] static Options options_for(const Holdfast& store);

  /// Runs on the reading thread: it must neither block nor call a function of this object. An exception that
  /// it throws is dropped.
  using Callback = std::function<void(const std::shared_ptr<const Snapshot>&)>;
  /// Keeps a viewer subscribed until it is destroyed; after that its callback is not called, nor running
  /// (unless it destroys the subscription itself). May outlive the StoreView.
  class Subscription;

  /// Starts no thread and reads nothing yet.
  explicit StoreView(Holdfast store);
  StoreView(Holdfast store, const Options& options);
  /// Stops reading; a request to the store that is under way is cancelled.
  ~StoreView();
  StoreView(const StoreView&) = delete;
  StoreView& operator=(const StoreView&) = delete;

  /// Returns the last snapshot; never null. Before the first viewer came it is empty, and after the last one
  /// has left it becomes old: see Snapshot::age.
  [[nodiscard]] std::shared_ptr<const Snapshot> latest() const;
  /// Adds a viewer. Throws std::system_error if the reading thread cannot be started. `callback` may be
  /// empty.
  [[nodiscard]] Subscription subscribe(Callback callback = {});
  /// Reads what may have changed at once, for a viewer that changed it.
  void refresh_lock(std::string_view key);
  /// The same for a lock that this process has broken: the event says so.
  void refresh_broken_lock(std::string_view key);
  void refresh_task(std::string_view owner, std::string_view id);

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

class StoreView::Subscription {
 public:
  Subscription() noexcept = default;
  Subscription(Subscription&& other) noexcept = default;
  Subscription& operator=(Subscription&& other) noexcept;
  ~Subscription();

 private:
  friend class StoreView;
  Subscription(std::weak_ptr<Worker> worker, std::uint64_t id) noexcept
      : worker_(std::move(worker)), id_(id) {}
  void end() noexcept;
  std::weak_ptr<Worker> worker_;
  std::uint64_t id_ = 0;
};

}  // namespace holdfast::view
