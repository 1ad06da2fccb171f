#include <asio/use_awaitable.hpp>
#include <holdfast/asio.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc::queue_methods {
namespace {

using nlohmann::ordered_json;

/// Runs an operation on the queue that the request names, or on `queue`.
template <class Operation>
asio::awaitable<typename Operation::Answer> run(MethodCall call, std::string queue, Operation operation) {
  using Answer = typename Operation::Answer;
  auto& service = call.session->service();
  const auto on = co_await service.queue(std::move(queue));
  auto begin = [on, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
    on.start(std::move(operation), std::move(stop), std::move(done));
  };
  co_return co_await async_call<Answer>(service.executor(), std::move(begin), asio::use_awaitable);
}
template <class Operation>
asio::awaitable<typename Operation::Answer> run(const MethodCall& call, Operation operation) {
  return run(call, call.params.text("queue"), std::move(operation));
}

/// A whole number of these bounds, or the default.
template <class Number>
Number number_of(const Params& params, std::string_view name, Number lowest, Number highest, Number absent) {
  const auto given = params.integer_if(name);
  if (!given) return absent;
  if (*given < std::int64_t{lowest} || *given > std::int64_t{highest}) {
    throw bad_params(std::string(name) + ": must be " + std::to_string(lowest) + " to " +
                     std::to_string(highest));
  }
  return static_cast<Number>(*given);
}

Json counts_json(const std::string& queue, const QueueCounts& counts) {
  ordered_json object{{"queue", queue}};
  object.update(to_json(counts));
  return dump(object);
}

asio::awaitable<Json> set_up(MethodCall call, operation::SetUpQueue how) {
  const auto counts = co_await run(call, how);
  co_return counts_json(call.params.text("queue"), counts);
}

}  // namespace

asio::awaitable<Json> add(MethodCall call) {
  constexpr std::int32_t highest_priority = 1000;
  constexpr std::uint32_t most_attempts = 1'000'000;
  constexpr std::uint32_t highest_limit = 1'000'000;
  const auto& params = call.params;
  const auto method = params.text_if("requestMethod").value_or("");
  const auto variables = params.json_if("variables").value_or(Json());
  const auto request_key = params.text_if("requestKey").value_or("");
  const auto requester = params.text_if("requester").value_or("");
  const auto limit_key = params.text_if("limitKey").value_or("");
  if (params.has("requestKey") && request_key.empty()) {
    throw bad_params("requestKey: is empty; omit it, or name the request");
  }
  NewQueueTask task{
      .method = method, .variables = variables, .request_key = request_key, .requester = requester};
  task.priority = number_of(params, "priority", -highest_priority, highest_priority, task.priority);
  task.max_attempts = number_of(params, "maxAttempts", 1U, most_attempts, task.max_attempts);
  task.delay = params.milliseconds_if("delayMs").value_or(task.delay);
  task.attempt_limit = params.milliseconds_if("attemptLimitMs").value_or(task.attempt_limit);
  task.max_age = params.milliseconds_if("maxAgeMs").value_or(task.max_age);
  task.retention = params.milliseconds_if("retentionMs").value_or(task.retention);
  task.failed_retention = params.milliseconds_if("failedRetentionMs").value_or(task.failed_retention);
  task.limit_key = limit_key;
  task.limit = number_of(params, "limit", 1U, highest_limit, task.limit);
  operation::AddTask adding{detail::owned(task)};
  const auto added = co_await run(call, std::move(adding));
  co_return to_json(added);
}

/// The jobs become the connection's: renewed, reported when they should stop, ended with it.
asio::awaitable<Json> claim_next(MethodCall call) {
  constexpr std::size_t most_queues = 100;
  call.session->jobs().check_room();
  auto queues = call.params.texts("queues");
  if (queues.empty() || queues.size() > most_queues) {
    throw bad_params("queues: must name 1 to " + std::to_string(most_queues) + " queues");
  }
  const auto worker = worker_of(call);
  auto how = claim_options(call.params, worker);
  how.wait = call.params.milliseconds_if("waitMs").value_or(how.wait);
  const auto limit = number_of<std::uint32_t>(call.params, "limit", 1U, max_claimed_records, 1U);
  auto first = queues.front();
  operation::ClaimNextTasks claiming{detail::owned(how), limit, std::move(queues)};
  auto jobs = co_await run(call, std::move(first), std::move(claiming));
  // No suspension from here on: a cancelled request would lose jobs that it has.
  std::vector<std::string> described;
  described.reserve(jobs.size());
  for (auto& job : jobs) described.push_back(hand_over(call, std::move(job)).str());
  JsonObject result;
  result.add("jobs", array_of(described));
  co_return result.json();
}

asio::awaitable<Json> claim(MethodCall call) {
  call.session->jobs().check_room();
  const auto worker = worker_of(call);
  operation::TryClaimTask claiming{call.params.text("taskId"),
                                   detail::owned(claim_options(call.params, worker))};
  auto job = co_await run(call, std::move(claiming));
  co_return job ? hand_over(call, *std::move(job)) : Json();
}

asio::awaitable<Json> get(MethodCall call) {
  operation::GetTask getting{{}, call.params.text("taskId")};
  const auto task = co_await run(call, std::move(getting));
  co_return to_json(task);
}

asio::awaitable<Json> list_tasks(MethodCall call) {
  const auto cursor = call.params.text_if("cursor").value_or("");
  operation::ListTasksOfOwner listing{{}, detail::owned(list_options(call.params, cursor))};
  const auto page = co_await run(call, std::move(listing));
  co_return to_json(page);
}

asio::awaitable<Json> get_result(MethodCall call) {
  operation::GetTaskResult getting{{}, call.params.text("taskId")};
  const auto result = co_await run(call, std::move(getting));
  co_return result.value_or(Json());
}

asio::awaitable<Json> cancel(MethodCall call) {
  operation::CancelTask cancelling{{}, call.params.text("taskId"), call.params.text_if("statusMessage")};
  const auto task = co_await run(call, std::move(cancelling));
  co_return to_json(task);
}

asio::awaitable<Json> remove(MethodCall call) {
  operation::RemoveTask removing{{}, call.params.text("taskId")};
  const bool removed = co_await run(call, std::move(removing));
  co_return ok(removed);
}

asio::awaitable<Json> wait(MethodCall call) {
  operation::AwaitTask waiting{
      {}, call.params.text("taskId"), call.params.milliseconds_if("timeoutMs").value_or(no_time_limit)};
  const auto task = co_await run(call, std::move(waiting));
  co_return task ? to_json(*task) : Json();
}

asio::awaitable<Json> retry(MethodCall call) {
  operation::RetryTask retrying{call.params.text("taskId")};
  const auto task = co_await run(call, std::move(retrying));
  co_return to_json(task);
}

asio::awaitable<Json> counts(MethodCall call) {
  const auto counted = co_await run(call, operation::CountTasks{});
  co_return counts_json(call.params.text("queue"), counted);
}

asio::awaitable<Json> pause(MethodCall call) {
  return set_up(std::move(call), {.paused = true});
}

asio::awaitable<Json> resume(MethodCall call) {
  return set_up(std::move(call), {.paused = false});
}

asio::awaitable<Json> limit(MethodCall call) {
  const auto max_leased = call.params.count("limit");
  return set_up(std::move(call), {.max_leased = max_leased});
}

asio::awaitable<Json> list(MethodCall call) {
  operation::ListQueues listing{.cursor = call.params.text_if("cursor").value_or("")};
  constexpr std::uint32_t most = 1000;
  listing.limit = number_of<std::uint32_t>(call.params, "limit", 1U, most, 100U);
  const auto page = co_await run(call, "any", std::move(listing));  // the operation concerns all
  ordered_json result{{"queues", page.queues}};
  if (!page.cursor.empty()) result["nextCursor"] = page.cursor;
  co_return dump(result);
}

}  // namespace holdfast::rpc::queue_methods
