#include "core/number.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace holdfast::core {
namespace {

TEST(WholeNumber, IsTheWholeText) {
  EXPECT_EQ(whole_number<std::int64_t>("0"), 0);
  EXPECT_EQ(whole_number<std::int64_t>("-42"), -42);
  EXPECT_EQ(whole_number<std::uint16_t>("65535"), 65535);
  for (const auto* text : {"", " 1", "1 ", "1x", "x1", "0x1", "+1", "-", "1.0", "1e3"}) {
    EXPECT_EQ(whole_number<std::int64_t>(text), std::nullopt) << text;
  }
}

TEST(WholeNumber, IsOneThatTheTypeHolds) {
  EXPECT_EQ(whole_number<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(whole_number<std::uint16_t>("-1"), std::nullopt);
  EXPECT_EQ(whole_number<std::int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(whole_number<std::uint64_t>("18446744073709551615"), ~std::uint64_t{0});
}

}  // namespace
}  // namespace holdfast::core
