#include <gtest/gtest.h>

#include <asio/error.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"
#include "rpc/protocol/message.hpp"
#include "support/seeded.hpp"

namespace holdfast::rpc {
namespace {

Request request_in(std::string_view line) {
  const auto incoming = parse_line(line);
  EXPECT_FALSE(incoming.batch) << line;
  EXPECT_EQ(incoming.messages.size(), 1U) << line;
  const auto* request = std::get_if<Request>(&incoming.messages.at(0));
  if (request == nullptr) {
    ADD_FAILURE() << line << ": " << std::get<Refusal>(incoming.messages.at(0)).failure.message;
    return {};
  }
  return *request;
}

Refusal refusal_of(std::string_view line) {
  const auto incoming = parse_line(line);
  EXPECT_FALSE(incoming.batch) << line;
  EXPECT_EQ(incoming.messages.size(), 1U) << line;
  const auto* refusal = std::get_if<Refusal>(&incoming.messages.at(0));
  if (refusal == nullptr) {
    ADD_FAILURE() << line << " is taken for a request";
    return {};
  }
  return *refusal;
}

TEST(RpcMessages, ARequestHasAMethodParamsAndAnId) {
  const auto request = request_in(R"({"jsonrpc":"2.0","id":7,"method":"lock.acquire","params":{"key":"k"}})");
  EXPECT_EQ(request.id, "7");
  EXPECT_EQ(request.method, "lock.acquire");
  EXPECT_EQ(request.params.str(), R"({"key":"k"})");
}

TEST(RpcMessages, ParamsMayBeLeftOut) {
  EXPECT_EQ(request_in(R"({"jsonrpc":"2.0","id":7,"method":"m"})").params.str(), "{}");
}

TEST(RpcMessages, WithoutAnIdItIsANotification) {
  EXPECT_FALSE(request_in(R"({"jsonrpc":"2.0","method":"m"})").id);
  EXPECT_EQ(request_in(R"({"jsonrpc":"2.0","method":"m","id":null})").id, "null");
}

TEST(RpcMessages, AnIdGoesBackAsItWasWritten) {
  for (const std::string id : {"0", "-1", "1.50", "1e3", "123456789012345678901234567890", R"("text")",
                               R"("\u0061\"")", "\"\u00e9\"", "null"}) {
    const auto request = request_in(R"({"jsonrpc":"2.0","method":"m","id": )" + id + " }");
    ASSERT_EQ(request.id, id);
    EXPECT_EQ(answer(*request.id, Json()), R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":null})");
  }
}

TEST(RpcMessages, IdsAreComparedByValue) {
  EXPECT_EQ(comparable_id(R"("\u0061")"), comparable_id(R"("a")"));
  EXPECT_NE(comparable_id(R"("1")"), comparable_id("1"));
  EXPECT_NE(comparable_id("18446744073709551617"), comparable_id("18446744073709551618"));
  EXPECT_EQ(comparable_id("18446744073709551617"), comparable_id("18446744073709551617"));
}

TEST(RpcMessages, WhatIsNotJsonIsAParseError) {
  for (const std::string line :
       {"", "   ", "hello", "{", R"({"jsonrpc":"2.0")", "{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}",
        R"({"a":"\ud800"})", "[1,]", "{}{}", R"({"a":1e999})", "\xEF\xBB\xBF{}", "'x'"}) {
    const auto refusal = refusal_of(line);
    EXPECT_EQ(refusal.failure.code, -32700) << line;
    EXPECT_EQ(refusal.id, "null") << line;
  }
  EXPECT_EQ(refusal_of(std::string("{\0}", 3)).failure.code, -32700);
}

TEST(RpcMessages, HalfASurrogatePairIsAnsweredByItsRequestsId) {
  for (const std::string text :
       {R"(\ud800)", R"(x\udc00)", R"(\udc00\ud800)", R"(\\\ud83dx)", R"(\uD83D\u0041)"}) {
    const auto refusal =
        refusal_of(R"(  {"jsonrpc":"2.0","id":"a\u0041","method":"m","params":{"key":")" + text + R"("}} )");
    EXPECT_EQ(refusal.id, R"("a\u0041")") << text;
    EXPECT_EQ(refusal.failure.code, -32602) << text;
    EXPECT_EQ(refusal.failure.name, "InvalidArgument") << text;
  }
  // A whole pair, and one that is no escape.
  EXPECT_EQ(request_in(R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"key":"\ud83d\ude00\\ud800"}})").id,
            "1");
  // An id that cannot be repeated, and none at all.
  for (const std::string line : {R"({"jsonrpc":"2.0","id":"\ud800","method":"m"})",
                                 R"({"jsonrpc":"2.0","method":"\ud800"})", R"({"id":1,"a":"\ud800"})"}) {
    EXPECT_EQ(refusal_of(line).id, "null") << line;
    EXPECT_EQ(refusal_of(line).failure.code, -32700) << line;
  }
}

TEST(RpcMessages, HalfASurrogatePairConcernsItsOwnRequestInABatch) {
  const auto incoming = parse_line(R"( [{"jsonrpc":"2.0","id":1,"method":"m"},)"
                                   R"({"jsonrpc":"2.0","id":2,"method":"m","params":{"k":"\ud800"}} ,)"
                                   R"({"jsonrpc":"2.0","id":3,"method":"m"}])");
  ASSERT_EQ(incoming.messages.size(), 3U);
  EXPECT_EQ(std::get<Request>(incoming.messages[0]).id, "1");
  EXPECT_EQ(std::get<Refusal>(incoming.messages[1]).id, "2");
  EXPECT_EQ(std::get<Refusal>(incoming.messages[1]).failure.code, -32602);
  EXPECT_EQ(std::get<Request>(incoming.messages[2]).id, "3");
}

TEST(RpcMessages, ANumberThatNoDoubleHoldsIsAnsweredByItsRequestsId) {
  for (const auto& number : {std::string("1E400"), std::string("-1e999"), std::string(400, '9')}) {
    const auto refusal =
        refusal_of(R"({"jsonrpc":"2.0","id":7,"method":"x","params":{"t":"1e999 \"","v":)" + number + "}}");
    EXPECT_EQ(refusal.id, "7") << number;
    EXPECT_EQ(refusal.failure.code, -32602) << number;
    EXPECT_NE(refusal.failure.message.find("double"), std::string::npos) << refusal.failure.message;
  }
  EXPECT_EQ(refusal_of(R"({"jsonrpc":"2.0","id":1e999,"method":"x"})").id, "null");
}

TEST(RpcMessages, AParseErrorDoesNotRepeatALongLine) {
  const auto refusal = refusal_of("[\"" + std::string(1'000'000, 'x') + "\x01\"]");
  EXPECT_EQ(refusal.failure.code, -32700);
  EXPECT_LT(refusal.failure.message.size(), 300U);
}

TEST(RpcMessages, JsonThatIsNoRequestIsAnInvalidRequest) {
  for (const auto* line :
       {"1", "null", "\"x\"", "{}", R"({"jsonrpc":"2.0"})", R"({"jsonrpc":"2.0","method":1})",
        R"({"jsonrpc":"1.0","method":"m"})", R"({"method":"m"})", R"({"jsonrpc":2.0,"method":"m"})",
        R"({"jsonrpc":"2.0","method":"m","params":1})", R"({"jsonrpc":"2.0","method":"m","params":null})",
        R"({"jsonrpc":"2.0","method":"m","method":"n"})", R"({"jsonrpc":"2.0","result":1})", "[]"}) {
    const auto refusal = refusal_of(line);
    EXPECT_EQ(refusal.failure.code, -32600) << line;
    EXPECT_EQ(refusal.id, "null") << line;
    EXPECT_FALSE(refusal.failure.message.empty());
  }
}

TEST(RpcMessages, AnInvalidRequestIsAnsweredUnderItsIdIfItHasOne) {
  EXPECT_EQ(refusal_of(R"({"id":"x","method":"m"})").id, "\"x\"");
  for (const auto* line :
       {R"({"jsonrpc":"2.0","method":"m","id":{}})", R"({"jsonrpc":"2.0","method":"m","id":[1]})",
        R"({"jsonrpc":"2.0","method":"m","id":true})"}) {
    EXPECT_EQ(refusal_of(line).failure.code, -32600) << line;
    EXPECT_EQ(refusal_of(line).id, "null") << line;
  }
}

TEST(RpcMessages, PositionalParametersAreTheMethodsToRefuse) {
  const auto request = request_in(R"({"jsonrpc":"2.0","id":1,"method":"lock.acquire","params":["k",1000]})");
  EXPECT_EQ(request.id, "1");
  EXPECT_EQ(request.params.str(), R"(["k",1000])");
}

TEST(RpcMessages, NoPositionalParametersAreNoParameters) {
  for (const std::string none : {"[]", "[ \t]"}) {
    EXPECT_EQ(request_in(R"({"jsonrpc":"2.0","method":"m","params":)" + none + "}").params.str(), "{}");
  }
}

TEST(RpcMessages, AnIdHasALimit) {
  const auto with_id = [](std::size_t letters) {
    return R"({"jsonrpc":"2.0","method":"m","id":")" + std::string(letters, 'x') + "\"}";
  };
  EXPECT_EQ(request_in(with_id(max_id_bytes - 2)).id.value_or("").size(), max_id_bytes);
  const auto refusal = refusal_of(with_id(max_id_bytes - 1));
  EXPECT_EQ(refusal.failure.code, -32600);
  EXPECT_EQ(refusal.id, "null");
}

TEST(RpcMessages, ABatchIsTakenApart) {
  const auto incoming = parse_line(
      R"( [ {"jsonrpc":"2.0","id":1,"method":"a"} , 5,{"jsonrpc":"2.0","method":"b","params":{"x":[1,{"y":"],["}]}}] )");
  EXPECT_TRUE(incoming.batch);
  ASSERT_EQ(incoming.messages.size(), 3U);
  EXPECT_EQ(std::get<Request>(incoming.messages[0]).method, "a");
  EXPECT_EQ(std::get<Refusal>(incoming.messages[1]).failure.code, -32600);
  EXPECT_EQ(std::get<Request>(incoming.messages[2]).params.str(), R"({"x":[1,{"y":"],["}]})");
}

TEST(RpcMessages, ABatchThatIsTooLargeIsRefusedAsAWhole) {
  std::string line = "[";
  for (std::size_t i = 0; i <= max_batch; ++i) line += i == 0 ? "1" : ",1";
  EXPECT_EQ(refusal_of(line + "]").failure.code, -32600);
}

TEST(RpcMessages, DeepNestingIsNobodysStack) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const auto request =
      request_in(R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"result":)" + deep + "}}");
  EXPECT_EQ(request.params.str().size(), deep.size() + 11);
  EXPECT_EQ(parse_line(deep).messages.size(), 1U);
}

TEST(RpcMessages, WhateverIsSentIsARequestOrRefused) {
  test::Seeded random;
  const std::vector<std::string> good{
      R"({"jsonrpc":"2.0","id":7,"method":"lock.acquire","params":{"key":"k\u00e9","ttlMs":30000}})",
      R"([{"jsonrpc":"2.0","id":"a","method":"m"},{"jsonrpc":"2.0","method":"n","params":{"x":[1,{"y":null}]}}])"};
  const std::string alphabet = "{}[]\",:\\0u1e-. \tx\x80\xff";
  for (int round = 0; round < 3000; ++round) {
    auto line = random.pick(good);
    for (auto changes = random.below(4) + 1; changes > 0; --changes) {
      const auto at = random.below(line.size());
      if (random.below(2) == 0) {
        line[at] = alphabet[random.below(alphabet.size())];
      } else {
        line.erase(at, random.below(5));
      }
      if (line.empty()) line = " ";
    }
    const auto incoming = parse_line(line);
    ASSERT_FALSE(incoming.messages.empty()) << random.seed() << line;
    for (const auto& message : incoming.messages) {
      if (const auto* refusal = std::get_if<Refusal>(&message)) {
        ASSERT_TRUE(nlohmann::json::accept(answer(refusal->id, refusal->failure))) << random.seed() << line;
      } else {
        const auto& request = std::get<Request>(message);
        ASSERT_TRUE(request.params.is_object() || request.params.str().starts_with('['))
            << random.seed() << line;
        ASSERT_TRUE(!request.id || !comparable_id(*request.id).empty()) << random.seed() << line;
      }
    }
  }
}

TEST(RpcMessages, AnAnswerIsOneLineWhateverTheResultIs) {
  const auto line = answer("1", Json::parse("{\n  \"a\": [1,\n2]\n}").value_or_throw());
  EXPECT_EQ(line, R"({"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}})");
}

TEST(RpcMessages, AFailureHasACodeAMessageAndTheNameOfItsError) {
  const auto line =
      answer("1", Failure{.code = -32602, .message = "no \"good\"\n", .name = "InvalidArgument"});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(line)["error"],
            (nlohmann::json{
                {"code", -32602}, {"message", "no \"good\"\n"}, {"data", {{"code", "InvalidArgument"}}}}));
  EXPECT_FALSE(
      nlohmann::json::parse(answer("1", Failure{.code = -32601, .message = "x"}))["error"].contains("data"));
}

TEST(RpcMessages, ExceptionsBecomeFailures) {
  const auto of = [](auto error) { return failure_of(std::make_exception_ptr(std::move(error))); };
  EXPECT_EQ(of(Error(ErrorCode::NotFound, "no")).code, -32602);
  EXPECT_EQ(of(Error(ErrorCode::NotFound, "no")).name, "NotFound");
  EXPECT_EQ(of(Error(ErrorCode::StaleFence, "no", "why")).code, -32603);
  EXPECT_EQ(of(Error(ErrorCode::StaleFence, "no", "why")).message, "no (why)");
  EXPECT_EQ(of(Error(ErrorCode::TtlTooLong, "raise the limit", "why")).message,
            "raise the limit (--max-ttl) (why)")
      << "the library names no option of the command line";
  EXPECT_EQ(of(std::system_error(std::make_error_code(std::errc::operation_canceled))).name, "Aborted");
  EXPECT_EQ(of(std::system_error(asio::error::operation_aborted, "co_await")).name, "Aborted");
  EXPECT_EQ(of(std::runtime_error("boom")).name, "Internal");
  EXPECT_EQ(of(bad_params("ttlMs: is missing")).code, -32602);
}

TEST(RpcMessages, AnswersOfABatchComeAsAnArray) {
  EXPECT_EQ(array_of({"{}", "{}"}), "[{},{}]");
  EXPECT_EQ(notification("lock.lost", Json::unchecked("{}")),
            R"({"jsonrpc":"2.0","method":"lock.lost","params":{}})");
}

}  // namespace
}  // namespace holdfast::rpc
