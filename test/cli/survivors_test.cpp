#include "process/descendants.hpp"

#include <gtest/gtest.h>

namespace holdfast::test {
namespace {

using cli::describe;

TEST(Survivors, AreCountedWithTheReasonAndWhatBecomesOfTheLock) {
  EXPECT_EQ(describe({.count = 1}),
            "1 process of the command runs as another user and cannot be stopped. The lock is not released, "
            "but once its lease expires the next holder may run at the same time as it");
  EXPECT_EQ(describe({.count = 2}),
            "2 processes of the command run as another user and cannot be stopped. The lock is not released, "
            "but once its lease expires the next holder may run at the same time as them");
}

TEST(Survivors, ThatAreHiddenAreTheLeastThereCanBe) {
  EXPECT_TRUE(
      describe({.count = 1, .hidden = 1})
          .starts_with("at least 1 process of the command runs as another user and cannot be stopped; "
                       "/proc is mounted with hidepid and hides it. The lock is not released"));
  EXPECT_TRUE(describe({.count = 3, .hidden = 3}).starts_with("at least 3 processes of the command run as "));
  EXPECT_NE(describe({.count = 3, .hidden = 3}).find("hides them. "), std::string::npos);
  EXPECT_NE(describe({.count = 3, .hidden = 1}).find("hides some of them. "), std::string::npos);
}

TEST(Survivors, ThatCannotBeListedHaveNoCount) {
  const auto text = describe({.unlisted = true});
  EXPECT_NE(text.find("/proc cannot be read"), std::string::npos) << text;
  EXPECT_NE(text.find("not released before they exit"), std::string::npos) << text;
  EXPECT_EQ(text.find('0'), std::string::npos) << text;
  EXPECT_TRUE((cli::Survivors{.unlisted = true}).any());
  EXPECT_FALSE(cli::Survivors{}.any());
}

}  // namespace
}  // namespace holdfast::test
