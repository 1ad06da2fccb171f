#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <holdfast/asio.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc {

std::string worker_of(const MethodCall& call) {
  return call.params.text_if("worker").value_or(call.session->holder());
}

ClaimOptions claim_options(const Params& params, const std::string& worker) {
  // The client does the work, and outlives a sidecar that was killed.
  ClaimOptions how{.worker = worker, .ends_with_process = false};
  how.lease = params.milliseconds_if("leaseMs").value_or(how.lease);
  how.notice = params.milliseconds_if("noticeMs");
  return how;
}

Json hand_over(const MethodCall& call, Job job) {
  const auto task = job.task();
  const nlohmann::ordered_json described{{"queue", job.queue()},
                                         {"taskId", job.id()},
                                         {"attempt", job.attempt()},
                                         {"fence", job.fence().to_string()}};
  const auto members = dump(described);
  auto job_id = call.session->jobs().add(std::move(job));
  JsonObject result;
  result.add("jobId", Json::string(job_id).value_or_throw().str());
  for (const auto& [name, value] : members_of(members)) result.add(name, value);
  result.add("task", to_json(task).str());
  // If this answer does not reach the client, it never knew of the job.
  call.request->grants.jobs.push_back(std::move(job_id));
  return result.json();
}

namespace job_methods {
namespace {

using How = operation::EndJob::How;

/// Whether the store has decided about the job for good. Other errors leave it as it is: the same request can
/// be repeated.
bool is_decided(const Error& error) {
  switch (error.code()) {
    case ErrorCode::NotFound:
    case ErrorCode::InvalidTransition:
    case ErrorCode::StaleFence:
    case ErrorCode::WrongLock:
      return true;
    default:
      return false;
  }
}

template <class Operation>
asio::awaitable<typename Operation::Answer> run(asio::any_io_executor executor, std::shared_ptr<Job> job,
                                                Operation operation) {
  using Answer = typename Operation::Answer;
  auto begin = [job, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
    job->start(std::move(operation), std::move(stop), std::move(done));
  };
  co_return co_await async_call<Answer>(executor, std::move(begin), asio::use_awaitable);
}

/// Runs an operation that ends the job, and forgets the job when that is decided.
template <class Operation>
asio::awaitable<typename Operation::Answer> end(MethodCall call, Operation operation) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto& session = *call.session;
  const auto job_id = call.params.text("jobId");
  const auto job = session.jobs().find(job_id);
  try {
    auto answer = co_await run(session.service().executor(), job, std::move(operation));
    session.jobs().remove(job_id);
    co_return std::move(answer);
  } catch (const Error& error) {
    if (is_decided(error) || !*job) session.jobs().remove(job_id);
    throw;
  }
}

asio::awaitable<Json> end_with(MethodCall call, operation::EndJob how) {
  const auto task = co_await end(std::move(call), std::move(how));
  co_return to_json(task);
}

operation::EndJob outcome(const Params& params, How how) {
  return {.how = how, .result = params.json_if("result"), .message = params.text_if("statusMessage")};
}

}  // namespace

asio::awaitable<Json> set_variables(MethodCall call) {
  auto& session = *call.session;
  const auto job = session.jobs().find(call.params.text("jobId"));
  operation::SetJobVariables change{call.params.json("variables")};
  const auto task = co_await run(session.service().executor(), job, std::move(change));
  co_return to_json(task);
}

asio::awaitable<Json> complete(MethodCall call) {
  auto how = outcome(call.params, How::completed);
  return end_with(std::move(call), std::move(how));
}

/// The next claim does not wait: an outcome must not depend on whether its client stays until there is
/// another task. If the outcome was accepted, that is the answer, whatever became of the claim.
asio::awaitable<Json> complete_and_claim(MethodCall call) {
  call.session->jobs().check_room();
  const auto worker = worker_of(call);
  const auto ended = call.session->jobs().find(call.params.text("jobId"));
  operation::EndJobAndClaim ending{outcome(call.params, How::completed),
                                   detail::owned(claim_options(call.params, worker))};
  std::optional<Job> next;
  try {
    next = co_await end(call, std::move(ending));
  } catch (const Error& error) {
    const bool was_ended_before = error.code() == ErrorCode::InvalidArgument;
    if (*ended || was_ended_before) throw;
  }
  JsonObject result;
  result.add("task", to_json(ended->task()).str());
  result.add("job", next ? hand_over(call, *std::move(next)).str() : "null");
  co_return result.json();
}

asio::awaitable<Json> fail(MethodCall call) {
  auto how = outcome(call.params, How::failed);
  return end_with(std::move(call), std::move(how));
}

asio::awaitable<Json> retry(MethodCall call) {
  operation::EndJob how{.how = How::retry,
                        .message = call.params.text_if("statusMessage"),
                        .delay = call.params.milliseconds_if("delayMs")};
  return end_with(std::move(call), std::move(how));
}

/// Ends the job in any case, so that no job lingers that its client has given up. If the store does not
/// answer, the job is given back in the background, or its lease expires.
asio::awaitable<Json> give_back(MethodCall call) {
  auto session = call.session;
  const auto job_id = call.params.text("jobId");
  try {
    const auto task = co_await end(std::move(call), operation::EndJob{.how = How::give_back});
    co_return to_json(task);
  } catch (const Error&) {
    session->jobs().remove(job_id);
    throw;
  }
}

asio::awaitable<Json> subscribe(MethodCall call) {
  auto& jobs = call.session->jobs();
  bool known = true;
  if (call.params.has("jobId")) {
    known = jobs.subscribe(call.params.text("jobId"));
  } else {
    jobs.subscribe_to_all();
  }
  co_return ok(known);
}

asio::awaitable<Json> remaining(MethodCall call) {
  const auto left = call.session->jobs().remaining(call.params.text("jobId"));
  co_return left ? proven(*left) : ok(false);
}

}  // namespace job_methods
}  // namespace holdfast::rpc
