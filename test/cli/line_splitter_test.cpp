#include "supervision/line_splitter.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::test {
namespace {

TEST(LineSplitter, PassesWholeLinesAndAtTheEndTheRest) {
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
  cli::LineSplitter splitter;
  splitter.take("a=1\nb", keep);
  splitter.take("=2\n\nc=3", keep);
  EXPECT_EQ(lines, (std::vector<std::string>{"a=1", "b=2", ""}));
  splitter.finish(keep);
  splitter.finish(keep);
  EXPECT_EQ(lines, (std::vector<std::string>{"a=1", "b=2", "", "c=3"}));
}

TEST(LineSplitter, PassesOfALineThatIsTooLongOneByteMoreThanTheLimit) {
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
  cli::LineSplitter splitter;
  splitter.take(std::string(cli::LineSplitter::max_line, 'x'), keep);
  splitter.take("x and more", keep);
  splitter.take("\nnext\n" + std::string(cli::LineSplitter::max_line + 1, 'x'), keep);
  splitter.finish(keep);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].size(), cli::LineSplitter::max_line + 1);
  EXPECT_EQ(lines[1], "next");
  EXPECT_EQ(lines[2].size(), cli::LineSplitter::max_line + 1);
}

}  // namespace
}  // namespace holdfast::test
