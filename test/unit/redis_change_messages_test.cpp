#include "engine/redis/change_messages.hpp"

#include <gtest/gtest.h>

namespace holdfast::redis {
namespace {

using ChangeKind = Change::Kind;

TEST(RedisChangeMessages, OfALockNameItsKey) {
  const auto names = Layout::make("p", 2).value_or_throw();
  EXPECT_EQ(lock_change(names, "p:wake:2:p:orders:42", "1"),
            (Change{.kind = ChangeKind::changed, .key = "orders:42"}));
  EXPECT_EQ(lock_change(names, "p:wake:2:p:k", "broken"), (Change{.kind = ChangeKind::broken, .key = "k"}));
  EXPECT_EQ(lock_change(names, "p:wake:2:p:k", "of a later version"),
            (Change{.kind = ChangeKind::changed, .key = "k"}));
  EXPECT_EQ(lock_change(names, "p:wake:0:p:k", "1"), std::nullopt) << "another database";
  EXPECT_EQ(lock_change(names, "p:wake:2:q:k", "1"), Change{}) << "no name of a lock here";
}

TEST(RedisChangeMessages, OfARecordNameItsKeyAndARefusedFence) {
  const auto names = StorageLayout::make("p", 2).value_or_throw();
  EXPECT_EQ(record_change(names, "p:changed:2:me:task:1", "1"),
            (Change{.kind = ChangeKind::changed, .key = "me:task:1"}));
  EXPECT_EQ(record_change(names, "p:changed:0:me:t", "1"), std::nullopt);
  const auto stale = record_change(names, "p:changed:2:me:t", "stale 000000000000003 000000000000005");
  EXPECT_EQ(stale, (Change{.kind = ChangeKind::stale_write,
                           .key = "me:t",
                           .refused = Fence::of(3).value_or_throw(),
                           .highest = Fence::of(5).value_or_throw()}));
  for (const auto* payload : {"stale", "stale 3 5", "stale 000000000000003", "stale x y"}) {
    EXPECT_EQ(record_change(names, "p:changed:2:me:t", payload),
              (Change{.kind = ChangeKind::changed, .key = "me:t"}))
        << payload;
  }
}

}  // namespace
}  // namespace holdfast::redis
