#include "engine/redis/conn/connector.hpp"

#include <utility>

#include "os/random.hpp"

namespace holdfast::redis {

Connector::Outcome Connector::step(BootTime now, bool wanted) {
  waiting_ = for_time;
  // A switch is what the pause is for: now there is a master to be found.
  if (const auto switches = endpoint_->switches(); std::exchange(switches_, switches) != switches)
    fsm_.end_pause();
  switch (fsm_.next(now, wanted)) {
    case ReconnectFsm::Next::wait:
      return {};
    case ReconnectFsm::Next::abandon:
      dialer_.reset();
      report(fsm_.abandoned(), now);
      return {};
    case ReconnectFsm::Next::begin:
      demotions_ = endpoint_->demotions();
      began_at_switch_ = endpoint_->switches();
      dialer_.emplace(pick_ ? pick_() : endpoint_, now);
      break;
    case ReconnectFsm::Next::go_on:
      break;
  }
  auto outcome = dialer_->step(now);
  if (const auto* waiting = std::get_if<Dialer::PendingIo>(&outcome)) {
    waiting_ = *waiting;
    return {};
  }
  dialer_.reset();
  if (auto* made = std::get_if<Connection>(&outcome)) {
    report(fsm_.connected(), now);
    if (endpoint_->watch() != nullptr) demotions_ += made->switches - began_at_switch_;
    return std::move(*made);
  }
  auto& error = std::get<Error>(outcome);
  report(fsm_.failed(error, now, os::jitter_fraction()), now);
  return std::move(error);
}

void Connector::lost(const Error& why, BootTime now, bool demoted) {
  fsm_.lost(endpoint_->about(why), now, demoted, os::jitter_fraction());
}

std::optional<Error> Connector::no_connection(BootTime now) const {
  if (fsm_.last_error()) return fsm_.last_error();
  if (dialer_) return endpoint_->about(dialer_->no_connection(now - dialer_->began()));
  return std::nullopt;
}

void Connector::report(const std::optional<ReconnectFsm::Report>& report, BootTime now) const noexcept {
  if (report) endpoint_->report_reconnect(report->since, now, report->failed);
}

std::optional<Error> receive(Connection& connection, std::span<char> buffer, std::vector<Reply>& replies) {
  constexpr int most_reads = 16;
  auto& stream = connection.stream;
  auto& reader = connection.reader;
  std::optional<Error> broken;
  for (int reads = 0; reads < most_reads; ++reads) {
    const auto count = stream->read(buffer);
    if (!count) {
      broken = count.error();
      break;
    }
    reader.feed({buffer.data(), *count});
    // No bytes: TLS may have half a record and wait for the rest, which poll reports.
    if (*count == 0 || (*count < buffer.size() && !stream->has_more())) break;
  }
  for (;;) {
    auto reply = reader.next();
    if (!reply) broken = reply.error();
    if (!reply || !*reply) return broken;
    replies.push_back(**std::move(reply));
  }
}

}  // namespace holdfast::redis
