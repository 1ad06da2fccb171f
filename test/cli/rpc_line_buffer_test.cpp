#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/transport/line_buffer.hpp"
#include "support/seeded.hpp"

namespace holdfast::rpc {
namespace {

const std::string too_long = "(too long)";

std::vector<std::string> taken_from(LineBuffer& buffer) {
  std::vector<std::string> lines;
  while (const auto line = buffer.next()) lines.push_back(line->too_long ? too_long : line->text);
  return lines;
}

TEST(RpcLines, AreDividedAtNewlines) {
  LineBuffer buffer(100);
  buffer.append("one\ntwo\n\nthr");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"one", "two", ""}));
  buffer.append("ee\n");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"three"}));
  EXPECT_EQ(buffer.size(), 0U);
}

TEST(RpcLines, TheLastOneNeedsNoNewline) {
  LineBuffer buffer(100);
  buffer.append("one\ntwo");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"one"}));
  EXPECT_EQ(buffer.rest()->text, "two");
  EXPECT_FALSE(buffer.rest());
}

TEST(RpcLines, MayEndAsOnWindows) {
  LineBuffer buffer(3);
  buffer.append("one\r\ntwo\r\n\r\n");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"one", "two", ""}));
}

TEST(RpcLines, ALongOneIsToldOnceAndTheNextIsRead) {
  LineBuffer buffer(5);
  buffer.append("12345\n123456\n1234567\nend\n");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"12345", too_long, too_long, "end"}));
}

TEST(RpcLines, ALongOneIsNotKept) {
  LineBuffer buffer(1000);
  std::vector<std::string> lines;
  const std::string part(100, 'x');
  for (int i = 0; i < 100'000; ++i) {
    buffer.append(part);
    for (auto& line : taken_from(buffer)) lines.push_back(std::move(line));
    ASSERT_LE(buffer.size(), 1101U);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{too_long}));
  buffer.append("\nnext\n");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{"next"}));
}

TEST(RpcLines, ALongOneThatEndsWithTheStreamHasNoRest) {
  LineBuffer buffer(5);
  buffer.append("1234567890");
  EXPECT_EQ(taken_from(buffer), (std::vector<std::string>{too_long}));
  EXPECT_FALSE(buffer.rest());
}

/// What the class does, said in another way.
std::vector<std::string> expected_lines(const std::string& stream, std::size_t longest) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < stream.size();) {
    const auto end = std::min(stream.find('\n', start), stream.size());
    auto line = stream.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line.size() > longest ? too_long : line);
    start = end + 1;
  }
  return lines;
}

TEST(RpcLines, AreTheSameHoweverTheStreamIsCutUp) {
  test::Seeded random;
  const auto up_to = [&random](std::size_t most) { return random.below(most + 1); };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t longest = up_to(12);
    std::string stream;
    for (auto left = up_to(60); left > 0; --left) stream += "abc\r\n\n"[up_to(5)];
    LineBuffer buffer(longest);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < stream.size();) {
      const auto size = std::min(up_to(9), stream.size() - at);
      buffer.append(std::string_view(stream).substr(at, size));
      at += size;
      if (up_to(1) == 0) continue;  // several parts may come before anybody looks
      for (auto& line : taken_from(buffer)) lines.push_back(std::move(line));
    }
    for (auto& line : taken_from(buffer)) lines.push_back(std::move(line));
    if (const auto rest = buffer.rest()) lines.push_back(rest->too_long ? too_long : rest->text);
    ASSERT_EQ(lines, expected_lines(stream, longest))
        << random.seed() << ", stream " << ::testing::PrintToString(stream);
  }
}

}  // namespace
}  // namespace holdfast::rpc
