#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/digest.hpp"

namespace holdfast::core {
namespace {

std::string of(std::string_view text) {
  return base64url({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
}

TEST(Base64Url, IsThatOfRfc4648WithoutPadding) {
  const std::array<std::pair<const char*, const char*>, 7> vectors{{{"", ""},
                                                                    {"f", "Zg"},
                                                                    {"fo", "Zm8"},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg"},
                                                                    {"fooba", "Zm9vYmE"},
                                                                    {"foobar", "Zm9vYmFy"}}};
  for (const auto& [text, encoded] : vectors) EXPECT_EQ(of(text), encoded);
}

TEST(Base64Url, HasItsOwnTwoLastCharacters) {
  EXPECT_EQ(of("\xfb\xff\xbf"), "-_-_");
  EXPECT_EQ(of("\xff\xff\xff\xff"), "_____w");
}

}  // namespace
}  // namespace holdfast::core
