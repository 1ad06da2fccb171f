#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "support/times.hpp"
#include "tasks/address.hpp"
#include "tasks/limits.hpp"
#include "tasks/list_loop.hpp"

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
  const ListPosition position{.created_at = test::from_ms(1'700'000'000'123), .task = "a.b:c/d é\n"};
  const auto cursor = cursor_at(position, "alice").value_or_throw();
  EXPECT_EQ(*position_of(cursor, "alice"), position);
  for (const char c : cursor) EXPECT_TRUE(c > ' ' && c < 0x7f) << cursor;
}

TEST(TaskCursor, AnythingElseIsRefused) {
  const auto good = cursor_at({.created_at = test::from_ms(5), .task = "t"}, "alice").value_or_throw();
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

/// Names of 16 bytes that have one value of libstdc++'s std::hash, MurmurHash64A with a known seed: whatever
/// the first eight are, there is one choice of the others that leads to a given state.
std::vector<std::string> names_with_one_hash(std::size_t count) {
  constexpr std::uint64_t multiplier = 0xC6A4A7935BD1E995;
  constexpr std::uint64_t inverse = 0x5F7A0EA7E59B19BD;
  static_assert(multiplier * inverse == 1);
  const auto mixed = [](std::uint64_t block) {
    block *= multiplier;
    return (block ^ (block >> 47)) * multiplier;
  };
  const auto unmixed = [](std::uint64_t block) {
    block *= inverse;
    return (block ^ (block >> 47)) * inverse;
  };
  const std::uint64_t start = 0xC70F6907 ^ (16 * multiplier);
  std::vector<std::string> names;
  for (std::uint64_t i = 0; names.size() < count; ++i) {
    std::uint64_t first = 0;  // eight letters
    for (unsigned at = 0; at < 8; ++at) first |= ('a' + ((i >> (4 * at)) & 0xF)) << (8 * at);
    const auto second = unmixed(((start ^ mixed(first)) * multiplier) ^ 0x123456789ABCDEF);
    if ((second & 0x8080808080808080) != 0) continue;  // only ASCII
    std::string name(16, ' ');
    std::memcpy(name.data(), &first, 8);
    std::memcpy(name.data() + 8, &second, 8);
    names.push_back(std::move(name));
  }
  return names;
}

// In a hash table each of them is compared with all before it: that took ten seconds.
TEST(TaskLimits, NamesThatCollideInAHashCostNoMoreThanOthers) {
  const auto names = names_with_one_hash(20'000);
#ifdef __GLIBCXX__
  ASSERT_EQ(std::hash<std::string>{}(names.front()), std::hash<std::string>{}(names.back()));
#endif
  std::string object;
  for (const auto& name : names) object += (object.empty() ? "{" : ",") + json_string(name) + ":1";
  const auto variables = checked_variables(Json::parse(object + "}").value_or_throw(), {}).value_or_throw();
  for (const auto& name : names) EXPECT_NE(variables.find(name), nullptr);
}

TEST(TaskLimits, AChangeThatCannotFitIsRefusedByItsSizeAlone) {
  const TaskOptions options{.max_variables_bytes = 100};
  std::string deletions = R"({"":null)";
  const auto change = [&] {
    return checked_variables(Json::parse(deletions + "}").value_or_throw(), options);
  };
  while (deletions.size() + 9 <= 200) {
    EXPECT_TRUE(change()) << deletions;
    deletions += R"(,"b":null)";
  }
  deletions += R"(,"b":null)";
  EXPECT_EQ(change().error().code(), ErrorCode::TooLarge);
  EXPECT_NE(change().error().message().find("of one change"), std::string::npos);
}

/// As Python's json.dumps does by default.
std::string with_escapes(std::size_t letters) {
  std::string text = "\"";
  for (std::size_t i = 0; i < letters; ++i) text += R"(\u00fc)";
  return text + '"';
}

// 400 KB of data that were refused as 1.2 MB of text.
TEST(TaskLimits, CountTheDataNotItsSpelling) {
  std::string python = "{";
  std::string plain = "{";
  for (int i = 0; i < 10; ++i) {
    const auto name = "\"v" + std::to_string(i) + "\"";
    python += (i == 0 ? "" : ", ") + name + ": " + with_escapes(20'000);
    std::string umlauts;
    for (int j = 0; j < 20'000; ++j) umlauts += "\xC3\xBC";
    plain += (i == 0 ? "" : ",") + name + ":\"" + umlauts + '"';
  }
  const auto checked = checked_variables(Json::parse(python + "}").value_or_throw(), {}).value_or_throw();
  EXPECT_TRUE(check_size(checked, {}));
  EXPECT_EQ(checked.text(), plain + "}");
  // What another writer stored with escapes counts the same.
  const auto stored = Members::of(Json::parse(python + "}").value_or_throw());
  EXPECT_TRUE(check_size(stored, {.max_variables_bytes = plain.size() + 1}));
  EXPECT_EQ(check_size(stored, {.max_variables_bytes = plain.size()}).error().code(), ErrorCode::TooLarge);
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
