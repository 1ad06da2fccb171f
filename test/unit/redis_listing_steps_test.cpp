// A listing as found: one step of SCAN per page, and what becomes of its position.

#include <gtest/gtest.h>

#include "engine/redis/listings.hpp"
#include "support/redis_locks.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using test::arguments_of;
using test::bulk;
using test::reply_of;

std::string scanned(std::string_view cursor, const std::vector<std::string>& keys) {
  auto text = "*2\r\n" + bulk(cursor) + "*" + std::to_string(keys.size()) + "\r\n";
  for (const auto& found : keys) text += bulk(found);
  return text;
}

class ListingSteps : public testing::Test {
 protected:
  /// One page whose SCAN finds no lock: the words of the command, and the cursor of the next page.
  std::pair<std::vector<std::string>, std::string> step(const std::string& cursor, std::uint64_t connection,
                                                        std::string_view next,
                                                        std::vector<std::uint32_t> masters = {}) {
    auto listing =
        LockListing::start(*layout, {.cursor = cursor, .limit = 50, .order = LockOrder::as_found}, masters)
            .value_or_throw();
    auto words = arguments_of(listing.command(By::sha).value());
    master = listing.master();
    EXPECT_TRUE(listing.take(*reply_of(scanned(next, {})), connection));
    EXPECT_FALSE(listing.command(By::sha)) << "one step";
    return {words, std::move(listing).page().cursor};
  }

  const std::shared_ptr<const LockLayout> layout = documented_layout(Layout::make("p", 0).value_or_throw());
  std::optional<std::uint32_t> master;
};

TEST_F(ListingSteps, FollowTheCursorOfTheServerToItsEnd) {
  auto [first, second_page] = step("", 1, "77");
  EXPECT_EQ(first, (std::vector<std::string>{"SCAN", "0", "MATCH", "p:*", "COUNT", "50", "TYPE", "string"}));
  EXPECT_NE(second_page, "");
  const auto [second, end] = step(second_page, 1, "0");
  EXPECT_EQ(second.at(1), "77");
  EXPECT_EQ(end, "");
}

TEST_F(ListingSteps, StartAgainIfAnotherConnectionAnswered) {
  const auto page = step("", 1, "77").second;
  // The server may have been restarted: its table has another order, and neither position is one in it.
  const auto next = step(page, 2, "0").second;
  ASSERT_NE(next, "");
  EXPECT_EQ(step(next, 2, "5").first.at(1), "0");
}

TEST_F(ListingSteps, GoFromMasterToMaster) {
  const auto [first, page] = step("", 1, "0", {7, 4});
  EXPECT_EQ(master, 7U);
  ASSERT_NE(page, "");
  const auto [second, end] = step(page, 9, "0", {7, 4});
  EXPECT_EQ(master, 4U);
  EXPECT_EQ(end, "");
  (void)step(page, 9, "0", {7});
  EXPECT_EQ(master, 7U) << "the cluster has only one master now";
}

TEST_F(ListingSteps, ReadWhatTheyFindEvenIfItIsMoreThanTheLimit) {
  auto listing =
      LockListing::start(*layout, {.cursor = {}, .limit = 1, .order = LockOrder::as_found}).value_or_throw();
  ASSERT_TRUE(listing.take(*reply_of(scanned("0", {"p:b", "p:a", "p:id:AAAAAAAAAAAAAAAAAAAAAA"})), 1));
  const auto words = arguments_of(listing.command(By::sha).value());
  EXPECT_EQ((std::vector<std::string>{words.begin() + 2, words.end()}),
            (std::vector<std::string>{"2", "p:a", "p:b"}));
}

TEST_F(ListingSteps, RefuseAForeignCursor) {
  for (const auto* cursor : {"x", "1", "1.2", "1.2.", "1.2.x", "-1.2.3", "1.2.3.4", "orders:42"}) {
    const auto started = LockListing::start(*layout, {.cursor = cursor, .order = LockOrder::as_found});
    ASSERT_FALSE(started) << cursor;
    EXPECT_EQ(started.error().code(), ErrorCode::InvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast::redis
