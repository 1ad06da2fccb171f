#include "core/escaped_bytes.hpp"

#include <gtest/gtest.h>

#include "core/utf8.hpp"

namespace holdfast::core {
namespace {

TEST(EscapedBytes, TextStaysAsItIs) {
  for (const std::string text :
       {"", "a\nb", "gr\u00fc\u00df \u20ac \U0001F512 \uFFFD \uF6FF \uF800 \uE000"}) {
    EXPECT_EQ(escaped_bytes(text), text);
    EXPECT_EQ(unescaped_bytes(text), text);
  }
}

TEST(EscapedBytes, AByteThatIsNoTextIsACharacterOfItsOwn) {
  EXPECT_EQ(escaped_bytes("a\x80\xBF\xC0\xFF"), "a\uF780\uF7BF\uF7C0\uF7FF");
  EXPECT_EQ(escaped_bytes("\uF780"), "\uF7EF\uF79E\uF780") << "else it would be read as the byte 0x80";
}

TEST(EscapedBytes, AnyBytesComeBackWhereverTheyWereCut) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  bytes += "\u20ac\U0001F512\uF780\uF7BF\uF7C0\uF7FF\xEF\x9E\xEF\xF0\x9F";
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    const auto text = escaped_bytes(bytes.substr(0, at)) + escaped_bytes(bytes.substr(at));
    EXPECT_TRUE(is_utf8(text)) << at;
    EXPECT_EQ(unescaped_bytes(text), bytes) << at;
  }
}

}  // namespace
}  // namespace holdfast::core
