#include "rpc/session.hpp"

#include <algorithm>
#include <array>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <span>

#include "rpc/failure.hpp"
#include "rpc/limits.hpp"

namespace holdfast::cli::rpc {
namespace {

/// A part of a session that goes on beside the others, and keeps it alive meanwhile.
asio::awaitable<void> keeping(std::shared_ptr<Session> session, asio::awaitable<void> part) {
  co_await std::move(part);
  (void)session;
}

/// All at once. What cannot be released ends with its lease.
asio::awaitable<void> release_all(AsyncLocks& locks, const std::vector<std::string>& lock_ids) {
  const auto executor = co_await asio::this_coro::executor;
  Event released(executor);
  std::size_t left = lock_ids.size();
  for (const auto& lock_id : lock_ids) {
    locks.release(lock_id, [&left, &released](const std::exception_ptr&, bool) {
      if (--left == 0) released.notify();
    });
  }
  while (left > 0) co_await released.wait();
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
  co_await all_written();
  // Nobody learned the ids, so nobody else could release them.
  const auto unheard = outbox_.unheard();
  co_await release_all(service_.locks(), unheard);
  channel_.close();
}

asio::awaitable<void> Session::all_written() {
  asio::steady_timer patience(service_.executor(), asio::steady_timer::time_point::max());
  bool patient = true;
  while (!written_) {
    if (stopping_ && patient) {
      patient = false;
      patience.expires_after(time_to_read);
      patience.async_wait([self = shared_from_this()](const asio::error_code& cancelled) {
        if (!cancelled) self->lose_client();
      });
    }
    co_await changed_.wait();
  }
}

void Session::stop() {
  stopping_ = true;
  in_flight_.cancel_waiting();
  channel_.stop_reading();
  changed_.notify();
}

void Session::lose_client() {
  if (gone_) return;
  gone_ = true;
  outbox_.drop();
  in_flight_.cancel_waiting();
  // What it sent is carried out. But somebody else may hold the other end of a pipe open, and send for ever.
  unread_bytes_ = channel_.unread_bytes();
  channel_.stop_reading();
  channel_.stop_writing();
  changed_.notify();
}

asio::awaitable<void> Session::watch() {
  const bool client_is_gone = co_await channel_.gone();
  if (client_is_gone) lose_client();
}

asio::awaitable<void> Session::write_all() {
  const bool all_written = co_await outbox_.write_all();
  if (!all_written) lose_client();
  written_ = true;
  changed_.notify();
}

bool Session::overloaded() const noexcept {
  return in_flight_.running() >= max_running || outbox_.unwritten_bytes() > max_unwritten_bytes;
}

asio::awaitable<void> Session::room() {
  while (!stopping_ && overloaded()) co_await changed_.wait();
}

asio::awaitable<void> Session::read_all() {
  LineBuffer lines(max_line_bytes);
  constexpr std::size_t at_once = std::size_t{64} * 1024;
  const auto buffer = std::make_unique<std::array<char, at_once>>();
  bool ended = false;
  while (true) {
    co_await room();
    if (stopping_) co_return;
    if (auto line = lines.next()) {
      co_await take(*std::move(line));
    } else if (ended) {
      if (auto rest = lines.rest()) co_await take(*std::move(rest));
      co_return;
    } else if (gone_ && (unread_bytes_ == 0 || !channel_.readable())) {
      ended = true;
    } else {
      const auto into = std::span(*buffer).first(gone_ ? std::min(at_once, unread_bytes_) : at_once);
      const auto read = co_await channel_.read(into);
      ended = read.ended;
      if (gone_) unread_bytes_ -= std::min(unread_bytes_, read.bytes);
      lines.append({buffer->data(), read.bytes});
    }
  }
}

asio::awaitable<void> Session::take(LineBuffer::Line line) {
  if (line.too_long) {
    take(refusal_of_long_line(max_line_bytes), nullptr);
    co_return;
  }
  if (is_blank(line.text)) co_return;
  const auto incoming = parse_line(line.text);
  line.text = {};
  BatchPtr batch;
  if (incoming.batch) {
    batch = std::make_shared<Batch>();
    batch->missing = incoming.messages.size();
  }
  for (const auto& message : incoming.messages) {
    co_await room();
    take(message, batch);
  }
}

void Session::check_may_begin(const Method& method, const BatchPtr& batch) const {
  if (stopping_) throw Error(ErrorCode::Aborted, "the sidecar ends; this request was not begun");
  if (batch && batched_bytes_ > max_batched_bytes) {
    throw Error(ErrorCode::RateLimited, "the answers of this connection's batches are more than " +
                                            std::to_string(max_batched_bytes) +
                                            " bytes already; send this request again by itself");
  }
  if (method.pace != Pace::waits) return;
  if (gone_) throw Error(ErrorCode::Aborted, "nobody reads the answers any more");
  if (in_flight_.waiting() >= max_waiting) {
    throw Error(ErrorCode::RateLimited,
                std::to_string(in_flight_.waiting()) +
                    " requests of this connection wait already; let some end, or cancel some");
  }
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
  Params params(request.params, method.parameters);
  const auto running =
      in_flight_.add(request.id ? comparable_id(*request.id) : std::string(), method.pace == Pace::waits);
  Call call{.session = shared_from_this(), .params = std::move(params), .request = running};
  auto finish = [self = shared_from_this(), running, id = request.id, batch](
                    const std::exception_ptr& exception, const Json& result) {
    self->in_flight_.remove(running);
    self->changed_.notify();
    if (!id) return self->deliver(std::nullopt, batch);
    self->deliver(exception ? answer(*id, failure_of(exception)) : answer(*id, result), batch,
                  running->lock_id);
  };
  asio::co_spawn(service_.executor(), method.run(std::move(call)),
                 asio::bind_cancellation_slot(running->cancellation.slot(), std::move(finish)));
}

void Session::deliver(const std::optional<std::string>& answer, const BatchPtr& batch,
                      const std::string& lock_id) {
  std::vector<std::string> lock_ids;
  if (!lock_id.empty()) lock_ids.push_back(lock_id);
  if (!batch) {
    if (answer) outbox_.push(*answer, lock_ids);
    return;
  }
  batch->lock_ids.insert(batch->lock_ids.end(), lock_ids.begin(), lock_ids.end());
  if (answer) {
    batch->answers.push_back(*answer);
    batch->bytes += answer->size();
    batched_bytes_ += answer->size();
  }
  if (--batch->missing > 0) return;
  batched_bytes_ -= batch->bytes;
  if (!batch->answers.empty()) outbox_.push(batch_of(batch->answers), batch->lock_ids);
}

}  // namespace holdfast::cli::rpc
