#include <gtest/gtest.h>

#include "top/keys.hpp"

namespace holdfast::cli::top {
namespace {

using Name = Key::Name;

std::vector<Name> names(const std::vector<Key>& keys) {
  std::vector<Name> all;
  for (const auto& key : keys) all.push_back(key.name);
  return all;
}

TEST(TopKeys, SequencesOfCommonTerminalsAreKeys) {
  KeyDecoder decoder;
  EXPECT_EQ(names(decoder.take("\x1b[A\x1b[B\x1bOC\x1b[D")),
            (std::vector{Name::up, Name::down, Name::right, Name::left}));
  EXPECT_EQ(names(decoder.take("\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[Z")),
            (std::vector{Name::page_up, Name::page_down, Name::home, Name::end, Name::back_tab}));
  EXPECT_EQ(names(decoder.take("\r\t\x7f\x15\f")),
            (std::vector{Name::enter, Name::tab, Name::backspace, Name::kill_line, Name::redraw}));
}

TEST(TopKeys, ASequenceMayComeInPieces) {
  KeyDecoder decoder;
  EXPECT_EQ(decoder.take("\x1b").size(), 0U);
  EXPECT_TRUE(decoder.pending());
  EXPECT_EQ(decoder.take("[").size(), 0U);
  EXPECT_EQ(names(decoder.take("A")), std::vector{Name::up});
  EXPECT_FALSE(decoder.pending());
  EXPECT_EQ(decoder.take("\xc3").size(), 0U);
  EXPECT_EQ(decoder.take("\xa4"), (std::vector<Key>{{.text = "ä"}}));
}

TEST(TopKeys, AnEscapeThatNothingFollowsIsAKey) {
  KeyDecoder decoder;
  EXPECT_EQ(decoder.take("\x1b").size(), 0U);
  EXPECT_EQ(names(decoder.flush()), std::vector{Name::escape});
  EXPECT_FALSE(decoder.pending());
  EXPECT_EQ(decoder.flush().size(), 0U);
}

TEST(TopKeys, UnknownSequencesAndBytesAreDroppedAsAWhole) {
  KeyDecoder decoder;
  EXPECT_EQ(decoder.take("\x1b[200~\x1b[1;5Pq"), (std::vector<Key>{{.text = "q"}}));
  EXPECT_EQ(decoder.take("\x01\x02\xff"
                         "1"),
            (std::vector<Key>{{.text = "1"}}));
  EXPECT_EQ(decoder.take("\xe2\x80\xae"
                         "x"),
            (std::vector<Key>{{.text = "x"}}));  // turns text round
  EXPECT_EQ(decoder.take("\x1b[" + std::string(100, '1')).size(), 0U);
  EXPECT_FALSE(decoder.pending());
}

}  // namespace
}  // namespace holdfast::cli::top
