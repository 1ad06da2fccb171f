#include "core/json_scanner.hpp"

#include <gtest/gtest.h>

#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

#include "support/seeded.hpp"
#include "tasks/json_forms.hpp"

namespace holdfast::core {
namespace {

using nlohmann::json;
using namespace std::string_literals;

bool is_json(std::string_view text) {
  JsonScanner scanner(text);
  scanner.take_value();
  return scanner.at_end();
}

/// The value whose first token is the current one, as the JSON library would have read it.
json value_of(JsonScanner& scanner) {
  switch (scanner.token()) {
    case JsonToken::boolean:
      return scanner.literal() == "true";
    case JsonToken::number:
      return nearest_double(scanner.literal());
    case JsonToken::string:
      return scanner.text();
    case JsonToken::object: {
      auto object = json::object();
      scanner.for_each_member([&] {
        const auto name = scanner.text();
        scanner.next();
        object[name] = value_of(scanner);
      });
      return object;
    }
    case JsonToken::array: {
      auto array = json::array();
      while (scanner.next() != JsonToken::end_array && scanner.token() != JsonToken::error) {
        array.push_back(value_of(scanner));
      }
      return array;
    }
    default:
      return nullptr;
  }
}

/// Numbers as the nearest double: the library keeps those of 64 bits apart.
json with_doubles(json value) {
  if (value.is_number()) return value.get<double>();
  for (auto& part : value) {
    if (value.is_structured()) part = with_doubles(part);
  }
  return value;
}

std::string number(test::Seeded& random) {
  const auto digits = [&random](std::size_t most) {
    std::string text;
    for (auto left = random.below(most) + 1; left > 0; --left)
      text += static_cast<char>('0' + random.below(10));
    return text;
  };
  std::string text = random.below(3) == 0 ? "-" : "";
  text += random.below(3) == 0
              ? "0"
              : std::to_string(1 + random.below(9)) + digits(random.below(8) == 0 ? 330 : 20);
  if (random.below(2) == 0) text += '.' + digits(random.below(8) == 0 ? 400 : 20);
  if (random.below(2) == 0) {
    text += random.pick<std::string>({"e", "E", "e+", "e-", "E-"});
    // The edges of doubles, and beyond any.
    const auto exponent = random.below(4) == 0 ? random.below(1000) : 290 + random.below(50);
    text += random.below(20) == 0 ? digits(25) : std::to_string(exponent);
  }
  return text;
}

std::string text_in_quotes(test::Seeded& random) {
  const std::vector<std::string> parts{"a",
                                       "é",
                                       "鍵",
                                       "🔒",
                                       R"(\n)",
                                       R"(\")",
                                       R"(\\)",
                                       R"(\/)",
                                       R"(\b)",
                                       "\x7F",
                                       R"(\u0041)",
                                       R"(\u00e9)",
                                       R"(\u0000)",
                                       R"(\u001F)",
                                       R"(\u2028)",
                                       R"(\ud83d\ude00)",
                                       R"(\uD83D\uDE00)",
                                       "{",
                                       "]",
                                       ":,"};
  std::string text = "\"";
  for (auto left = random.below(6); left > 0; --left) text += random.pick(parts);
  return text + '"';
}

std::string value(test::Seeded& random, int depth) {
  const auto space = [&random] { return random.pick<std::string>({"", "", "", " ", "\n\t", "\r "}); };
  switch (random.below(depth > 3 ? 5 : 8)) {
    case 0:
      return random.pick<std::string>({"null", "true", "false"});
    case 1:
    case 2:
      return number(random);
    case 3:
    case 4:
      return text_in_quotes(random);
    case 5: {
      std::string array = "[" + space();
      for (auto left = random.below(4); left > 0; --left) {
        array += value(random, depth + 1) + space() + (left > 1 ? "," + space() : "");
      }
      return array + "]";
    }
    default: {
      std::string object = "{" + space();
      for (auto left = random.below(4); left > 0; --left) {
        object += text_in_quotes(random) + space() + ":" + space() + value(random, depth + 1) + space() +
                  (left > 1 ? "," + space() : "");
      }
      return object + "}";
    }
  }
}

std::string damaged(test::Seeded& random, std::string text) {
  const std::vector<std::string> pieces{"\"",
                                        "\\",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "0",
                                        "-",
                                        ".",
                                        "e",
                                        "+",
                                        " ",
                                        "n",
                                        "\x01",
                                        "\xC3",
                                        "\xFF",
                                        "\xED\xA0\x80",
                                        "\xF4\x90\x80\x80",
                                        R"(\ud800)",
                                        R"(\udc00)",
                                        R"(\u12)",
                                        "\xC0\x80",
                                        "\n",
                                        "\xE2\x82",
                                        "tru",
                                        "1e999"};
  for (auto left = random.below(3) + 1; left > 0; --left) {
    const auto at = random.below(text.size() + 1);
    text.replace(at, std::min(random.below(3), text.size() - at),
                 random.below(3) == 0 ? "" : random.pick(pieces));
  }
  return text;
}

TEST(JsonScanner, AcceptsWhatTheJsonLibraryAcceptsAndNothingElse) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    auto text = value(random, 0);
    if (random.below(2) == 0) text = damaged(random, text);
    ASSERT_EQ(is_json(text), json::accept(text)) << text;
    ASSERT_EQ(static_cast<bool>(Json::parse(text)), is_json(text)) << text;
    accepted += is_json(text) ? 1 : 0;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 4500);
}

TEST(JsonScanner, ReadsTheValueThatTheJsonLibraryReads) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 5000; ++i) {
    const auto text = value(random, 0);
    const auto expected = json::parse(text, nullptr, false);
    if (expected.is_discarded()) continue;  // a number that no double holds
    JsonScanner scanner(text);
    scanner.next();
    ASSERT_EQ(value_of(scanner), with_doubles(expected)) << text;
    ASSERT_TRUE(scanner.at_end()) << text;
  }
}

TEST(JsonScanner, EachFormMeansTheSame) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  for (int i = 0; i < 5000; ++i) {
    const auto text = value(random, 0);
    const auto expected = json::parse(text, nullptr, false);
    if (expected.is_discarded()) continue;
    const auto compact = tasks::compact(text);
    ASSERT_EQ(json::parse(compact), expected) << text;
    ASSERT_EQ(measure(text).compact_bytes, compact.size()) << text;
    const auto canonical = tasks::canonical(text);
    ASSERT_EQ(with_doubles(json::parse(canonical)), with_doubles(expected)) << text;
    ASSERT_EQ(tasks::canonical(canonical), canonical) << text;
    ASSERT_EQ(tasks::canonical(compact), canonical) << text;
  }
}

TEST(JsonScanner, TellsTokensAndWhereTheyAre) {
  JsonScanner scanner(R"( { "a\n" : [ -1.5e3 , "\u0041b" ] , "b":null } )");
  const auto next_is = [&scanner](JsonToken token, std::string_view literal) {
    EXPECT_EQ(scanner.next(), token) << literal;
    EXPECT_EQ(scanner.literal(), literal);
  };
  next_is(JsonToken::object, "{");
  next_is(JsonToken::name, R"("a\n")");
  EXPECT_EQ(scanner.text(), "a\n");
  next_is(JsonToken::array, "[");
  next_is(JsonToken::number, "-1.5e3");
  next_is(JsonToken::string, R"("\u0041b")");
  EXPECT_EQ(scanner.text(), "Ab");
  EXPECT_EQ(scanner.compact_bytes(), 4U);
  next_is(JsonToken::end_array, "]");
  next_is(JsonToken::name, R"("b")");
  next_is(JsonToken::null, "null");
  next_is(JsonToken::end_object, "}");
  next_is(JsonToken::end, "");
  next_is(JsonToken::end, "");
}

TEST(JsonScanner, TakesAValueWholeHoweverDeepItIs) {
  const auto deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const auto text = R"({"a": )" + deep + R"( ,"b":2})";
  JsonScanner scanner(text);
  scanner.next();
  std::vector<JsonValue> values;
  scanner.for_each_member([&] { values.push_back(scanner.take_value()); });
  ASSERT_TRUE(scanner.at_end());
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].text, deep);
  EXPECT_EQ(values[0].measure.nesting, 1'000'000U);
  EXPECT_EQ(values[0].measure.compact_bytes, deep.size());
  EXPECT_EQ(values[1].text, "2");
  EXPECT_EQ(values[1].measure.nesting, 0U);
}

TEST(JsonScanner, AnErrorStaysAndNamesItsPlace) {
  JsonScanner scanner(R"({"a":[1,}])");
  scanner.take_value();
  EXPECT_EQ(scanner.next(), JsonToken::error);
  EXPECT_EQ(scanner.next(), JsonToken::error);
  EXPECT_EQ(scanner.position(), 8U);
  EXPECT_STREQ(scanner.problem(), "expected a value");
}

TEST(JsonScanner, NumbersAtTheEdgeOfDoubles) {
  for (const auto* fits :
       {"1.7976931348623157e308", "1.7976931348623158e308", "179769313486231570e291", "0e999999999999",
        "-0.0e99999", "1e-999999999999", "0.0000000001e317", "1e308", "4.9e-324"}) {
    EXPECT_TRUE(is_json(fits)) << fits;
  }
  for (const auto* beyond :
       {"1.797693134862315808e308", "1e309", "-1e309", "1e999999999999", "1000e306", "0.1e310"}) {
    JsonScanner scanner(beyond);
    EXPECT_EQ(scanner.next(), JsonToken::error) << beyond;
    EXPECT_TRUE(scanner.is_huge_number()) << beyond;
  }
  EXPECT_TRUE(is_json("1" + std::string(308, '0')));
  EXPECT_FALSE(is_json("1" + std::string(309, '0')));
  EXPECT_TRUE(is_json("0." + std::string(400, '0') + "1e400"));
}

TEST(JsonScanner, WritesAStringAsTheJsonLibraryDoes) {
  std::string all;
  for (char c = 0; c < 0x7F; ++c) all += c;
  for (const auto& text : {""s, all, "\x7F é鍵🔒\u2028"s}) {
    EXPECT_EQ(json_string(text), json(text).dump());
    EXPECT_EQ(unescaped(json_string(text)), text);
  }
}

TEST(JsonScanner, AnObjectOfManyNamesIsSortedForItsDigestInOnePass) {
  std::string object = "{";
  for (int i = 20'000; i > 0; --i)
    object += "\"n" + std::to_string(i % 10'000) + "\":" + std::to_string(i) + ",";
  object.back() = '}';
  const auto canonical = tasks::canonical(object);
  EXPECT_TRUE(canonical.starts_with(R"({"n0":10000,"n1":1,"n10":10,)")) << canonical.substr(0, 60);
  EXPECT_EQ(json::parse(canonical), json::parse(object));
}

TEST(JsonParts, AreThoseAtTheTopAsTheyAreWritten) {
  const auto array = Json::parse(R"([ 1.50 , {"a":[2]} , "\u0041" ])").value_or_throw();
  EXPECT_EQ(elements_of(array), (std::vector<std::string_view>{"1.50", R"({"a":[2]})", R"("\u0041")"}));
  EXPECT_TRUE(members_of(array).empty());
  const auto object = Json::parse(R"({"a\u0062": [ ], "a":1, "a":2})").value_or_throw();
  const auto members = members_of(object);
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].name, "ab");
  EXPECT_EQ(members[0].value, "[ ]");
  EXPECT_EQ(members[2].value, "2");
  EXPECT_TRUE(elements_of(object).empty());
  EXPECT_EQ(string_in(R"("\u0041")"), "A");
  EXPECT_EQ(string_in("1"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::core
