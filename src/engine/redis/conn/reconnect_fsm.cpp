#include "engine/redis/conn/reconnect_fsm.hpp"

#include <chrono>
#include <utility>

namespace holdfast::redis {
namespace {

/// A replica found this much later than the last one is a new failover.
constexpr BootClock::duration one_failover = std::chrono::seconds(10);

}  // namespace

ReconnectFsm::Next ReconnectFsm::next(BootTime now, bool wanted) noexcept {
  if (began_) return wanted ? Next::go_on : Next::abandon;
  if (!wanted || now < dial_at_) return Next::wait;
  began_ = now;
  return Next::begin;
}

std::optional<ReconnectFsm::Report> ReconnectFsm::connected() noexcept {
  began_.reset();
  answered_ = false;
  last_error_.reset();
  const auto lost_at = std::exchange(lost_at_, std::nullopt);
  return lost_at ? std::optional<Report>({.since = *lost_at, .failed = std::nullopt}) : std::nullopt;
}

std::optional<ReconnectFsm::Report> ReconnectFsm::failed(Error why, BootTime now, double random) noexcept {
  const auto began = *std::exchange(began_, std::nullopt);
  const auto code = why.code();
  last_error_ = std::move(why);
  dial_at_ = now + backoff_.next(random);
  return lost_at_ ? std::optional<Report>({.since = began, .failed = code}) : std::nullopt;
}

std::optional<ReconnectFsm::Report> ReconnectFsm::abandoned() noexcept {
  const auto began = *std::exchange(began_, std::nullopt);
  if (!lost_at_) return std::nullopt;
  return Report{.since = began, .failed = ErrorCode::NetworkTimeout};
}

void ReconnectFsm::answered() noexcept {
  answered_ = true;
  backoff_.reset();
}

void ReconnectFsm::lost(Error why, BootTime now, bool demoted, double random) noexcept {
  last_error_ = std::move(why);
  lost_at_ = now;
  dial_at_ = now + pause(now, demoted, random);
}

BootClock::duration ReconnectFsm::pause(BootTime now, bool demoted, double random) noexcept {
  if (demoted) {
    if (now - std::exchange(demoted_at_, now) > one_failover) replica_backoff_.reset();
    return replica_backoff_.next(random);
  }
  if (answered_ && after_answers_ == AfterAnswers::at_once) return BootClock::duration::zero();
  // A connection that never answered may be to a server that drops what it rejects.
  return backoff_.next(random);
}

}  // namespace holdfast::redis
