#include <gtest/gtest.h>

#include <fstream>
#include <holdfast/error.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "json_schema.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/methods/openrpc.hpp"
#include "support/paths.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::json;

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

/// What stands between backquotes at the beginning of the rows of the reference: methods.
std::set<std::string> methods_in_reference() {
  std::ifstream file(test::source_dir() + "/docs/reference/rpc.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex row(R"re((?:^|\n)\| `((?!error\.)(?:[a-z]+\.|\$/)[A-Za-z]+)`)re");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found) {
    names.insert((*found)[1]);
  }
  return names;
}

TEST(RpcTable, TheReferenceAndTheSchemaHaveTheSameMethods) {
  const auto document = json::parse(openrpc_document().str());
  std::set<std::string> described;
  for (const auto& method : document["methods"]) described.insert(method["name"]);
  EXPECT_EQ(described, methods_in_reference());
  EXPECT_EQ(described.size(), methods().size());
}

/// Every "$ref" in the document that leads to the document itself.
void collect_references(const json& value, std::set<std::string>& references) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("$ref"))
    references.insert(value["$ref"].get<std::string>().substr(1));
  for (const auto& member : value) collect_references(member, references);
}

TEST(RpcTable, TheSchemaDescribesEveryParameterAndResultAndNothingElse) {
  const auto document = json::parse(openrpc_document().str());
  for (const auto& method : document["methods"]) {
    EXPECT_FALSE(method["summary"].get<std::string>().empty()) << method;
    for (const auto& parameter : method["params"]) {
      EXPECT_FALSE(parameter["description"].get<std::string>().empty()) << method["name"] << parameter;
    }
  }
  std::set<std::string> references;
  collect_references(document, references);
  for (const auto& reference : references) {
    if (!reference.starts_with('/')) continue;  // another document
    EXPECT_TRUE(document.contains(json::json_pointer(reference))) << reference;
  }
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    EXPECT_TRUE(references.contains("/components/schemas/" + name)) << name << " describes nothing";
  }
}

TEST(RpcTable, AnAnswerThatIsNotAsDescribedIsFound) {
  const json removed{{"removed", 1}};
  EXPECT_EQ(test::misfit_of_result("task.cleanupExpired", removed), "");
  EXPECT_NE(test::misfit_of_result("task.cleanupExpired", json::object()), "");
  EXPECT_NE(test::misfit_of_result("task.cleanupExpired", {{"removed", "1"}}), "");
  EXPECT_NE(test::misfit_of_result("task.cleanupExpired", {{"removed", 1}, {"more", 1}}), "");
  EXPECT_NE(test::misfit_of_result("lock.release", removed), "");
}

TEST(RpcTable, TheSchemaNamesEveryErrorCode) {
  std::set<std::string> names;  // a number that is no code has the name of Internal
  for (int code = 0; code < 256; ++code) names.emplace(to_string(static_cast<ErrorCode>(code)));
  const auto document = json::parse(openrpc_document().str());
  EXPECT_EQ(document["components"]["schemas"]["ErrorName"]["enum"].get<std::set<std::string>>(), names);
}

}  // namespace
}  // namespace holdfast::rpc
