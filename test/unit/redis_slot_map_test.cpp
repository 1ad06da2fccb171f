#include <gtest/gtest.h>

#include <string>

#include "engine/redis/conn/slot.hpp"
#include "engine/redis/conn/slot_map.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using test::bulk;
using test::reply_of;

TEST(Slot, IsTheServersOwn) {
  // CLUSTER KEYSLOT of Redis 7.0.15.
  EXPECT_EQ(slot_of("123456789"), 12739);  // 0x31C3, the check value of CRC16/XMODEM
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("somekey"), 11058);
  EXPECT_EQ(slot_of(""), 0);
}

TEST(Slot, OfAHashTagIsThatOfTheTagAlone) {
  EXPECT_EQ(slot_of("{foo}:bar"), slot_of("foo"));
  EXPECT_EQ(slot_of("a{foo}b{bar}"), slot_of("foo"));
  EXPECT_EQ(hashed_part("foo{}{bar}"), "foo{}{bar}") << "an empty tag is none";
  EXPECT_EQ(hashed_part("foo{{bar}}zap"), "{bar");
  EXPECT_EQ(hashed_part("foo{bar"), "foo{bar");
  EXPECT_EQ(hashed_part("}foo{bar}"), "bar");
}

TEST(Slot, OnlyATagInThePrefixKeepsAllNamesTogether) {
  EXPECT_TRUE(has_hash_tag("{syncguard}"));
  EXPECT_TRUE(has_hash_tag("a:{b}:c"));
  EXPECT_FALSE(has_hash_tag("syncguard"));
  EXPECT_FALSE(has_hash_tag(""));
  EXPECT_FALSE(has_hash_tag("{}"));
  EXPECT_FALSE(has_hash_tag("a{b")) << "a key may contain the closing brace";
}

constexpr std::string_view id_a = "a000000000000000000000000000000000000000",
                           id_b = "b000000000000000000000000000000000000000",
                           id_c = "c000000000000000000000000000000000000000";

/// One range of CLUSTER SLOTS with one node. `host`: already encoded.
std::string range(int first, int last, const std::string& host, int port, std::string_view id) {
  return "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) + "\r\n*4\r\n" + host + ":" +
         std::to_string(port) + "\r\n" + bulk(id) + "*0\r\n";
}
std::string line(std::string_view id, const std::string& address, const std::string& flags, int epoch,
                 const std::string& slots) {
  return std::string(id) + " " + address + " " + flags + " - 0 1700000000000 " + std::to_string(epoch) +
         " connected" + (slots.empty() ? "" : " " + slots) + "\n";
}

Result<SlotMap> map_of(const std::string& nodes, const std::string& ranges,
                       const std::vector<RedisAnnouncement>& connect_to = {}) {
  return SlotMap::from(*reply_of(bulk(nodes)), *reply_of(ranges), {.host = "asked", .port = 1}, connect_to);
}

TEST(SlotMap, HasOwnersAndTheirEpochs) {
  const auto nodes = line(id_a, "10.0.0.1:7000@17000,", "myself,master", 7, "0-8000 8002 [8001->-b0]") +
                     line(id_b, "10.0.0.2:7001@17001,host-b", "master", 9, "8001 8003-16382") +
                     std::string(id_c) + " 10.0.0.3:7002@17002 slave " + std::string(id_b) +
                     " 0 0 9 connected\n" + std::string(40, 'd') + " 10.0.0.4:7002@17002 slave,fail " +
                     std::string(id_a) + " 0 0 7 disconnected\n";
  const auto ranges = "*2\r\n" + range(0, 8000, bulk("10.0.0.1"), 7000, id_a) +
                      range(8001, 8001, bulk("10.0.0.2"), 7001, id_b);
  const auto map = map_of(nodes, ranges).value_or_throw();
  ASSERT_EQ(map.masters().size(), 2U);
  EXPECT_EQ(map.owner(0)->id, id_a);
  EXPECT_EQ(map.owner(8000)->id, id_a);
  EXPECT_EQ(map.owner(8001)->id, id_b);
  EXPECT_EQ(map.owner(8002)->config_epoch, 7U);
  EXPECT_EQ(map.owner(16382)->config_epoch, 9U);
  EXPECT_EQ(map.owner(16383), nullptr);
  EXPECT_EQ(map.slots_without_owner(), 1U);
  EXPECT_EQ(map.owner(0)->address, (RedisAddress{"10.0.0.1", 7000}));
  EXPECT_EQ(map.owner(0)->replicas, 0U) << "its only one has failed";
  EXPECT_EQ(map.owner(8001)->replicas, 1U);
}

TEST(SlotMap, KnowsMastersThatOthersConsiderFailed) {
  const auto nodes = line(id_a, "10.0.0.1:7000@17000", "myself,master", 1, "0-5000") +
                     line(id_b, "10.0.0.2:7001@17001", "master,fail?", 2, "5001-10000") +
                     line(id_c, "10.0.0.3:7002@17002", "master,fail", 3, "10001-16383");
  const auto map = map_of(nodes, "*0\r\n").value_or_throw();
  EXPECT_FALSE(map.owner(0)->failed);
  EXPECT_TRUE(map.owner(5001)->failed);
  EXPECT_TRUE(map.owner(16383)->failed);
}

TEST(SlotMap, UsesTheAddressThatTheClusterPrefers) {
  const auto nodes = line(id_a, "10.0.0.1:7000@17000,name-a", "myself,master", 1, "0-1") +
                     line(id_b, "10.0.0.2:7001@17001,name-b", "master", 2, "2-3") +
                     line(id_c, ":7002@17002", "master", 3, "4");
  const auto ranges = "*3\r\n" + range(0, 1, bulk("name-a"), 7443, id_a) +
                      range(2, 3, "$-1\r\n", 7001, id_b) + range(4, 4, bulk("?"), 7002, id_c);
  const auto map = map_of(nodes, ranges).value_or_throw();
  EXPECT_EQ(map.owner(0)->address, (RedisAddress{"name-a", 7443}))
      << "a name, and the port for this connection";
  EXPECT_EQ(map.owner(2)->address, (RedisAddress{"asked", 7001})) << "null: the host that was asked";
  EXPECT_EQ(map.owner(4)->address, (RedisAddress{"asked", 7002})) << "a node without a name or an address";
}

/// Otherwise all of them are taken for the one that was asked.
TEST(SlotMap, ANodeWithoutANameIsReachedByItsAddress) {
  const auto nodes = line(id_a, "10.0.0.1:7000@17000", "myself,master", 1, "0-1") +
                     line(id_b, "10.0.0.2:7000@17000", "master", 2, "2-3");
  const auto ranges = "*2\r\n" + range(0, 1, bulk("?"), 7443, id_a) + range(2, 3, bulk("?"), 7443, id_b);
  const auto map = map_of(nodes, ranges).value_or_throw();
  EXPECT_EQ(map.owner(0)->address, (RedisAddress{"10.0.0.1", 7443}));
  EXPECT_EQ(map.owner(2)->address, (RedisAddress{"10.0.0.2", 7443})) << "and the port for this connection";
}

TEST(SlotMap, SlotsThatMoveAreCounted) {
  const auto nodes = line(id_a, "10.0.0.1:7000@17000", "myself,master", 1,
                          "0-1 [1->-" + std::string(40, 'b') + "] [7-<-" + std::string(40, 'b') + "]") +
                     line(id_b, "10.0.0.2:7001@17001", "master", 2, "2-3");
  EXPECT_EQ(moving_slots_in(*reply_of(bulk(nodes))), 2U);
  EXPECT_EQ(moving_slots_in(*reply_of(bulk(line(id_a, "h:1@2", "myself,master", 1, "0")))), 0U);
  EXPECT_EQ(moving_slots_in(*reply_of("-NOPERM [x]\r\n")), 0U);
}

TEST(SlotMap, MapsAnnouncedAddresses) {
  const std::vector<RedisAnnouncement> connect_to{
      {.announced = {"10.0.0.1", 7000}, .reached_at = {"localhost", 17000}},
      {.announced = {"10.0.0.2", 0}, .reached_at = {"tunnel", 0}}};
  EXPECT_EQ(reached_at({"10.0.0.1", 7000}, "asked", connect_to), (RedisAddress{"localhost", 17000}));
  EXPECT_EQ(reached_at({"10.0.0.1", 7001}, "asked", connect_to), (RedisAddress{"10.0.0.1", 7001}));
  EXPECT_EQ(reached_at({"10.0.0.2", 7005}, "asked", connect_to), (RedisAddress{"tunnel", 7005}));
  EXPECT_EQ(reached_at({"", 7005}, "asked", connect_to), (RedisAddress{"asked", 7005}));
  const auto map = map_of(line(id_a, "10.0.0.1:7000@17000", "master", 1, "0"),
                          "*1\r\n" + range(0, 0, bulk("10.0.0.1"), 7000, id_a), connect_to)
                       .value_or_throw();
  EXPECT_EQ(map.owner(0)->address, (RedisAddress{"localhost", 17000}));
  EXPECT_EQ(map.owner(0)->announced, (RedisAddress{"10.0.0.1", 7000}));
}

TEST(SlotMap, SkipsNodesWithoutAnAddressAndMastersWithoutSlots) {
  const auto nodes = line(id_a, ":0@0", "master,noaddr", 1, "0") +
                     line(id_b, "10.0.0.2:7001@17001", "handshake", 0, "") +
                     line(id_c, "::1:7002@17002", "master", 3, "1");
  const auto map = map_of(nodes, "*0\r\n").value_or_throw();
  ASSERT_EQ(map.masters().size(), 1U);
  EXPECT_EQ(map.owner(1)->address, (RedisAddress{"::1", 7002}));
  EXPECT_EQ(map.owner(0), nullptr);
}

TEST(SlotMap, RefusesWhatIsNoMap) {
  const auto good = line(id_a, "10.0.0.1:7000@17000", "master", 1, "0-5");
  EXPECT_EQ(map_of("", "*0\r\n").error().code(), ErrorCode::Internal);
  EXPECT_EQ(map_of("nonsense", "*0\r\n").error().code(), ErrorCode::Internal);
  EXPECT_EQ(map_of(good, "+OK\r\n").error().code(), ErrorCode::Internal);
  EXPECT_EQ(map_of(good, "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n+x\r\n").error().code(), ErrorCode::Internal);
  for (const auto* slots : {"16384", "5-2", "x", "1-16384", "-3"}) {
    EXPECT_EQ(map_of(line(id_a, "h:1@2", "master", 1, slots), "*0\r\n").error().code(), ErrorCode::Internal)
        << slots;
  }
  EXPECT_EQ(map_of(good, "-NOPERM no\r\n").error().code(), ErrorCode::AuthFailed);
  const auto disabled = SlotMap::from(*reply_of("-ERR This instance has cluster support disabled\r\n"),
                                      *reply_of("*0\r\n"), {}, {});
  EXPECT_FALSE(disabled);
}

}  // namespace
}  // namespace holdfast::redis
