#include "engine/redis/waiter_count.hpp"

#include <gtest/gtest.h>

#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using test::arguments_of;
using test::key;
using test::reply_of;
using Words = std::vector<std::string>;

const Layout& lock_names() {
  static const auto made = Layout::make("p", 2).value_or_throw();
  return made;
}

TEST(RedisWaiterCount, AsksForTheChannelsOfAllKeysAtOnce) {
  WaiterCount count(lock_names(), {key("a"), key("b")});
  EXPECT_EQ(arguments_of(count.command(By::sha).value()),
            (Words{"PUBSUB", "NUMSUB", "p:wake:2:p:a", "p:wake:2:p:b"}));
  ASSERT_TRUE(count.take(*reply_of("*4\r\n+c\r\n:3\r\n+d\r\n:0\r\n"), 1));
  EXPECT_FALSE(count.command(By::sha));
  EXPECT_EQ(std::move(count).page(), (WaiterCounts{3, 0}));
}

TEST(RedisWaiterCount, AddsWhatEachMasterOfAClusterCounts) {
  WaiterCount count(lock_names(), {key("a")}, {7, 4});
  EXPECT_EQ(count.master(), 7U);
  ASSERT_TRUE(count.take(*reply_of("*2\r\n+c\r\n:3\r\n"), 1));
  EXPECT_EQ(count.master(), 4U);
  ASSERT_TRUE(count.command(By::sha));
  ASSERT_TRUE(count.take(*reply_of("*2\r\n+c\r\n:2\r\n"), 2));
  EXPECT_FALSE(count.command(By::sha));
  EXPECT_EQ(std::move(count).page(), WaiterCounts{5});
}

TEST(RedisWaiterCount, IsUnknownWithoutTheRightAndForAReservedKey) {
  WaiterCount without(lock_names(), {key("a")}, {7, 4});
  ASSERT_TRUE(without.take(*reply_of("-NOPERM this user has no permissions to run 'pubsub|numsub'\r\n"), 1));
  EXPECT_FALSE(without.command(By::sha));
  EXPECT_EQ(std::move(without).page(), WaiterCounts{std::nullopt});

  const auto reserved = key("id:AAAAAAAAAAAAAAAAAAAAAA");
  WaiterCount partly(lock_names(), {reserved, key("a")});
  EXPECT_EQ(arguments_of(partly.command(By::sha).value()), (Words{"PUBSUB", "NUMSUB", "p:wake:2:p:a"}));
  ASSERT_TRUE(partly.take(*reply_of("*2\r\n+c\r\n:1\r\n"), 1));
  EXPECT_EQ(std::move(partly).page(), (WaiterCounts{std::nullopt, 1}));
  EXPECT_FALSE(WaiterCount(lock_names(), {reserved}).command(By::sha));
}

TEST(RedisWaiterCount, AnUnexpectedReplyIsAnError) {
  for (const auto* bytes :
       {"*0\r\n", ":1\r\n", "*2\r\n+c\r\n+x\r\n", "*2\r\n+c\r\n:-1\r\n", "-ERR what\r\n"}) {
    WaiterCount count(lock_names(), {key("a")});
    EXPECT_FALSE(count.take(*reply_of(bytes), 1)) << bytes;
  }
}

}  // namespace
}  // namespace holdfast::redis
