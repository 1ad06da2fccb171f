#include "rpc/session.hpp"

#include <array>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>

#include "rpc/limits.hpp"

namespace holdfast::cli::rpc {
namespace {

/// A part of a session that goes on beside the others, and keeps it alive meanwhile.
asio::awaitable<void> keeping(std::shared_ptr<Session> session, asio::awaitable<void> part) {
  co_await std::move(part);
  (void)session;
}

void rethrow(const std::exception_ptr& exception) {
  if (exception) std::rethrow_exception(exception);
}

Failure failure_of_waiting(const Session& session, const InFlight& in_flight) {
  if (session.gone()) {
    return failure_of(std::make_exception_ptr(Error(ErrorCode::Aborted, "the sidecar is about to end")));
  }
  return failure_of(std::make_exception_ptr(
      Error(ErrorCode::RateLimited, std::to_string(in_flight.waiting()) +
                                        " requests of this connection wait already; let some end, or cancel "
                                        "some")));
}

bool is_blank(std::string_view line) noexcept {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace

Session::Session(Service& service, Channel channel)
    : service_(service),
      channel_(std::move(channel)),
      changed_(service.executor()),
      outbox_(channel_, changed_),
      held_([this](const Json& params) { outbox_.push(notification("lock.lost", params)); }) {}

asio::awaitable<void> Session::run() {
  const auto self = shared_from_this();
  asio::co_spawn(service_.executor(), keeping(self, write_all()), rethrow);
  asio::co_spawn(service_.executor(), keeping(self, watch()), rethrow);
  co_await read_all();
  while (!in_flight_.empty()) co_await changed_.wait();
  co_await held_.release_all();
  outbox_.finish();
  while (!written_) co_await changed_.wait();
  channel_.close();
}

void Session::stop() {
  stopping_ = true;
  in_flight_.cancel_waiting();
  channel_.stop_reading();
  changed_.notify();
}

void Session::lose_client() {
  gone_ = true;
  outbox_.drop();
  in_flight_.cancel_waiting();
  channel_.stop_reading();
  changed_.notify();
}

asio::awaitable<void> Session::watch() {
  const bool client_is_gone = co_await channel_.gone();
  if (client_is_gone) lose_client();
}

asio::awaitable<void> Session::write_all() {
  const bool all_written = co_await outbox_.write_all();  // g++ 12 loses its way in `!co_await ... && ...`
  if (!all_written && !gone_) lose_client();
  written_ = true;
  changed_.notify();
}

bool Session::overloaded() const noexcept {
  return in_flight_.running() >= max_running || outbox_.unwritten_bytes() > max_unwritten_bytes;
}

asio::awaitable<void> Session::read_all() {
  LineBuffer lines(max_line_bytes);
  constexpr std::size_t at_once = std::size_t{64} * 1024;
  const auto buffer = std::make_unique<std::array<char, at_once>>();
  bool ended = false;
  while (true) {
    while (!stopping_ && overloaded()) co_await changed_.wait();
    if (stopping_) co_return;
    if (const auto line = lines.next()) {
      take(*line);
    } else if (ended) {
      if (const auto rest = lines.rest()) take(*rest);
      co_return;
    } else if (gone_ && !channel_.readable()) {
      ended = true;  // somebody else holds the other end of a pipe open; our client does not
    } else {
      const auto read = co_await channel_.read(*buffer);
      ended = read.ended;
      lines.append({buffer->data(), read.bytes});
    }
  }
}

void Session::take(const LineBuffer::Line& line) {
  if (line.too_long) return take(refusal_of_long_line(max_line_bytes), nullptr);
  if (is_blank(line.text)) return;
  const auto incoming = parse_line(line.text);
  BatchPtr batch;
  if (incoming.batch) {
    batch = std::make_shared<Batch>();
    batch->missing = incoming.messages.size();
  }
  for (const auto& message : incoming.messages) take(message, batch);
}

void Session::take(const Parsed& message, const BatchPtr& batch) {
  if (const auto* refusal = std::get_if<Refusal>(&message)) {
    return deliver(answer(refusal->id, refusal->failure), batch);
  }
  const auto& request = std::get<Request>(message);
  const auto refuse = [&](const Failure& failure) {
    deliver(request.id ? std::optional(answer(*request.id, failure)) : std::nullopt, batch);
  };
  const auto* method = find_method(request.method);
  if (method == nullptr) {
    constexpr std::size_t enough = 100;
    return refuse({.code = method_not_found,
                   .message = "there is no method " + request.method.substr(0, enough) +
                              "; holdfast.version tells those there are"});
  }
  if (!request.id && method->answer == Answer::needed) return deliver(std::nullopt, batch);
  if (method->pace == Pace::waits && (gone_ || in_flight_.waiting() >= max_waiting)) {
    return refuse(failure_of_waiting(*this, in_flight_));
  }
  try {
    start(*method, request, batch);
  } catch (const FailedRequest& error) {
    refuse(error.failure());
  }
}

void Session::start(const Method& method, const Request& request, const BatchPtr& batch) {
  Call call{.session = shared_from_this(), .params = Params(request.params, method.parameters)};
  const auto running =
      in_flight_.add(request.id ? comparable_id(*request.id) : std::string(), method.pace == Pace::waits);
  auto finish = [self = shared_from_this(), running, id = request.id, batch](
                    const std::exception_ptr& exception, const Json& result) {
    self->in_flight_.remove(running);
    self->changed_.notify();
    if (!id) return self->deliver(std::nullopt, batch);
    self->deliver(exception ? answer(*id, failure_of(exception)) : answer(*id, result), batch);
  };
  asio::co_spawn(service_.executor(), method.run(std::move(call)),
                 asio::bind_cancellation_slot(running->cancellation.slot(), std::move(finish)));
}

void Session::deliver(const std::optional<std::string>& answer, const BatchPtr& batch) {
  if (!batch) {
    if (answer) outbox_.push(*answer);
    return;
  }
  if (answer) batch->answers.push_back(*answer);
  if (--batch->missing == 0 && !batch->answers.empty()) outbox_.push(batch_of(batch->answers));
}

}  // namespace holdfast::cli::rpc
