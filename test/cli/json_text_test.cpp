#include "rpc/json/text.hpp"

#include <gtest/gtest.h>

#include <holdfast/error.hpp>
#include <nlohmann/json.hpp>

#include "terminal/output.hpp"

namespace holdfast::test {
namespace {

using namespace cli;
using namespace rpc;
using nlohmann::ordered_json;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonText, AnObjectIsJoinedFromItsMembers) {
  JsonObject object;
  EXPECT_EQ(object.json().str(), "{}");
  object.add("a\"b", "[1, 2]");
  object.add("é", "null");
  EXPECT_EQ(object.json().str(), R"({"a\"b":[1, 2],"é":null})");
  EXPECT_THROW(object.add("\xff", "1"), Error);
}

TEST(JsonText, MembersAreFoundAtTheTopOnly) {
  const auto object =
      Json::parse(R"( { "a" : {"x":[1,{"y":2}]} ,"b\u0041\"":"}, \"c\":1\\", "d":[ ], "a" : -1.5e3 } )")
          .value_or_throw();
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, value] : members_of(object)) found.emplace_back(name, value);
  EXPECT_EQ(
      found,
      (std::vector<std::pair<std::string, std::string>>{
          {"a", R"({"x":[1,{"y":2}]})"}, {"bA\"", R"("}, \"c\":1\\")"}, {"d", "[ ]"}, {"a", "-1.5e3"}}));
  const auto empty = Json::parse("{ }").value_or_throw();
  EXPECT_TRUE(members_of(empty).empty());
}

TEST(JsonText, LayoutIsThatOfTheLibrary) {
  for (const char* text : {R"({"a":[1,2,{"b":[],"c":{}}],"d":"x, y: [z] \" \\","e":{"f":null}})", "[]", "{}",
                           "1.5", R"("text")", R"([[[]],[{}],""])", "true"}) {
    const auto value = ordered_json::parse(text);
    EXPECT_EQ(on_one_line(value.dump(3)), value.dump());
    EXPECT_EQ(indented(text), value.dump(2));
    EXPECT_EQ(indented(value.dump(5)), value.dump(2));
  }
}

TEST(JsonText, ControlCharactersThatJsonAllowsAreEscaped) {
  EXPECT_EQ(on_one_line("[\"a\x7f\xc2\x9b"
                        "31m\xc3\xa9\"]"),
            R"(["a\u007f\u009b31mé"])");
}

TEST(JsonText, DepthAndWidthAreNoTrouble) {
  const auto deep = nested(1'000'000);
  EXPECT_EQ(on_one_line(deep), deep);
  const auto shown = indented(deep);
  EXPECT_LT(shown.size(), deep.size() + 20'000);
  EXPECT_EQ(on_one_line(shown), deep);
  JsonObject object;
  for (int i = 0; i < 40'000; ++i) object.add("name" + std::to_string(i), i == 0 ? deep : "1");
  const auto text = object.json();
  const auto members = members_of(text);
  ASSERT_EQ(members.size(), 40'000U);
  EXPECT_EQ(members.front().value, deep);
  EXPECT_EQ(members.back().name, "name39999");
}

TEST(ShellWord, IsQuotedIfItMustBe) {
  EXPECT_EQ(shell_word("alice"), "alice");
  EXPECT_EQ(shell_word("sqlite:/tmp/a.db"), "sqlite:/tmp/a.db");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(shell_word("~"), "'~'");
  EXPECT_EQ(shell_word("a\x1b'\\b"), R"($'a\x1b\'\\b')");
}

}  // namespace
}  // namespace holdfast::test
