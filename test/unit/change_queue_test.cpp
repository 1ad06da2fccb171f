#include "waiting/change_queue.hpp"

#include <gtest/gtest.h>

namespace holdfast::waiting {
namespace {

using ChangeKind = Change::Kind;
using Changes = std::vector<Change>;

Change changed(std::string key) {
  return {.kind = ChangeKind::changed, .key = std::move(key)};
}

TEST(ChangeQueues, KeepTheChangesOfAKeyOnceAndInTheirOrder) {
  ChangeQueue queue;
  EXPECT_TRUE(queue.empty());
  for (const auto* key : {"a", "b", "a", "c", "b"}) queue.add(changed(key));
  queue.add({.kind = ChangeKind::broken, .key = "a"});
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.take(),
            (Changes{changed("a"), changed("b"), changed("c"), {.kind = ChangeKind::broken, .key = "a"}}));
  EXPECT_TRUE(queue.empty());
  queue.add(changed("a"));
  EXPECT_EQ(queue.take(), Changes{changed("a")}) << "it was delivered, so it is news again";
}

TEST(ChangeQueues, TooManyChangesBecomeOneThatCoversAll) {
  ChangeQueue queue(3);
  for (const auto* key : {"a", "b", "c"}) queue.add(changed(key));
  queue.add(changed("d"));
  queue.add(changed("e"));
  EXPECT_EQ(queue.take(), Changes{Change{}});
}

TEST(ChangeQueues, EventsAreShownBesideAnythingButNotWithoutLimit) {
  ChangeQueue queue(3);
  queue.add(changed("a"));
  queue.add({});
  const Change stale{.kind = ChangeKind::stale_write,
                     .key = "me:t",
                     .refused = Fence::of(3).value_or_throw(),
                     .highest = Fence::of(5).value_or_throw()};
  queue.add(stale);
  queue.add(changed("b"));
  EXPECT_EQ(queue.take(), (Changes{Change{}, stale}));
  for (int i = 0; i < 10; ++i) queue.add(stale);
  EXPECT_LE(queue.take().size(), 3U);
}

}  // namespace
}  // namespace holdfast::waiting
