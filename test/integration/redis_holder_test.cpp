// The label of a holder where Redis shows it.

#include <gtest/gtest.h>

#include <holdfast/open.hpp>
#include <set>

#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

TEST(RedisHolder, NamesTheConnectionUnlessThatHasAName) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  const auto name_with = [&](const std::string& parameters) {
    const auto url = server.url();
    const auto hf = open(url + (url.find('?') == std::string::npos ? "?" : "&") + parameters);
    const auto list = server.raw().text({"CLIENT", "LIST"});
    std::set<std::string> names;  // beside the raw connection, which has none
    for (auto next = list.find(" name="); next != std::string::npos; next = list.find(" name=", next + 1)) {
      names.insert(list.substr(next + 6, list.find(' ', next + 1) - next - 6));
    }
    names.erase("");
    return names.empty() ? "" : *names.begin();
  };
  EXPECT_EQ(name_with("holder=caf%C3%A9%20bar"), "caf__bar");
  EXPECT_EQ(name_with("holder=caf%C3%A9%20bar&name=orders"), "orders");
  EXPECT_EQ(name_with("holder=none"), "holdfast");
  EXPECT_EQ(name_with("holder=none&name="), "");
}

}  // namespace
}  // namespace holdfast::test
