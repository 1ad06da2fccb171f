#include <gtest/gtest.h>

#include <set>

#include "tasks/cursor.hpp"
#include "tasks/limits.hpp"
#include "tasks/owner.hpp"

namespace holdfast::tasks {
namespace {

constexpr TaskStatus all[] = {TaskStatus::working, TaskStatus::input_required, TaskStatus::completed,
                              TaskStatus::failed, TaskStatus::cancelled};

TEST(TaskStatus, MovesAsDocumentedAndNotOtherwise) {
  const std::set<std::pair<TaskStatus, TaskStatus>> allowed{
      {TaskStatus::working, TaskStatus::input_required}, {TaskStatus::working, TaskStatus::completed},
      {TaskStatus::working, TaskStatus::failed},         {TaskStatus::working, TaskStatus::cancelled},
      {TaskStatus::input_required, TaskStatus::working}, {TaskStatus::input_required, TaskStatus::completed},
      {TaskStatus::input_required, TaskStatus::failed},  {TaskStatus::input_required, TaskStatus::cancelled}};
  for (const auto from : all) {
    for (const auto to : all) {
      EXPECT_EQ(may_become(from, to), allowed.contains({from, to})) << to_string(from) << to_string(to);
    }
  }
}

TEST(TaskStatus, IsReadAsItIsWritten) {
  for (const auto status : all) EXPECT_EQ(parse_task_status(to_string(status)), status);
  EXPECT_FALSE(parse_task_status("Working"));
  EXPECT_FALSE(parse_task_status(""));
  EXPECT_EQ(to_string(TaskStatus::input_required), "input_required");
}

TEST(TaskOwner, NobodyInParticularIsRefusedUnlessAllowed) {
  for (const auto* owner : {"", "local"}) {
    const auto refused = checked_owner(owner, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::AnonymousOwner);
    EXPECT_EQ(*checked_owner(owner, true), "local");
  }
  EXPECT_EQ(*checked_owner("alice", false), "alice");
}

TEST(TaskOwner, OrdinaryOnesAreStoredAsTheyAre) {
  for (const std::string owner : {"alice", "auth0|12", "a@b.example", "100%", "%3a", "ü", "a b"}) {
    EXPECT_EQ(stored_owner(owner), owner);
  }
}

TEST(TaskOwner, NoTwoHaveOneName) {
  // All words of up to six letters over what matters.
  std::set<std::string> seen;
  const std::string letters = ":%3A25";
  std::vector<std::string> words{""};
  std::size_t count = 0;
  for (std::size_t i = 0; i < words.size() && words[i].size() < 6; ++i) {
    for (const char letter : letters) words.push_back(words[i] + letter);
  }
  for (const auto& word : words) {
    const auto stored = stored_owner(word);
    EXPECT_EQ(stored.find(':'), std::string::npos) << word;
    if (!word.empty()) {
      EXPECT_EQ(owner_stored_as(stored), word);
    }
    seen.insert(stored);
    ++count;
  }
  EXPECT_EQ(seen.size(), count);
  EXPECT_FALSE(seen.contains("%register%25"));
  EXPECT_FALSE(owner_stored_as("%register%25"));
  EXPECT_FALSE(owner_stored_as("")) << "who has no name is `local`, and stored as that";
}

TEST(TaskOwner, ATaskHasALockOfItsOwnHoweverLongItsOwnerIs) {
  const auto key = RecordKey::of("alice", "1").value_or_throw();
  EXPECT_EQ(lock_key_of(key), "task:alice:1");
  const auto long_one = lock_key_of(RecordKey::of(std::string(900, 'x'), "1").value_or_throw());
  const auto other = lock_key_of(RecordKey::of(std::string(900, 'x'), "2").value_or_throw());
  EXPECT_LE(long_one.size(), 512U);
  EXPECT_NE(long_one, other);
}

TEST(TaskCursor, LeadsBackToItsPlace) {
  const ListPosition position{.created_at_ms = 1'700'000'000'123, .task = "a.b:c/d é\n"};
  const auto cursor = cursor_at(position, "alice").value_or_throw();
  EXPECT_EQ(*position_of(cursor, "alice"), position);
  for (const char c : cursor) EXPECT_TRUE(c > ' ' && c < 0x7f) << cursor;
}

TEST(TaskCursor, AnythingElseIsRefused) {
  const auto good = cursor_at({.created_at_ms = 5, .task = "t"}, "alice").value_or_throw();
  for (const std::string& bad : {std::string("x"), std::string("t"), good + "x", good.substr(1), "A" + good,
                                 std::string("..."), std::string("AAAAAAAA.5.t")}) {
    const auto position = position_of(bad, "alice");
    ASSERT_FALSE(position) << bad;
    EXPECT_EQ(position.error().code(), ErrorCode::BadCursor);
  }
  EXPECT_EQ(position_of(good, "bob").error().code(), ErrorCode::BadCursor) << "another owner's";
}

Json nested(std::size_t containers) {
  return Json::parse(R"({"v":)" + std::string(containers, '[') + std::string(containers, ']') + "}")
      .value_or_throw();
}
Json text_of(std::size_t bytes, const std::string& before, const std::string& after) {
  return Json::parse(before + std::string(bytes, 'x') + after).value_or_throw();
}

TEST(TaskLimits, TenContainersInAValueAndNoEleventh) {
  EXPECT_TRUE(checked_variables(nested(10), {}));
  EXPECT_EQ(checked_variables(nested(11), {}).error().code(), ErrorCode::TooDeep);
  EXPECT_EQ(checked_variables(nested(100'000), {}).error().code(), ErrorCode::TooDeep);
}

TEST(TaskLimits, StringsWhereverTheyAre) {
  constexpr std::size_t most = 64 * 1024;
  const auto code = [](const Json& json) { return checked_variables(json, {}).error().code(); };
  EXPECT_TRUE(checked_variables(text_of(most, R"({"v":")", R"("})"), {}));
  EXPECT_EQ(code(text_of(most + 1, R"({"v":")", R"("})")), ErrorCode::TooLarge);
  EXPECT_EQ(code(text_of(most + 1, R"({"v":{"w":[")", R"("]}})")), ErrorCode::TooLarge);
  EXPECT_EQ(code(text_of(most + 1, R"({"v":{")", R"(":1}})")), ErrorCode::TooLarge);
  EXPECT_EQ(code(text_of(most + 1, R"({")", R"(":1})")), ErrorCode::TooLarge);
  EXPECT_TRUE(checked_variables(text_of(most - 1, R"({"v":"\u0041)", R"("})"), {}))
      << "an escape is one letter";
}

TEST(TaskLimits, AllVariablesTogetherInBytesOfJson) {
  Members variables;
  for (int i = 0; i < 16; ++i)
    variables.set("v" + std::to_string(10 + i), json_string(std::string(1000, 'x')));
  const auto bytes = variables.text().size();
  EXPECT_TRUE(check_size(variables, {.max_variables_bytes = bytes}));
  EXPECT_EQ(check_size(variables, {.max_variables_bytes = bytes - 1}).error().code(), ErrorCode::TooLarge);
}

TEST(TaskLimits, VariablesAreAnObject) {
  for (const auto* text : {"[1]", "1", "null", "\"x\""}) {
    const auto refused = checked_variables(Json::parse(text).value_or_throw(), {});
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  }
}

TEST(TaskOwner, IsTheFirstThatIsKnown) {
  EXPECT_EQ(owner_of("subject", "client", "session"), "subject");
  EXPECT_EQ(owner_of("", "client", "session"), "client");
  EXPECT_EQ(owner_of("", "", "session"), "session");
  EXPECT_EQ(owner_of(""), "local");
}

TEST(TaskLimits, NestingIsCountedOutsideOfStrings) {
  EXPECT_EQ(nesting("1"), 0U);
  EXPECT_EQ(nesting(R"({"a":[1,[2]],"b":{}})"), 3U);
  EXPECT_EQ(nesting(R"(["[[[\"[[",{}])"), 2U);
  EXPECT_EQ(nesting(std::string(100'000, '[')), 100'000U);
}

}  // namespace
}  // namespace holdfast::tasks
