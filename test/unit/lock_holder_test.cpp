#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <holdfast/lock_types.hpp>
#include <holdfast/open.hpp>
#include <holdfast/printable.hpp>

#include "core/utf8.hpp"
#include "support/in_child.hpp"
#include "url.hpp"

namespace holdfast {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(LockHolder, IsUpTo256BytesOfUtf8) {
  EXPECT_EQ(LockHolder::parse("alice@web-3:812 make")->str(), "alice@web-3:812 make");
  EXPECT_TRUE(LockHolder::parse(std::string(256, 'x')));
  EXPECT_TRUE(LockHolder::parse(std::string("\0\x1B\n", 3))) << "shown escaped, but stored as it is";
  for (const auto& bad : {std::string(), std::string(257, 'x'), repeated("\xC3\xA9", 129),
                          std::string("\xFF"), std::string("caf\xC3")}) {
    const auto parsed = LockHolder::parse(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(parsed.error().message().find(bad.empty() ? "\xFF" : bad), std::string::npos);
  }
}

TEST(LockHolder, NoneIsNoLabel) {
  EXPECT_EQ(LockHolder::from_setting("none").value_or_throw(), nullptr);
  EXPECT_EQ(LockHolder::from_setting("None").value_or_throw()->str(), "None");
  EXPECT_FALSE(LockHolder::from_setting(""));
}

TEST(LockHolder, ATextThatWasNotChosenIsCutAtACharacter) {
  EXPECT_EQ(LockHolder::shortened("x")->str(), "x");
  EXPECT_FALSE(LockHolder::shortened(""));
  EXPECT_EQ(LockHolder::shortened(repeated("\xC3\xA9", 200))->str(), repeated("\xC3\xA9", 128));
  EXPECT_EQ(LockHolder::shortened("x" + repeated("\xC3\xA9", 200))->str(), "x" + repeated("\xC3\xA9", 127));
  EXPECT_EQ(LockHolder::shortened("caf\xE9 bar")->str(), "caf\xEF\xBF\xBD bar");
  for (std::size_t length = 0; length < 300; ++length) {
    const auto label = LockHolder::shortened(std::string(length, 'x') + repeated("\xF0\x9F\x94\x92\xFF", 60));
    EXPECT_TRUE(label && LockHolder::parse(label->str())) << length;
  }
}

TEST(LockHolder, OfThisProcessNamesUserHostPidAndProgram) {
  const auto label = LockHolder::of_this_process();
  EXPECT_EQ(label, LockHolder::of_this_process()) << "computed once";
  const auto& text = label->str();
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  EXPECT_NE(text.find("@" + std::string(host.data()) + ":" + std::to_string(getpid()) + " unit_tests"),
            std::string::npos)
      << text;
  EXPECT_GT(text.find('@'), 0U);
  const auto other = LockHolder::of_this_process("make");
  EXPECT_EQ(other->str(), text.substr(0, text.rfind(' ')) + " make");
  EXPECT_EQ(LockHolder::of_process(getpid(), geteuid())->str(), text);
  EXPECT_EQ(LockHolder::of_process(0, 0), nullptr) << "a peer in another pid namespace";
}

TEST(LockHolder, OfAForkedChildHasItsOwnPid) {
  const auto parents = LockHolder::of_this_process()->str();
  EXPECT_TRUE(test::in_child([&] {
    const auto own = LockHolder::of_this_process()->str();
    return own != parents && own.find(":" + std::to_string(getpid()) + " ") != std::string::npos;
  }));
}

TEST(LockHolder, OfAnOpenedStoreIsTheFirstThatIsSet) {
  const auto holder_of = [](std::string_view url, const Instruments& instruments = {}) {
    const auto holder = open(url, instruments).locks().holder();
    return holder ? holder->str() : "";
  };
  const auto automatic = LockHolder::of_this_process()->str();
  ASSERT_EQ(unsetenv("HOLDFAST_HOLDER"), 0);
  EXPECT_EQ(holder_of("memory:"), automatic);
  Instruments instruments;
  instruments.program = "make";
  EXPECT_EQ(holder_of("memory:", instruments), LockHolder::of_this_process("make")->str());
  ASSERT_EQ(setenv("HOLDFAST_HOLDER", "pod-7", 1), 0);
  EXPECT_EQ(holder_of("memory:", instruments), "pod-7");
  EXPECT_EQ(holder_of("memory:?holder=caf%C3%A9%20%2F%3F"), "caf\xC3\xA9 /?");
  EXPECT_EQ(holder_of("memory:?holder=none"), "");
  instruments.holder = "job";
  EXPECT_EQ(holder_of("memory:?holder=none", instruments), "job");
  ASSERT_EQ(setenv("HOLDFAST_HOLDER", "none", 1), 0);
  EXPECT_EQ(holder_of("memory:"), "");
  ASSERT_EQ(setenv("HOLDFAST_HOLDER", std::string(257, 'x').c_str(), 1), 0);
  EXPECT_THROW((void)open("memory:"), Error) << "chosen, so not cut";
  ASSERT_EQ(unsetenv("HOLDFAST_HOLDER"), 0);
  EXPECT_THROW((void)open("memory:?holder="), Error);
  EXPECT_THROW((void)open("memory:?holder=%zz"), Error);
}

TEST(LockHolder, IsTheOnlyParameterOfAUrlWithoutAServer) {
  const auto split = [](std::string_view url) { return split_holder(url).value_or_throw(); };
  EXPECT_EQ(split("sqlite:/a/b?c.db").url, "sqlite:/a/b?c.db") << "a file name";
  EXPECT_EQ(split("sqlite:/a/b?c.db?holder=x").url, "sqlite:/a/b?c.db");
  EXPECT_EQ(split("sqlite:/a/b?c.db?holder=x").holder, "x");
  EXPECT_EQ(split("system:?holder=x").url, "system:");
  EXPECT_EQ(split("redis://h?holder=x").url, "redis://h?holder=x") << "its parser knows it";
  EXPECT_EQ(open("memory:?holder=a%20b").url(), "memory:?holder=a%20b");
  EXPECT_THROW((void)open("memory:?wait=5"), Error);
}

TEST(Printable, LeavesNothingThatATerminalObeysOrThatBeginsALine) {
  EXPECT_EQ(printable("alice@web-3:812 make"), "alice@web-3:812 make");
  EXPECT_EQ(printable("caf\xC3\xA9 \xE9\x8D\xB5 \xF0\x9F\x94\x92"),
            "caf\xC3\xA9 \xE9\x8D\xB5 \xF0\x9F\x94\x92");
  EXPECT_EQ(printable("a\nb\r\x1B[2J\x7F"), "a\\x0ab\\x0d\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b31m")
      << "CSI as one character";
  EXPECT_EQ(printable("\xC2\xA0"), "\xC2\xA0") << "the first that is no control character";
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "gpj.exe"),
            "\\xe2\\x80\\xaegpj.exe")
      << "right to left";
  EXPECT_EQ(printable("\xE2\x81\xA6\xE2\x81\xA9\xD8\x9C\xE2\x80\x8F"),
            "\\xe2\\x81\\xa6\\xe2\\x81\\xa9\\xd8\\x9c\\xe2\\x80\\x8f");
  EXPECT_EQ(printable("\xE2\x80\xA8\xE2\x80\xA9"), "\\xe2\\x80\\xa8\\xe2\\x80\\xa9") << "line separators";
  EXPECT_EQ(printable("\xE2\x80"), "\\xe2\\x80");
  EXPECT_EQ(printable("\xED\xA0\x80\xC0\xAF"), "\\xed\\xa0\\x80\\xc0\\xaf") << "not UTF-8";
}

TEST(Printable, OfAnyBytesIsUtf8WithoutControlCharacters) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      for (const auto* head : {"", "\xE2", "\xE2\x80"}) {
        const auto shown = printable(head + std::string{static_cast<char>(first), static_cast<char>(second)});
        ASSERT_TRUE(core::is_utf8(shown));
        for (std::string_view rest = shown; !rest.empty(); rest.remove_prefix(core::code_point_bytes(rest))) {
          ASSERT_EQ(control_character_bytes(rest), 0U) << shown;
        }
        ASSERT_EQ(printable(shown), shown);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
