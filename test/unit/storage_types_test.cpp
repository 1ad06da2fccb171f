#include <gtest/gtest.h>

#include <holdfast/storage_types.hpp>

#include "core/wall_time.hpp"

namespace holdfast {
namespace {

using namespace std::string_literals;

TEST(RecordKey, IsSplitAtTheFirstColon) {
  const auto key = RecordKey::parse("owner:task:with:colons");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->owner(), "owner");
  EXPECT_EQ(key->task(), "task:with:colons");
  EXPECT_EQ(key->str(), "owner:task:with:colons");
}

TEST(RecordKey, IsTheSameFromItsParts) {
  EXPECT_EQ(*RecordKey::of("o", "a:b"), *RecordKey::parse("o:a:b"));
  EXPECT_NE(*RecordKey::of("o", "a"), *RecordKey::of("o", "A"));
}

TEST(RecordKey, EitherPartMayBeEmptyOrAnyUtf8) {
  EXPECT_EQ(RecordKey::parse(":t")->owner(), "");
  EXPECT_EQ(RecordKey::parse("o:")->task(), "");
  EXPECT_EQ(RecordKey::parse("é:鍵\n\"{}*?[]")->task(), "鍵\n\"{}*?[]");
  EXPECT_EQ(RecordKey::of("o", "a\0b"s)->task(), "a\0b"s);
}

TEST(RecordKey, IsNotNormalised) {
  EXPECT_NE(*RecordKey::of("o", "caf\xC3\xA9"), *RecordKey::of("o", "cafe\xCC\x81"));
}

TEST(RecordKey, WithoutAColonIsInvalidArgument) {
  for (const char* text : {"", "owner", "owner;task"}) {
    const auto key = RecordKey::parse(text);
    ASSERT_FALSE(key) << text;
    EXPECT_EQ(key.error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(RecordKey, AnOwnerWithAColonIsInvalidArgument) {
  const auto key = RecordKey::of("a:b", "t");
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code(), ErrorCode::InvalidArgument);
}

TEST(RecordKey, ThatIsNotUtf8IsInvalidArgument) {
  EXPECT_EQ(RecordKey::of("\xFF", "t").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(RecordKey::of("o", "\xC0\x80").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(RecordKey::parse("o:\xED\xA0\x80").error().code(), ErrorCode::InvalidArgument);
}

TEST(RecordKey, MayBeAsLongAsTheLimitAndNoLonger) {
  const std::string longest = "o:" + std::string(RecordKey::max_bytes - 2, 't');
  EXPECT_TRUE(RecordKey::parse(longest));
  const auto longer = RecordKey::parse(longest + "t");
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code(), ErrorCode::InvalidArgument);
  EXPECT_NE(longer.error().message().find("1025"), std::string::npos) << longer.error().message();
}

std::optional<std::int64_t> expiry_of(std::string text) {
  const auto time = RecordData::parse(std::move(text)).value_or_throw().expires_at();
  return time ? std::optional(core::to_ms(*time)) : std::nullopt;
}
std::int64_t creation_of(std::string text) {
  return core::to_ms(RecordData::parse(std::move(text)).value_or_throw().created_at());
}

TEST(RecordData, TheTimesAreThoseOfTheRecord) {
  const std::string text =
      R"({"task":{"taskId":"t","createdAt":"2024-01-01T00:00:00.250Z"},"expiresAt":"2024-01-01T01:00:00.5Z"})";
  const auto data = RecordData::parse(text).value_or_throw();
  EXPECT_EQ(data.text(), text);
  EXPECT_EQ(data.created_at(), core::from_ms(1'704'067'200'250));
  EXPECT_EQ(data.expires_at(), core::from_ms(1'704'070'800'500));
}

TEST(RecordData, TheExpiryHasAnyOffsetAndAnyNumberOfFractionalDigits) {
  EXPECT_EQ(expiry_of(R"({"expiresAt":"1970-01-01T01:00:01+01:00"})"), 1000);
  EXPECT_EQ(expiry_of(R"({"expiresAt":"1970-01-01T00:00:01.5Z"})"), 1500);
  EXPECT_EQ(expiry_of(R"({"expiresAt":"1970-01-01T00:00:01.123456Z"})"), 1123);
  EXPECT_EQ(expiry_of(R"({"expiresAt":"1970-01-01T00:00:01.123456789Z"})"), 1123);
}

TEST(RecordData, TimesMayBeEscapedLikeAnyText) {
  EXPECT_EQ(expiry_of(R"({"expires\u0041t":"1970-01-01T00:00:01\u005a"})"), 1000);
}

TEST(RecordData, AbsentOrUnparseableTimesAreNone) {
  for (const char* text :
       {"{}", R"({"expiresAt":null})", R"({"expiresAt":1704070800500})", R"({"expiresAt":""})",
        R"({"expiresAt":"soon"})", R"({"expiresAt":"2024-02-30T00:00:00Z"})", R"({"expiresAt":"2024-01-01"})",
        R"({"expiresAt":["2024-01-01T00:00:00Z"]})", R"({"expiresAt":{"expiresAt":"2024-01-01T00:00:00Z"}})",
        R"({"ExpiresAt":"2024-01-01T00:00:00Z"})"}) {
    EXPECT_EQ(expiry_of(text), std::nullopt) << text;
  }
  for (const char* text : {"{}", R"({"task":null})", R"({"task":{}})", R"({"task":{"createdAt":5}})",
                           R"({"task":{"createdAt":"yesterday"}})", R"({"task":"2024-01-01T00:00:00Z"})"}) {
    EXPECT_EQ(creation_of(text), 0) << text;
  }
}

TEST(RecordData, TheSameNamesElsewhereMeanNothing) {
  const std::string time = R"("2024-01-01T00:00:00Z")";
  for (const auto& text : {R"({"task":{"expiresAt":)" + time + "}}",
                           R"({"variables":{"expiresAt":)" + time + "}}", "[{\"expiresAt\":" + time + "}]",
                           R"({"a":[{"expiresAt":)" + time + "}]}", R"({"a":["expiresAt",)" + time + "]}",
                           R"({"a":"expiresAt","b":)" + time + "}", time, "[\"expiresAt\"," + time + "]"}) {
    EXPECT_EQ(expiry_of(text), std::nullopt) << text;
  }
  for (const auto& text :
       {"{\"createdAt\":" + time + "}", R"({"variables":{"createdAt":)" + time + "}}",
        R"({"variables":{"task":{"createdAt":)" + time + "}}}",
        R"({"task":{"_meta":{"createdAt":)" + time + "}}}", R"({"task":[{"createdAt":)" + time + "}]}",
        R"({"task":{"a":[{"createdAt":)" + time + "}]}}", R"([{"task":{"createdAt":)" + time + "}}]",
        R"({"task":{},"other":{"createdAt":)" + time + "}}",
        R"({"task":5,"other":{"createdAt":)" + time + "}}",
        R"({"task":[],"other":{"createdAt":)" + time + "}}"}) {
    EXPECT_EQ(creation_of(text), 0) << text;
  }
}

TEST(RecordData, TheTimesAreFoundBehindDecoys) {
  const std::string text =
      R"({"variables":{"task":{"createdAt":"2000-01-01T00:00:00Z"},"expiresAt":"2000-01-01T00:00:00Z"},)"
      R"("list":[{"expiresAt":"2000-01-01T00:00:00Z"},[]],)"
      R"("task":{"_meta":{"createdAt":"2000-01-01T00:00:00Z"},"createdAt":"1970-01-01T00:00:01Z",)"
      R"("expiresAt":"2000-01-01T00:00:00Z"},"expiresAt":"1970-01-01T00:00:02Z",)"
      R"("result":{"createdAt":"2000-01-01T00:00:00Z","expiresAt":"2000-01-01T00:00:00Z"}})";
  EXPECT_EQ(creation_of(text), 1000);
  EXPECT_EQ(expiry_of(text), 2000);
}

TEST(RecordData, OfANameThatOccursAgainTheLastCounts) {
  const std::string one = R"("1970-01-01T00:00:01Z")", two = R"("1970-01-01T00:00:02Z")";
  EXPECT_EQ(expiry_of("{\"expiresAt\":" + one + ",\"expiresAt\":" + two + "}"), 2000);
  EXPECT_EQ(expiry_of("{\"expiresAt\":" + one + ",\"expiresAt\":null}"), std::nullopt);
  EXPECT_EQ(expiry_of("{\"expiresAt\":" + one + ",\"expiresAt\":\"soon\"}"), std::nullopt);
  EXPECT_EQ(expiry_of("{\"expiresAt\":" + one + ",\"expiresAt\":{}}"), std::nullopt);
  EXPECT_EQ(expiry_of("{\"expiresAt\":null,\"expiresAt\":" + one + "}"), 1000);
  EXPECT_EQ(creation_of(R"({"task":{"createdAt":)" + one + ",\"createdAt\":" + two + "}}"), 2000);
  EXPECT_EQ(creation_of(R"({"task":{"createdAt":)" + one + R"(},"task":{"createdAt":)" + two + "}}"), 2000);
  EXPECT_EQ(creation_of(R"({"task":{"createdAt":)" + one + R"(},"task":{}})"), 0);
  EXPECT_EQ(creation_of(R"({"task":{"createdAt":)" + one + R"(},"task":null})"), 0);
}

TEST(RecordData, TextThatIsNoJsonIsTakenAsItIsAndHasNoTimes) {
  for (const std::string& text :
       {""s, "hello"s, "{"s, "a\0b"s, R"({"expiresAt":"2024-01-01T00:00:00Z")"s,
        R"({"expiresAt":"2024-01-01T00:00:00Z"} x)"s, R"({'expiresAt':'2024-01-01T00:00:00Z'})"s,
        "{\"expiresAt\":\"2024-01-01T00:00:00Z\"}\0x"s}) {
    const auto data = RecordData::parse(text);
    ASSERT_TRUE(data) << text;
    EXPECT_EQ(data->text(), text);
    EXPECT_EQ(data->expires_at(), std::nullopt) << text;
    EXPECT_EQ(data->created_at(), WallTime()) << text;
  }
}

TEST(RecordData, ThatIsNotUtf8IsInvalidArgument) {
  for (const char* text : {"\xFF", "{\"a\":\"\xC3\"}", "\xC0\x80", "\xED\xA0\x80", "\xF8\x88\x80\x80\x80"}) {
    const auto data = RecordData::parse(text);
    ASSERT_FALSE(data);
    EXPECT_EQ(data.error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(RecordData, MayBeAsLargeAsTheLimitAndNoLarger) {
  EXPECT_TRUE(RecordData::parse(std::string(RecordData::max_bytes, 'x')));
  const auto larger = RecordData::parse(std::string(RecordData::max_bytes + 1, 'x'));
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code(), ErrorCode::InvalidArgument);
}

TEST(RecordData, DepthNeedsNoStack) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(expiry_of(R"({"deep":)" + deep + R"(,"expiresAt":"1970-01-01T00:00:01Z"})"), 1000);
}

}  // namespace
}  // namespace holdfast
