#include <nlohmann/json.hpp>

#include "output_parts.hpp"
#include "program.hpp"

namespace holdfast::test {
namespace {

using nlohmann::ordered_json;

/// What is typed for a task's variables and limits, and what a table shows of them.
class TaskArguments : public CliTest {
 protected:
  Finished task(std::vector<std::string> typed) const {
    typed.insert(typed.begin(), "task");
    return holdfast(typed);
  }
  std::string create(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), "create");
    const auto result = task(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  /// With --json; must succeed.
  ordered_json json(std::vector<std::string> typed) const {
    typed.insert(typed.begin(), {"--json", "task"});
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 0) << result.err;
    return ordered_json::parse(result.out, nullptr, false);
  }
};

TEST_F(TaskArguments, AProgressThatMayBeAFractionOrAPercentageIsShownAsItIs) {
  const std::vector<std::pair<std::string, std::string>> shown{
      {"0", "0 %"}, {"0.5", "50 %"},  {"1.0", "100 %"}, {"1", "1"},
      {"2", "2 %"}, {"100", "100 %"}, {"101", "101"},   {"1.5", "2 %"}};
  for (const auto& [progress, cell] : shown) {
    const auto id = create({"progress=" + progress});
    const auto row = lines_of(task({"list", "--limit", "1"}).out).at(1);
    EXPECT_NE(row.find(" min  " + cell + ' '), std::string::npos) << progress << row;
  }
}

TEST_F(TaskArguments, ACellOfATableHasAFewColumnsWhateverItHolds) {
  create({"--method", std::string(1000, 'm'), "progress=\"" + std::string(65'000, 'p') + "\""});
  create({"progress=\"" + std::string(39, 'p') + "\u00fc\""});
  const auto lines = lines_of(task({"list"}).out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[1].find(std::string(39, 'p') + "\u00fc"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find(' ' + std::string(37, 'p') + "... "), std::string::npos) << lines[2].substr(0, 300);
  EXPECT_LT(lines[2].size(), 250U);
}

TEST_F(TaskArguments, AnAssignmentIsOneHoweverItLooks) {
  const auto refused = task({"create", "[a=1,b=2]"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.err.find("is not valid JSON"), std::string::npos) << refused.err;
  EXPECT_EQ(json({"create", "[a=[1,2]", "b=3"})["variables"], ordered_json::parse(R"({"[a":[1,2],"b":3})"));
  EXPECT_EQ(json({"create", "[a]=[1,2]"})["variables"], ordered_json::parse(R"({"[a]":[1,2]})"));
  const auto id = create();
  EXPECT_EQ(json({"set", id, "[x]=[1]", "[y]=[]"})["variables"],
            ordered_json::parse(R"({"[x]":[1],"[y]":[]})"));
}

TEST_F(TaskArguments, LimitsAreOptionsBeforeOrBehindTheSubcommand) {
  EXPECT_EQ(task({"create", "--ttl", "48h"}).code, 65);
  EXPECT_EQ(json({"create", "--ttl", "48h", "--max-ttl", "7d"})["task"]["ttl"], 172'800'000);
  EXPECT_EQ(
      json({"--max-ttl", "7d", "--poll-interval", "2s", "create", "--ttl", "48h"})["task"]["pollInterval"],
      2000);
  EXPECT_EQ(json({"create", "--default-ttl", "10m"})["task"]["ttl"], 600'000);
  EXPECT_EQ(task({"create", "--max-tasks", "3"}).code, 75);
  EXPECT_EQ(task({"create", "--max-tasks", "0"}).code, 0);
  const auto id = create();
  EXPECT_EQ(task({"set", id, "a=\"123456\"", "--max-string", "5"}).code, 65);
  EXPECT_EQ(task({"set", id, "a=[[1]]", "--max-depth", "1"}).code, 65);
  EXPECT_EQ(task({"set", id, "a=12345", "--max-variables", "10"}).code, 65);
  EXPECT_EQ(task({"set", id, "a=1234", "--max-variables", "10"}).code, 0);
  for (const auto& bad : {std::vector<std::string>{"--max-ttl", "0"},
                          {"--default-ttl", "25h"},
                          {"--max-depth", "101"},
                          {"--max-tasks", "-1"}}) {
    auto typed = bad;
    typed.insert(typed.begin(), "create");
    EXPECT_EQ(task(typed).code, 64) << bad[0];
  }
}

}  // namespace
}  // namespace holdfast::test
