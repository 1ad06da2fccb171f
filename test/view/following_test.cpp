#include "view/following.hpp"

#include <gtest/gtest.h>

namespace holdfast::view {
namespace {

/// A feed that a test speaks through.
class SpokenFeed final : public ChangeFeed {
 public:
  explicit SpokenFeed(int& ended) : ended_(ended) {}
  ~SpokenFeed() override { ++ended_; }
  void wait(BootTime, std::stop_token stop, Done<std::vector<Change>> changes) override {
    waiting = std::move(changes);
    stop_.emplace(std::move(stop), [this] { say({}); });
  }
  void say(std::vector<Change> changes) {
    auto done = std::move(*waiting);
    waiting.reset();
    done(std::move(changes));
  }
  std::optional<Done<std::vector<Change>>> waiting;

 private:
  int& ended_;
  std::optional<std::stop_callback<std::function<void()>>> stop_;
};

TEST(ViewFollowing, CollectsChangesAndListensForMore) {
  int ended = 0, woken = 0;
  {
    auto owned = std::make_unique<SpokenFeed>(ended);
    auto& feed = *owned;
    Following following(std::move(owned), [&] { ++woken; });
    EXPECT_TRUE(following.take().empty());
    EXPECT_TRUE(following.take().empty());
    feed.say({{.kind = Change::Kind::changed, .key = "a"}});
    EXPECT_EQ(woken, 1);
    EXPECT_FALSE(feed.waiting) << "nothing is asked before the last answer is taken";
    EXPECT_EQ(following.take().size(), 1U);
    ASSERT_TRUE(feed.waiting);
    feed.say({{.kind = Change::Kind::broken, .key = "b"}});
    EXPECT_EQ(following.take().front().key, "b");
    EXPECT_EQ(woken, 2);
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(woken, 2);
}

TEST(ViewFollowing, TheOwnerOfATaskIsUnescaped) {
  EXPECT_EQ(task_name("alice:t-1"), (TaskName{.owner = "alice", .id = "t-1"}));
  EXPECT_EQ(task_name("a%3Ab%25c:t:1"), (TaskName{.owner = "a:b%c", .id = "t:1"}));
  EXPECT_EQ(task_name("alice"), (TaskName{.owner = "alice", .id = ""}));
}

TEST(ViewFollowing, ATaskOfAQueueIsToldFromATaskOfAnOwner) {
  EXPECT_EQ(queue_name("%queue%25render:t-1"), "render");
  EXPECT_EQ(queue_name("%queue%25a%3Ab%25c:t:1"), "a:b%c");
  EXPECT_EQ(queue_name("alice:t-1"), std::nullopt);
  // The owner "%queue%render".
  EXPECT_EQ(queue_name("%25queue%25render:t-1"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::view
