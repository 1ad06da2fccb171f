// The label of a holder where Redis shows it.

#include <gtest/gtest.h>

#include <chrono>
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

TEST(RedisHolder, AnInvalidLabelOfOtherSoftwareDoesNotHideThatTheLockIsHeld) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  const auto hf = open(server.url());
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::string id = R"("lockId":"AAAAAAAAAAAAAAAAAAAAAA")";
  const auto times = R"("expiresAtMs":)" + std::to_string((now + std::chrono::minutes(1)).count()) +
                     R"(,"fence":"000000000000001","acquiredAtMs":)" + std::to_string(now.count());
  for (const std::string label : {R"("")", "\"\xff\xfe\"", R"({"a":1})", "null"}) {
    // In the order that Holdfast writes and in another one: the script reads them differently.
    for (const auto& first : {"{" + id + "," + times, "{" + times + "," + id}) {
      const auto record = first + R"(,"key":"k","holder":)" + label + "}";
      server.raw().text({"SET", "syncguard:k", record, "PX", "60000"});
      try {
        (void)hf.locks().lock("k", {.wait = std::chrono::milliseconds(0)});
        ADD_FAILURE() << record;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout) << record << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::test
