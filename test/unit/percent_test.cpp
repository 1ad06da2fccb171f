#include "core/percent.hpp"

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

TEST(Percent, EveryByteSurvives) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decoded(percent_encoded(all)), all);
  EXPECT_EQ(percent_decoded(percent_encoded(all, "/:@")), all);
}

TEST(Percent, OnlyWhatIsSafeStaysPlain) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a/b c%\xC3"), "a%2Fb%20c%25%C3");
  EXPECT_EQ(percent_encoded("a/b", "/"), "a/b");
}

TEST(Percent, HexDigitsMayBeOfAnyCaseAndMustBeTwo) {
  EXPECT_EQ(percent_decoded("%c3%C3+"), "\xC3\xC3+");
  for (const char* text : {"%", "%4", "a%4", "%4G", "%G4", "%%41", "% 1"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace holdfast::core
