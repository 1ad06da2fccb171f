#include "engine/redis/conn/multiplexer.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {
namespace {

/// One write is at most about this long, so that a long queue does not become one huge buffer.
constexpr std::size_t write_size = std::size_t{256} << 10;
constexpr BootClock::duration longest_answer_timeout = std::chrono::hours(1);
constexpr BootClock::duration slowest_link = std::chrono::seconds(1);
/// The command that the server needs before each call whose slot is on its way to it.
constexpr std::string_view asking_bytes = "*1\r\n$6\r\nASKING\r\n";

/// A written command may have been carried out, whatever prevents the resend: so the error is transient.
Error unknown_because(const Error& error) {
  if (error.transient()) return error;
  return {ErrorCode::ServiceUnavailable, error.message(), error.cause()};
}

}  // namespace

void Multiplexer::queue(std::unique_ptr<Call> call) {
  call->sent_ = false;  // a copy from before was answered
  look_at_ = std::min(look_at_, due(*call));
  unsent_.push_back(std::move(call));
}

void Multiplexer::stop(Call& call) noexcept {
  call.stopped_ = true;
  look_at_ = BootTime{};
}

void Multiplexer::connected(BootTime now, std::uint64_t fence_floor, std::uint64_t epoch) noexcept {
  ++connections_;
  fence_floor_ = fence_floor;
  epoch_ = epoch;
  answered_ = false;
  wrote_at_ = now;
}

void Multiplexer::disconnected() {
  out_.clear();
  written_ = 0;
  out_of_room_ = false;
  queued_bytes_ = 0;
  demoted_.reset();
  const auto accepted = std::exchange(accepted_bytes_, 0);
  for (auto& sent : std::views::reverse(sent_)) {
    if (!sent.call) continue;
    Call& call = *sent.call;
    call.sent_ = false;
    if (sent.first_byte < accepted) {
      call.sent_before_ = true;
      // A call with an answer timeout shorter than a round trip must not break every connection.
      call.answer_timeout = std::min(call.answer_timeout * 2, longest_answer_timeout);
    }
    unsent_.push_front(std::move(sent.call));
  }
  sent_.clear();
  look_at_ = never;
  for (const auto& call : unsent_) look_at_ = std::min(look_at_, due(*call));
}

void Multiplexer::cannot_connect(const Error& error) {
  for (auto& call : unsent_) {
    if (error.transient() && !call->fail_fast) continue;
    auto reason = call->was_sent() ? unknown_because(error) : error;
    end(std::move(call), std::move(reason));
  }
  std::erase(unsent_, nullptr);
}

std::string_view Multiplexer::output(BootTime now) {
  if (written_ == out_.size()) {
    out_.clear();
    written_ = 0;
    wrote_at_ = now;
    while (!unsent_.empty() && out_.size() < write_size) {
      put(std::move(unsent_.front()), now);
      unsent_.pop_front();
    }
  }
  return std::string_view(out_).substr(written_);
}

/// The one place where a call's bytes become output: the last moment to change them for this connection.
void Multiplexer::put(std::unique_ptr<Call>&& call, BootTime now) {
  if (call->fence_floor_at != std::string::npos) {
    raise_fence_floor(call->bytes, call->fence_floor_at, fence_floor_);
    call->epoch_ = epoch_;
  }
  if (call->asking) {
    out_ += asking_bytes;
    sent_.push_back({nullptr, now, call->answer_timeout,
                     std::exchange(queued_bytes_, queued_bytes_ + asking_bytes.size())});
  }
  out_ += call->bytes;
  const auto first_byte = std::exchange(queued_bytes_, queued_bytes_ + call->bytes.size());
  call->sent_ = true;
  call->connection_ = connections_;
  const auto answer_timeout = call->answer_timeout;
  look_at_ = std::min(look_at_, saturating_add(now, answer_timeout_on_link(answer_timeout)));
  // Before the write: the reply may be read before the write returns.
  sent_.push_back({std::move(call), now, answer_timeout, first_byte});
}

std::optional<Error> Multiplexer::take(std::span<Reply> replies, BootTime now) {
  if (!replies.empty()) answered_at_ = now;
  for (auto& reply : replies) {
    if (sent_.empty()) return Error(ErrorCode::Internal, "the server sent more replies than requests");
    learn_round_trip(now - sent_.front().at);
    answered_ = true;
    // The address leads to another server by now, or will soon: a name, a virtual address or a proxy, which
    // only a new connection follows. Calls that were not written yet wait for that connection.
    if (!demoted_ && is_from_replica(*reply)) demoted_ = error_of(*reply);
    if (auto& call = sent_.front().call) end(std::move(call), std::move(reply));
    sent_.pop_front();
  }
  return sent_.empty() ? demoted_ : std::nullopt;
}

bool Multiplexer::inspect(BootTime now, const std::optional<Error>& no_connection) {
  look_at_ = never;
  bool suspect = false;
  for (auto& sent : sent_) {
    const BootTime give_up_at = suspect_at(sent);
    suspect |= give_up_at <= now;
    look_at_ = std::min(look_at_, give_up_at);
    if (sent.call) end_if_due(sent.call, now, no_connection);
  }
  for (auto& call : unsent_) end_if_due(call, now, no_connection);
  std::erase(unsent_, nullptr);
  return suspect;
}

void Multiplexer::end_if_due(std::unique_ptr<Call>& call, BootTime now,
                             const std::optional<Error>& no_connection) {
  if (call->stopped_ && call->stopped_until_ == BootTime{} &&
      call->answer_timeout_after_stop > BootClock::duration::zero()) {
    call->stopped_until_ = saturating_add(now, call->answer_timeout_after_stop);
  }
  if (const auto at = due(*call); at > now) {
    look_at_ = std::min(look_at_, at);
    return;
  }
  auto error = unanswered(*call, no_connection);
  end(std::move(call), std::move(error));
}

BootTime Multiplexer::due(const Call& call) noexcept {
  if (!call.stopped_) return call.deadline;
  return call.was_sent() ? std::min(call.deadline, call.stopped_until_) : BootTime{};
}

Error Multiplexer::unanswered(const Call& call, const std::optional<Error>& no_connection) const {
  if (call.stopped_) {
    return call.was_sent() ? Error(ErrorCode::NetworkTimeout, server_ + ": stopped before the reply arrived")
                           : Error(ErrorCode::Aborted, "the caller stopped the operation");
  }
  if (no_connection) return call.was_sent() ? unknown_because(*no_connection) : *no_connection;
  return {ErrorCode::NetworkTimeout,
          server_ + (call.was_sent() ? ": no reply in time" : ": not sent in time")};
}

void Multiplexer::learn_round_trip(BootClock::duration took) noexcept {
  const auto before = std::exchange(round_trip_, answered_ ? std::min(round_trip_, took) : took);
  if (round_trip_ < before) look_at_ = BootTime{};  // an answer may be overdue sooner
}

BootClock::duration Multiplexer::answer_timeout_on_link(BootClock::duration answer_timeout) const noexcept {
  // A first answer may be late for another reason than the link.
  return std::max(answer_timeout, std::min<BootClock::duration>(2 * round_trip_, slowest_link));
}

BootTime Multiplexer::suspect_at(const Sent& sent) const noexcept {
  return saturating_add(std::max(sent.at, answered_at_), answer_timeout_on_link(sent.answer_timeout));
}

void Multiplexer::end(std::unique_ptr<Call>&& call, Result<Reply>&& answer) {
  finished_.push_back({std::move(call), std::move(answer)});
}

}  // namespace holdfast::redis
