#include <gtest/gtest.h>

#include <array>

#include "rpc/protocol/message.hpp"
#include "rpc/protocol/params.hpp"

namespace holdfast::rpc {
namespace {

constexpr std::array<Parameter, 10> all_kinds{{{"key", Kind::text},
                                               {"ttlMs", Kind::milliseconds, Need::optional},
                                               {"limit", Kind::count, Need::optional},
                                               {"fence", Kind::fence, Need::optional},
                                               {"id", Kind::id, Need::optional},
                                               {"variables", Kind::object, Need::optional},
                                               {"result", Kind::any, Need::optional},
                                               {"other", Kind::text, Need::optional},
                                               {"priority", Kind::integer, Need::optional},
                                               {"queues", Kind::texts, Need::optional}}};

Params params_of(const std::string& json) {
  return {Json::parse(json).value_or_throw(), all_kinds};
}

std::string complaint_about(const std::string& json) {
  try {
    (void)params_of(json);
  } catch (const FailedRequest& error) {
    EXPECT_EQ(error.failure().code, -32602);
    EXPECT_EQ(error.failure().name, "InvalidArgument");
    return error.failure().message;
  }
  ADD_FAILURE() << json << " is accepted";
  return {};
}

TEST(RpcParams, AreTakenByNameAndType) {
  const auto params = params_of(
      R"({"result":[null],"key":"k\u00e9","ttlMs":30000,"limit":7,"fence":"000000000000042","variables":{"a":1},"id":"x"})");
  EXPECT_EQ(params.text("key"), "k\u00e9");
  EXPECT_EQ(params.milliseconds("ttlMs").count(), 30000);
  EXPECT_EQ(params.count("limit"), 7U);
  EXPECT_EQ(params.fence("fence").value(), 42U);
  EXPECT_EQ(params.json("variables").str(), R"({"a":1})");
  EXPECT_EQ(params.json("result").str(), "[null]");
  EXPECT_EQ(params.json("id").str(), "\"x\"");
  EXPECT_FALSE(params.text_if("other"));
}

TEST(RpcParams, WholeNumbersMayBeNegativeWhereThatMeansSomething) {
  EXPECT_EQ(params_of(R"({"key":"k","priority":-7})").integer("priority"), -7);
  EXPECT_EQ(params_of(R"({"key":"k","priority":-0})").integer("priority"), 0);
  EXPECT_EQ(params_of(R"({"key":"k","priority":1e3})").integer("priority"), 1000);
  EXPECT_EQ(complaint_about(R"({"key":"k","priority":0.5})"), "priority: must be a whole number");
  EXPECT_EQ(complaint_about(R"({"key":"k","priority":-1e17})"), "priority: must be a whole number");
}

TEST(RpcParams, AListOfTextsHasNothingElse) {
  EXPECT_EQ(params_of(R"({"key":"k","queues":["a", "\u00e9", ""]})").texts("queues"),
            (std::vector<std::string>{"a", "\u00e9", ""}));
  EXPECT_TRUE(params_of(R"({"key":"k","queues":[]})").texts("queues").empty());
  EXPECT_EQ(complaint_about(R"({"key":"k","queues":["a",1]})"), "queues: must be an array of strings");
  EXPECT_EQ(complaint_about(R"({"key":"k","queues":"a"})"), "queues: must be an array of strings");
}

TEST(RpcParams, NullIsTheSameAsLeavingItOut) {
  const auto params = params_of(R"({"key":"k","ttlMs":null,"result":null})");
  EXPECT_FALSE(params.milliseconds_if("ttlMs"));
  EXPECT_FALSE(params.json_if("result"));  // though it may be any other value
  EXPECT_EQ(complaint_about(R"({"key":null})"), "key: is missing; it must be a string");
}

TEST(RpcParams, NullIsAValueWhereAnyIsRequired) {
  constexpr std::array<Parameter, 1> some_result{{{"result", Kind::any}}};
  const Params params(Json::unchecked(R"({"result":null})"), some_result);
  EXPECT_TRUE(params.json("result").is_null());
  EXPECT_THROW(Params(Json::unchecked("{}"), some_result), FailedRequest);
}

TEST(RpcParams, AMissingOneIsNamedWithWhatItMustBe) {
  EXPECT_EQ(complaint_about("{}"), "key: is missing; it must be a string");
}

TEST(RpcParams, AnUnknownOneIsNamedWithThoseThereAre) {
  EXPECT_EQ(complaint_about(R"({"key":"k","ttl":1})"),
            "unknown parameter ttl; this method has: key, ttlMs, limit, fence, id, variables, result, other, "
            "priority, queues");
}

TEST(RpcParams, OneThatIsGivenTwiceIsRefused) {
  for (const auto* twice : {R"({"key":"k","key":"l"})", R"({"key":"k","key":null})",
                            R"({"key":null,"key":"k"})", R"({"key":"k","ttlMs":null,"ttlMs":null})"}) {
    EXPECT_TRUE(complaint_about(twice).ends_with(": is given twice")) << twice;
  }
}

TEST(RpcParams, GoByName) {
  EXPECT_EQ(complaint_about(R"(["k",30000])"), "params: must be an object; parameters are passed by name");
}

TEST(RpcParams, AWrongTypeIsToldWithTheRightOne) {
  for (const auto* wrong : {"1", "true", "{}", "[]"}) {
    EXPECT_EQ(complaint_about(std::string(R"({"key":)") + wrong + "}"), "key: must be a string");
  }
  for (const auto* wrong : {"\"1000\"", "-1", "1.5", "true", "{}", "[1]", "1e300", "9007199254740993"}) {
    EXPECT_EQ(complaint_about(std::string(R"({"key":"k","ttlMs":)") + wrong + "}"),
              "ttlMs: must be a whole number of milliseconds, not negative");
  }
  for (const auto* wrong :
       {"\"\"", "\"-1\"", "\"1\"", "\" 00000000000001\"", "\"0000000000000001\"", "\"00000000000000a\"",
        "\"000000000000000\"", "0", "1", "42", "1e3", "1.5", "999999999999999", "true"}) {
    EXPECT_EQ(complaint_about(std::string(R"({"key":"k","fence":)") + wrong + "}"),
              "fence: must be a fence: a string of 15 digits, not all zero");
  }
  EXPECT_EQ(complaint_about(R"({"key":"k","variables":[]})"), "variables: must be an object");
  EXPECT_EQ(complaint_about(R"({"key":"k","id":{}})"),
            "id: must be the id of a request: a string or a number");
}

TEST(RpcParams, AWaitMayBeHoweverLarge) {
  constexpr std::array<Parameter, 1> waiting{{{"waitMs", Kind::wait}}};
  for (const auto* large : {"9007199254740991", "9007199254740993", "4611686018427387904", "1e300"}) {
    const Params params(Json::parse(std::string(R"({"waitMs":)") + large + "}").value_or_throw(), waiting);
    EXPECT_EQ(params.milliseconds("waitMs").count(), 9007199254740991) << large;
  }
  for (const auto* wrong : {"-1", "1.5", "-1e300", "\"1\""}) {
    EXPECT_THROW(Params(Json::parse(std::string(R"({"waitMs":)") + wrong + "}").value_or_throw(), waiting),
                 FailedRequest)
        << wrong;
  }
}

TEST(RpcParams, AWholeNumberMayBeWrittenAsOtherLanguagesDo) {
  for (const auto* thousand : {"1000", "1000.0", "1e3", "1E+3"}) {
    const auto params = params_of(std::string(R"({"key":"k","ttlMs":)") + thousand + "}");
    EXPECT_EQ(params.milliseconds("ttlMs").count(), 1000) << thousand;
  }
}

}  // namespace
}  // namespace holdfast::rpc
