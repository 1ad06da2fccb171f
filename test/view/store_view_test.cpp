#include "view/store_view.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace holdfast::view {
namespace {

using namespace std::chrono_literals;

/// A viewer that waits for snapshots.
class Viewer {
 public:
  explicit Viewer(StoreView& view)
      : subscription_(view.subscribe([this](const auto& snapshot) {
          const std::lock_guard guard(mutex_);
          last_ = snapshot;
          changed_.notify_all();
        })) {}

  /// Empty after a minute without one that fits.
  template <class F>
  std::shared_ptr<const Snapshot> wait_for(F fits) {
    std::unique_lock guard(mutex_);
    changed_.wait_for(guard, 60s, [&] { return last_ && fits(*last_); });
    return last_ && fits(*last_) ? last_ : nullptr;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Snapshot> last_;
  StoreView::Subscription subscription_;
};

TEST(StoreView, ShowsLocksAndTasksAndTheirEnd) {
  auto store = open("memory:");
  auto tasks = store.tasks();
  const auto made = tasks.create("alice", {.method = "report"});
  auto guard = store.locks().lock("deploy");
  StoreView view(store);
  Viewer viewer(view);
  const auto first = viewer.wait_for([](const Snapshot& s) { return s.whole; });
  ASSERT_TRUE(first);
  ASSERT_EQ(first->locks.size(), 1U);
  EXPECT_EQ(first->locks[0]->key, "deploy");
  EXPECT_EQ(first->locks[0]->fence, guard.fence());
  EXPECT_FALSE(first->locks[0]->holder.empty());
  EXPECT_EQ(first->reachability, Reachability::up);
  ASSERT_EQ(first->tasks.size(), 1U);
  EXPECT_EQ(first->tasks[0]->id, made.id);
  EXPECT_EQ(first->tasks[0]->method, "report");

  guard.release();
  auto claim = tasks.claim("alice", made.id);
  const auto claimed = viewer.wait_for(
      [](const Snapshot& s) { return s.tasks.size() == 1 && s.tasks[0]->has_worker && s.locks.size() == 1; });
  ASSERT_TRUE(claimed);
  EXPECT_EQ(claimed->tasks[0]->lock_key, Tasks::lock_key("alice", made.id));
  EXPECT_EQ(claimed->tasks[0]->worker, claimed->locks[0]->holder);
  EXPECT_FALSE(claimed->events->empty());
}

TEST(StoreView, ReadsNothingWithoutViewers) {
  auto store = open("memory:");
  StoreView view(store);
  EXPECT_FALSE(view.latest()->whole);
  EXPECT_EQ(view.latest()->reachability, Reachability::unknown);
  {
    Viewer viewer(view);
    ASSERT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.whole; }));
  }
  const auto number = view.latest()->number;
  Viewer again(view);
  EXPECT_TRUE(again.wait_for([&](const Snapshot& s) { return s.number > number; }));
}

TEST(StoreView, AViewerThatThrowsDisturbsNoOther) {
  auto store = open("memory:");
  StoreView view(store);
  std::atomic<int> calls = 0;
  const auto bad = view.subscribe([&](const auto&) {
    ++calls;
    throw std::runtime_error("a viewer's own problem");
  });
  Viewer viewer(view);
  ASSERT_TRUE(viewer.wait_for([&](const Snapshot& s) { return s.whole && calls > 1; }));
}

TEST(StoreView, ASubscriptionMayOutliveTheView) {
  StoreView::Subscription left;
  {
    auto view = std::make_unique<StoreView>(open("memory:"));
    left = view->subscribe();
  }
  left = {};
}

}  // namespace
}  // namespace holdfast::view
