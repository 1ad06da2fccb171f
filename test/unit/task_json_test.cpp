#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "support/seeded.hpp"
#include "tasks/creation.hpp"
#include "tasks/json_forms.hpp"

namespace holdfast::tasks {
namespace {

std::size_t longest_string_bytes(std::string_view json) {
  return core::measure(json).longest_string;
}
std::size_t compact_bytes(std::string_view json) {
  return core::measure(json).compact_bytes;
}

TEST(CompactJson, HasNeitherSpacesNorNeedlessEscapes) {
  EXPECT_EQ(compact(" { \"a b\" :\t[ 1.50 , true,null ]\r\n, \"c\":{ } } "),
            R"({"a b":[1.50,true,null],"c":{}})");
  EXPECT_EQ(compact(R"("\u00fc\/\u0041\ud83d\ude00")"), "\"\xC3\xBC/A\xF0\x9F\x98\x80\"");
  EXPECT_EQ(compact(R"("\u0022\u005c\u000a\u0009\u0001\u001F\n\"\\")"), R"("\"\\\n\t\u0001\u001f\n\"\\")");
  EXPECT_EQ(compact(R"("\u007f\u0080")"), "\"\x7F\xC2\x80\"");
  EXPECT_EQ(compact("123456789012345678901234567890"), "123456789012345678901234567890");
}

TEST(CompactJson, StringsAreMeasuredAsText) {
  EXPECT_EQ(longest_string_bytes(R"({"a":["\u00fc\n\/\"","12"],"b":"12345"})"), 5U);
  EXPECT_EQ(longest_string_bytes(R"({"\u00fc\u00fc\u00fc":["\u00fc\u00fc"]})"), 6U);
  EXPECT_EQ(longest_string_bytes(R"(["ab","cd"])"), 2U);
  EXPECT_EQ(longest_string_bytes("[1,{}]"), 0U);
}

TEST(CompactJson, IsWhatTheParserWrites) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (auto left = random.below(20); left > 0; --left) {
      const auto point = random.below(random.below(2) == 0 ? 0x80 : 0x3000);
      text +=
          nlohmann::json::parse("\"\\u" +
                                [point] {
                                  std::array<char, 5> hex{};
                                  std::snprintf(hex.data(), hex.size(), "%04x", static_cast<unsigned>(point));
                                  return std::string(hex.data());
                                }() +
                                "\"")
              .get<std::string>();
    }
    const nlohmann::json value{{text, {text, 1, nullptr}}};
    for (const bool ascii : {false, true}) {
      const auto written = value.dump(random.below(2) == 0 ? -1 : 3, ' ', ascii);
      EXPECT_EQ(compact(written), value.dump());
      EXPECT_EQ(compact_bytes(written), value.dump().size());
    }
  }
}

TEST(CanonicalJson, IsTheSameWhateverTheOrderAndTheSpelling) {
  EXPECT_EQ(canonical(R"({ "b":[1, {"y":1,"x":2}], "a":"\u0041" })"), R"({"a":"A","b":[1,{"x":2,"y":1}]})");
  EXPECT_EQ(canonical(R"({"a":1,"a":2})"), R"({"a":2})");
  EXPECT_EQ(canonical("[]"), "[]");
  EXPECT_EQ(canonical("[[],{}]"), "[[],{}]");
}

TEST(CanonicalJson, NumbersThatADoubleCannotTellApartDiffer) {
  const std::vector<std::string> different{"12345678901234567890123",
                                           "12345678901234567890124",
                                           "0.1",
                                           "0.10000000000000000555",
                                           "18446744073709551616",
                                           "18446744073709551617",
                                           "9007199254740993.0",
                                           "9007199254740992.0",
                                           "1e-400",
                                           "1e-401",
                                           "1e-99999999999999999999",
                                           "1e-99999999999999999998"};
  std::set<std::string> seen;
  for (const auto& number : different) seen.insert(canonical(number));
  EXPECT_EQ(seen.size(), different.size());
  EXPECT_EQ(canonical("12345678901234567890123000"), canonical("12345678901234567890123e3"));
}

// Digests that an earlier build stored must be met again.
TEST(CanonicalJson, NumbersThatADoubleHoldsAreWrittenAsTheyAlwaysWere) {
  for (const std::string number : {"0", "-1", "18446744073709551615", "0.1", "1.5e10", "100.0", "1e2", "-0.0",
                                   "3.14", "1e-7", "1e22", "123456.789"}) {
    EXPECT_EQ(canonical(number), nlohmann::json::parse(number).dump()) << number;
  }
}

TEST(CanonicalJson, IsNotRecursive) {
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  EXPECT_EQ(canonical(deep), deep);
}

TEST(RequestKey, ARequestThatDiffersInADigitNoDoubleHasIsAnother) {
  const auto origin = [](const std::string& variables) {
    const auto parsed = Json::parse(variables).value_or_throw();
    const NewTask task{.method = "m", .variables = parsed, .request_key = "r"};
    return Creation::prepare("alice", task, {}, WallTime())
        .value_or_throw()
        .request({})
        .value_or_throw()
        .origin;
  };
  const auto first = origin(R"({"n":12345678901234567890123,"m":"\u0041"})");
  EXPECT_EQ(origin(R"({"m":"A", "n":12345678901234567890123})"), first);
  EXPECT_NE(origin(R"({"n":12345678901234567890124,"m":"A"})"), first);
  // As builds before this one made it.
  EXPECT_EQ(origin(R"({"n":0.5})"), "DxuzHu8hrFpt3J-1A77Fji2HmiHnL0pq6R2iANaMFMY");
}

}  // namespace
}  // namespace holdfast::tasks
