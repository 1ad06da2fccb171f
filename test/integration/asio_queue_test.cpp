#include <gtest/gtest.h>

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/this_coro.hpp>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

asio::awaitable<void> work_on_one(Holdfast holdfast, bool& done) {
  const auto executor = co_await asio::this_coro::executor;
  auto queue = co_await async_queue(executor, holdfast, "render");
  const auto parameters = Json::parse(R"({"n":1})").value_or_throw();
  const auto first = co_await queue.add({.method = "m", .variables = parameters, .priority = 2});
  const auto second = co_await queue.add({.method = "m"});
  auto job = co_await queue.claim_next({.lease = 30s, .wait = 10s, .worker = "w"});
  EXPECT_TRUE(job.has_value());
  EXPECT_EQ(job->id(), first.id);
  EXPECT_EQ(job->task().queue->worker, "w");
  const auto written = co_await job->set_variables(parameters);
  EXPECT_EQ(written.version, 2U);
  auto next = co_await job->complete_and_claim(parameters);
  EXPECT_FALSE(*job);
  EXPECT_TRUE(next.has_value());
  EXPECT_EQ(next->id(), second.id);
  const auto retried = co_await next->retry({.delay = 0ms, .message = "again"});
  EXPECT_EQ(retried.status, TaskStatus::working);
  auto again = co_await queue.try_claim(second.id);
  EXPECT_TRUE(again.has_value());
  EXPECT_EQ(again->attempt(), 2U);
  const auto failed = co_await again->fail("for good");
  EXPECT_EQ(failed.status, TaskStatus::failed);
  const auto none = co_await queue.claim_next();
  EXPECT_FALSE(none.has_value());
  const auto counts = co_await queue.counts();
  EXPECT_EQ(counts.records, 2U);
  const auto result = co_await queue.get_result(first.id);
  EXPECT_EQ(result->str(), R"({"n":1})");
  done = true;
}

TEST(AsioQueue, ACoroutineAddsClaimsAndEndsTasks) {
  asio::io_context context;
  bool done = false;
  asio::co_spawn(context, work_on_one(open("memory:"), done), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  context.run();
  EXPECT_TRUE(done);
}

TEST(AsioQueue, AnEmptyOneCompletesWithAnError) {
  asio::io_context context;
  std::optional<ErrorCode> code;
  AsyncQueue().counts(asio::bind_executor(context, [&](const std::exception_ptr& thrown, const QueueCounts&) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      code = error.code();
    }
  }));
  context.run();
  EXPECT_EQ(code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace holdfast::test
