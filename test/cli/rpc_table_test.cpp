#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "rpc/methods/methods.hpp"
#include "support/paths.hpp"

namespace holdfast::rpc {
namespace {

TEST(RpcTable, EveryMethodHasItsOwnNameAndADescription) {
  std::set<std::string_view> names;
  for (const auto& method : methods()) {
    EXPECT_TRUE(names.insert(method.name).second) << method.name;
    EXPECT_FALSE(method.summary.empty()) << method.name;
    EXPECT_EQ(method.summary.find('\n'), std::string_view::npos) << method.name;
    EXPECT_FALSE(method.result.empty()) << method.name;
    EXPECT_NE(method.run, nullptr) << method.name;
  }
  EXPECT_GT(names.size(), 20U);
}

TEST(RpcTable, AMethodHasNoParameterTwice) {
  for (const auto& method : methods()) {
    std::set<std::string_view> names;
    for (const auto& parameter : method.parameters.span()) {
      EXPECT_FALSE(parameter.name.empty()) << method.name;
      EXPECT_TRUE(names.insert(parameter.name).second) << method.name << " " << parameter.name;
    }
  }
}

TEST(RpcTable, EveryMethodIsInTheReference) {
  std::ifstream file(test::source_dir() + "/docs/reference/rpc.md");
  const std::string reference{std::istreambuf_iterator<char>(file), {}};
  for (const auto& method : methods()) {
    EXPECT_NE(reference.find("| `" + std::string(method.name) + "`"), std::string::npos) << method.name;
  }
}

}  // namespace
}  // namespace holdfast::rpc
