// The reference has what the code has: error codes, exit codes, JSON-RPC codes.
#include <gtest/gtest.h>

#include <fstream>
#include <holdfast/error.hpp>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "support/paths.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::test {
namespace {

std::string page(const std::string& name) {
  std::ifstream file(source_dir() + "/docs/reference/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<ErrorCode> error_codes() {
  std::set<ErrorCode> codes;
  for (int number = 0; number < 256; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    // A number that is no code has the name of Internal.
    if (code == ErrorCode::Internal || to_string(code) != to_string(ErrorCode::Internal)) codes.insert(code);
  }
  return codes;
}

TEST(Reference, EveryErrorCodeHasItsRow) {
  const auto text = page("errors.md");
  for (const auto code : error_codes()) {
    const std::string name(to_string(code));
    const auto start = text.find("\n| `" + name + "` |");
    ASSERT_NE(start, std::string::npos) << name;
    const auto row = text.substr(start + 1, text.find('\n', start + 1) - start - 1);
    const auto expected = std::string(is_transient(code) ? "| yes | " : "| no | ") +
                          std::to_string(cli::exit_code_of(code)) + " | \u2212" +
                          std::to_string(-json_rpc_code(code)) + " |";
    EXPECT_TRUE(row.ends_with(expected)) << row << "\n" << expected;
  }
  const std::regex row(R"re(\n\| `[A-Z])re");
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), row), {}),
            static_cast<std::ptrdiff_t>(error_codes().size()));
}

TEST(Reference, EveryErrorCodeIsInThatOfJsonRpc) {
  const auto text = page("rpc.md");
  for (const auto code : error_codes()) {
    EXPECT_NE(text.find("`" + std::string(to_string(code)) + "`"), std::string::npos) << to_string(code);
  }
}

std::string source_text(const std::string& path) {
  std::ifstream file(source_dir() + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Reference, EveryExitCodeIsInThatOfTheCommandLineAndInTheManual) {
  const auto source = source_text("cli/terminal/exit_codes.hpp");
  const auto manual = source_text("cli/manual/manual.cpp");
  const auto text = page("cli.md");
  const std::regex enumerator(R"re(exit_[a-z_]+ = (\d+))re");
  int found = 0;
  for (std::sregex_iterator each(source.begin(), source.end(), enumerator), end; each != end;
       ++each, ++found) {
    const auto number = (*each)[1].str();
    const std::regex row("\n\\| ([0-9]+, )?" + number + "(\\+N)?(, [0-9]+)? \\|");
    EXPECT_TRUE(std::regex_search(text, row)) << each->str();
    const std::regex entry("Entry\\{\\s*\"([0-9]+, )?" + number + "(\\+N)?(, [0-9]+)?\",");
    EXPECT_TRUE(std::regex_search(manual, entry)) << each->str();
  }
  EXPECT_GT(found, 10);
}

}  // namespace
}  // namespace holdfast::test
