#include <gtest/gtest.h>
#include <sys/resource.h>

#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

namespace holdfast {
namespace {

using namespace std::string_literals;

TEST(JsonText, AnyValueIsKeptAsItIsWritten) {
  for (const char* text :
       {"null", "true", "0", "-0.0", "1e3", "1.50", "12345678901234567890123", R"("a\u00e9\/b")", R"("é鍵")",
        "[]", "[1, 2 ,3]", "{}", R"({"b":1,"a":2})", R"({"a":1,"a":2})", "{ \"a\" : [ ] }"}) {
    const auto json = Json::parse(text);
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(json->str(), text);
  }
}

TEST(JsonText, SpaceAroundAValueIsNotKept) {
  EXPECT_EQ(Json::parse(" \t\r\n{\"a\": 1}\n ")->str(), "{\"a\": 1}");
}

TEST(JsonText, WhatIsNoJsonIsInvalidArgument) {
  for (const std::string& text : {""s,
                                  "   "s,
                                  "nul"s,
                                  "{"s,
                                  "}"s,
                                  "[1,]"s,
                                  "{\"a\"}"s,
                                  "{\"a\":1,}"s,
                                  "{a:1}"s,
                                  "'a'"s,
                                  "\"a"s,
                                  "01"s,
                                  "1."s,
                                  "+1"s,
                                  ".5"s,
                                  "NaN"s,
                                  "Infinity"s,
                                  "0x1"s,
                                  "1 2"s,
                                  "{}{}"s,
                                  "// c\n1"s,
                                  "/* c */1"s,
                                  "\"\x01\""s,
                                  "\"line\nbreak\""s,
                                  R"("\x")"s,
                                  R"("\ud800")"s,
                                  R"("\udc00\ud800")"s,
                                  "\"\xFF\""s,
                                  "\"\xC0\x80\""s,
                                  "\xA0{}"s}) {
    const auto json = Json::parse(text);
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code(), ErrorCode::InvalidArgument) << text;
  }
}

// Both would be read as if they were not there, but they would be handed on with the text.
TEST(JsonText, NeitherAByteOrderMarkNorANulByteIsPartOfIt) {
  for (const std::string& text : {"\xEF\xBB\xBF{}"s, "{}\0"s, "{}\0garbage"s, "\0"s, "\"a\0b\""s, "{\0}"s}) {
    EXPECT_FALSE(Json::parse(text)) << testing::PrintToString(text);
  }
}

TEST(JsonText, TheErrorNamesThePlace) {
  const auto json = Json::parse("{\"a\": 1,\n \"b\": ?}");
  ASSERT_FALSE(json);
  EXPECT_NE(std::string(json.error().what()).find("line 2, column 7"), std::string::npos)
      << json.error().what();
}

TEST(JsonText, ANumberThatNoDoubleHoldsIsNamedAsSuch) {
  EXPECT_EQ(Json::parse(R"({"a":1E400})").error().message(),
            "invalid JSON: a number exceeds the range of a double");
  EXPECT_EQ(Json::parse("{").error().message(), "invalid JSON");
}

TEST(JsonText, DepthNeedsNoStack) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_TRUE(Json::parse(deep));
  EXPECT_FALSE(Json::parse(std::string_view(deep).substr(0, deep.size() - 1)));
}

TEST(JsonText, WhatIsNoJsonCostsNoMoreThanItsText) {
  const auto most_memory_so_far = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // in KiB
  };
  const std::string bad(4 * 1024 * 1024, '[');
  const auto before = most_memory_so_far();
  EXPECT_FALSE(Json::parse(bad));
  EXPECT_LT(most_memory_so_far() - before, 100 * 1024);
}

TEST(JsonText, AStringIsQuotedAndReadBackTheSame) {
  for (const std::string& text : {""s, "a"s, "\"\\/\b\f\n\r\t\x01\x1F\x7F"s, "a\0b"s, "é鍵🔒"s, "\u2028"s}) {
    const auto json = Json::string(text);
    ASSERT_TRUE(json);
    ASSERT_TRUE(Json::parse(json->str())) << json->str();
    EXPECT_EQ(nlohmann::json::parse(json->str()).get<std::string>(), text);
  }
}

TEST(JsonText, AStringThatIsNotUtf8IsInvalidArgument) {
  for (const char* text : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    const auto json = Json::string(text);
    ASSERT_FALSE(json);
    EXPECT_EQ(json.error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(JsonText, ItsKindIsKnown) {
  EXPECT_TRUE(Json().is_null());
  EXPECT_EQ(Json().str(), "null");
  EXPECT_TRUE(Json::parse(" null ")->is_null());
  EXPECT_FALSE(Json::parse("\"null\"")->is_null());
  EXPECT_TRUE(Json::parse(" {} ")->is_object());
  EXPECT_FALSE(Json::parse("[{}]")->is_object());
  EXPECT_FALSE(Json::parse("\"{}\"")->is_object());
}

}  // namespace
}  // namespace holdfast
