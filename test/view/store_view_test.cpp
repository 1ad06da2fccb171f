#include "view/store_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "support/eventually.hpp"
#include "support/redis_server.hpp"

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

TEST(StoreView, CountsQueuesAsTheyChange) {
  auto store = open("memory:");
  const auto queue = store.queue("render:7%");
  queue.add({.method = "frame"});
  StoreView view(store);
  Viewer viewer(view);
  const auto first = viewer.wait_for([](const Snapshot& s) { return s.queues_known(); });
  ASSERT_TRUE(first);
  ASSERT_EQ(first->queues.size(), 1U);
  EXPECT_EQ(first->queues[0]->name, "render:7%");
  EXPECT_EQ(first->queues[0]->ready, 1U);
  EXPECT_TRUE(first->tasks.empty()) << "the tasks of a queue belong to no owner";

  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  EXPECT_TRUE(viewer.wait_for([](const Snapshot& s) {
    return s.queues.size() == 1 && s.queues[0]->ready == 0 && s.queues[0]->working == 1;
  }));
  job->complete({});
  queue.pause();
  EXPECT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.queues.size() == 1 && s.queues[0]->paused; }));
}

TEST(StoreView, ReportsTheFailedTasksOfAQueue) {
  auto store = open("memory:");
  const auto queue = store.queue("render");
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) ids.push_back(queue.add({.method = "frame", .max_attempts = 1}).id);
  StoreView view(store);
  Viewer viewer(view);
  ASSERT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.queues.size() == 1; }));
  for (int i = 0; i < 7; ++i) queue.claim_next()->fail("exit 3");
  // Counted once or several times meanwhile: each failure is in one event, alone or among "other tasks".
  const auto shown = viewer.wait_for(
      [](const Snapshot& s) { return s.queues.size() == 1 && s.queues[0]->dead == 7 && !s.events->empty(); });
  ASSERT_TRUE(shown);
  const auto& last = shown->events->back();
  EXPECT_EQ(last.kind, EventKind::queue_task_failed);
  EXPECT_EQ(last.owner, "queue render");
  EXPECT_NE(std::ranges::find(ids, last.task_id), ids.end()) << last.task_id;
  EXPECT_EQ(last.text, "exit 3");
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

TEST(StoreView, AGrantOnRedisIsShownThoughNoRoundFindsIt) {
  if (const auto why = test::redis_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const auto* layout : {"documented", "native"}) {
    const auto store =
        open(test::shared_redis_url() + "?layout=" + layout + "&lock_prefix=" + test::private_prefix() +
             "&task_prefix=" + test::private_prefix());
    const auto known = store.locks().lock("known");
    auto options = StoreView::options_for(store);
    options.pace.interval = 1h;
    StoreView view(store, options);
    Viewer viewer(view);
    ASSERT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.queues_known() && s.locks.size() == 1; }));
    auto heard = store.locks().lock("heard");
    const auto shown = viewer.wait_for([](const Snapshot& s) { return s.locks.size() == 2; });
    ASSERT_TRUE(shown) << layout;
    EXPECT_EQ(shown->locks[0]->key, "heard");
    EXPECT_EQ(shown->locks[0]->fence, heard.fence());
    EXPECT_EQ(shown->locks[0]->waiters, 0U);
    ASSERT_FALSE(shown->events->empty());
    EXPECT_EQ(shown->events->back().kind, EventKind::lock_granted);
    heard.release();
    EXPECT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.locks.size() == 1; })) << layout;
  }
}

TEST(StoreView, LocksAreShownToAUserWhoMayNotReadTasks) {
  if (const auto why = test::redis_missing(); !why.empty()) GTEST_SKIP() << why;
  test::RedisServer::Options options;
  options.config = {"user locks on >sesame ~syncguard:* &* +@all"};
  const test::RedisServer server(options);
  const auto all = open(server.url());
  (void)all.tasks().create("alice", {.method = "report"});
  const auto guard = all.locks().lock("deploy");
  StoreView view(open("redis://locks:sesame@127.0.0.1:" + std::to_string(server.port())));
  Viewer viewer(view);
  const auto shown = viewer.wait_for(
      [](const Snapshot& s) { return s.queues_known() || s.reachability == Reachability::down; });
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->reachability, Reachability::up) << shown->error;
  EXPECT_EQ(shown->locks.size(), 1U);
  EXPECT_TRUE(shown->tasks_refused);
  EXPECT_TRUE(shown->queues_refused);
  EXPECT_EQ(shown->task_count(), 0U);
}

TEST(StoreView, NothingIsHeardOnRedisWithoutViewers) {
  if (const auto why = test::redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const test::RedisServer server;
  const auto number_in = [&](const std::string& section, const std::string& name) {
    const auto text = server.raw().text({"INFO", section});
    return std::atoi(text.c_str() + text.find(name) + name.size());
  };
  StoreView view(open(server.url()));
  {
    Viewer viewer(view);
    ASSERT_TRUE(viewer.wait_for([](const Snapshot& s) { return s.queues_known(); }));
    EXPECT_TRUE(test::eventually([&] { return number_in("clients", "tracking_clients:") == 1; }));
  }
  // In the end there is none, and no new connection but those of this test.
  EXPECT_TRUE(test::eventually([&] {
    const auto before = number_in("stats", "total_connections_received:");
    for (int i = 0; i < 20; ++i) {
      if (number_in("clients", "tracking_clients:") != 0) return false;
    }
    return number_in("stats", "total_connections_received:") == before + 21;
  }));
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
