#include "rpc/session/session.hpp"

#include <algorithm>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>

#include "rpc/json/text.hpp"
#include "rpc/session/limits.hpp"

namespace holdfast::rpc {

void Grants::append(const Grants& other) {
  locks.insert(locks.end(), other.locks.begin(), other.locks.end());
  jobs.insert(jobs.end(), other.jobs.begin(), other.jobs.end());
}

std::shared_ptr<RunningRequest> InFlight::add(std::string id, bool waits) {
  auto request = std::make_shared<RunningRequest>();
  request->id = std::move(id);
  request->waits = waits;
  all_.push_back(request);
  if (waits) ++waiting_;
  return request;
}

void InFlight::remove(const std::shared_ptr<RunningRequest>& request) {
  const auto found = std::ranges::find(all_, request);
  if (found == all_.end()) return;
  if (request->waits) --waiting_;
  *found = std::move(all_.back());
  all_.pop_back();
}

bool InFlight::cancel(std::string_view id) {
  bool found = false;
  // A copy: a cancelled request may end at once, and is removed then.
  for (const auto& request : std::vector(all_)) {
    if (request->id != id) continue;
    found = true;
    request->cancellation.emit(asio::cancellation_type::terminal);
  }
  return found;
}

void InFlight::cancel_waiting() {
  for (const auto& request : std::vector(all_)) {
    if (request->waits) request->cancellation.emit(asio::cancellation_type::terminal);
  }
}

Session::Session(Service& service, Send send, std::string holder)
    : service_(service),
      send_(std::move(send)),
      holder_(std::move(holder)),
      changed_(service.executor()),
      held_([this](std::string_view method, const Json& params) { notify(method, params); }),
      jobs_(service.executor(),
            [this](std::string_view method, const Json& params) { notify(method, params); }) {}

void Session::notify(std::string_view method, const Json& params) {
  send_(notification(method, params), {});
}

bool Session::busy() const noexcept {
  return in_flight_.running() >= max_running;
}

void Session::stop() {
  stopping_ = true;
  in_flight_.cancel_waiting();
  changed_.notify();
}

void Session::lose_client() {
  gone_ = true;
  in_flight_.cancel_waiting();
  changed_.notify();
}

void Session::check_may_begin(const Method& method, const BatchPtr& batch) const {
  if (stopping_) throw Error(ErrorCode::Aborted, "the sidecar is stopping; this request was not started");
  if (batch && batched_bytes_ > max_batched_bytes) {
    throw Error(ErrorCode::RateLimited, "the responses to this connection's batches exceed " +
                                            std::to_string(max_batched_bytes) +
                                            " bytes; resend this request on its own");
  }
  if (method.pace != Pace::waits) return;
  if (gone_) throw Error(ErrorCode::Aborted, "the client has closed the connection");
  if (in_flight_.waiting() >= max_waiting) {
    throw Error(ErrorCode::RateLimited,
                std::to_string(in_flight_.waiting()) +
                    " requests of this connection are already waiting; wait until some end, or cancel some");
  }
}

void Session::begin(const Parsed& message, const BatchPtr& batch) {
  if (const auto* refusal = std::get_if<Refusal>(&message)) {
    return deliver(answer(refusal->id, refusal->failure), batch);
  }
  const auto& request = std::get<Request>(message);
  const auto refuse = [&](const Failure& failure) {
    deliver(request.id ? std::optional(answer(*request.id, failure)) : std::nullopt, batch);
  };
  const auto* method = service_.find_method(request.method);
  if (method == nullptr) {
    constexpr std::size_t enough = 100;
    return refuse({.code = method_not_found,
                   .message = "unknown method " + request.method.substr(0, enough) +
                              "; holdfast.version lists the methods"});
  }
  if (!request.id && method->answer == Answer::needed) return deliver(std::nullopt, batch);
  try {
    check_may_begin(*method, batch);
    start(*method, request, batch);
  } catch (const Error&) {
    refuse(failure_of(std::current_exception()));
  } catch (const FailedRequest& error) {
    refuse(error.failure());
  }
}

void Session::start(const Method& method, const Request& request, const BatchPtr& batch) {
  Params params(request.params, method.parameters.span());
  const auto running =
      in_flight_.add(request.id ? comparable_id(*request.id) : std::string(), method.pace == Pace::waits);
  MethodCall call{.session = shared_from_this(), .params = std::move(params), .request = running};
  auto finish = [self = shared_from_this(), running, id = request.id, batch](
                    const std::exception_ptr& exception, const Json& result) {
    self->in_flight_.remove(running);
    self->changed_.notify();
    if (!id) return self->deliver(std::nullopt, batch);
    self->deliver(exception ? answer(*id, failure_of(exception)) : answer(*id, result), batch,
                  running->grants);
  };
  asio::co_spawn(service_.executor(), method.run(std::move(call)),
                 asio::bind_cancellation_slot(running->cancellation.slot(), std::move(finish)));
}

void Session::deliver(const std::optional<std::string>& answer, const BatchPtr& batch, const Grants& grants) {
  if (!batch) {
    if (answer) send_(*answer, grants);
    return;
  }
  batch->grants.append(grants);
  if (answer) {
    batch->answers.push_back(*answer);
    batch->bytes += answer->size();
    batched_bytes_ += answer->size();
  }
  if (--batch->missing > 0) return;
  batched_bytes_ -= batch->bytes;
  if (!batch->answers.empty()) send_(array_of(batch->answers), batch->grants);
}

}  // namespace holdfast::rpc
