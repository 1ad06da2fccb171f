#include <gtest/gtest.h>

#include <holdfast/fence.hpp>
#include <sstream>

namespace holdfast {
namespace {

TEST(Fence, OrdersAlikeAsValueAndAsText) {
  const auto low = *Fence::of(9), high = *Fence::of(10);
  EXPECT_LT(low, high);
  EXPECT_LT(low.to_string(), high.to_string());
}

TEST(Fence, RefusesWhatDoesNotFitFifteenDigits) {
  EXPECT_TRUE(Fence::of(Fence::max_value).ok());
  EXPECT_EQ(Fence::of(Fence::max_value + 1).error().code(), ErrorCode::InvalidArgument);
}

TEST(Fence, ParsesOnlyItsOwnForm) {
  EXPECT_EQ(Fence::parse("000000000000042")->value(), 42U);
  for (const char* bad :
       {"", "42", "0000000000000042", "00000000000004x", "-00000000000042", "+00000000000042"}) {
    EXPECT_EQ(Fence::parse(bad).error().code(), ErrorCode::InvalidArgument) << bad;
  }
}

TEST(Fence, IsStreamedAsItsFifteenDigits) {
  std::ostringstream text;
  text << *Fence::of(42);
  EXPECT_EQ(text.str(), "000000000000042");
#ifdef __cpp_lib_format
  EXPECT_EQ(std::format("{:>17}", *Fence::of(42)), "  000000000000042");
#endif
}

}  // namespace
}  // namespace holdfast
