#include "engine/redis/conn/discovery_fsm.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/number.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// In these states of a failover the sentinel still shows the old address with the old epoch. In any other,
/// and in states that are not known here, the epoch may be the new one.
bool shows_one_configuration(std::string_view failover_state) {
  static constexpr std::array<std::string_view, 5> before_promotion{"none", "wait_start", "select_slave",
                                                                    "send_slaveof_noone", "wait_promotion"};
  return std::ranges::find(before_promotion, failover_state) != before_promotion.end();
}

}  // namespace

std::string to_text(const RedisAddress& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<SentinelAnswer> read_sentinel_answer(const redisReply& reply, std::string_view service) {
  if (is_error(reply)) {
    if (text_of(reply).find("No such master") != std::string_view::npos) {
      return Error(ErrorCode::InvalidArgument,
                   "there is no service \"" + std::string(service) +
                       "\"; use the name in `sentinel monitor NAME` of the sentinel's configuration");
    }
    auto error = error_of(reply);
    if (text_of(reply).starts_with("NOPERM")) {
      return Error(ErrorCode::AuthFailed,
                   "the sentinel's user may not ask for the master; grant +sentinel|master", error.cause());
    }
    return error;
  }
  const auto parts = elements_of(reply);
  std::string_view host, port, flags, epoch, failover_state, replicas;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    const auto name = text_of(*parts[i]), value = text_of(*parts[i + 1]);
    if (name == "ip") host = value;
    if (name == "port") port = value;
    if (name == "flags") flags = value;
    if (name == "config-epoch") epoch = value;
    if (name == "failover-state") failover_state = value;
    if (name == "num-slaves") replicas = value;
  }
  const auto port_number = core::whole_number<std::uint16_t>(port);
  const auto epoch_number = core::whole_number<std::uint64_t>(epoch);
  if (host.empty() || !port_number || !epoch_number) {
    return Error(ErrorCode::ServiceUnavailable, "the reply to SENTINEL MASTER is not that of a Sentinel");
  }
  if (has_flag(flags, "failover_in_progress") && !shows_one_configuration(failover_state)) {
    return Error(ErrorCode::ServiceUnavailable, "a failover is not finished");
  }
  SentinelAnswer answer;
  answer.master.address = {.host = std::string(host), .port = *port_number};
  answer.master.epoch = *epoch_number;
  answer.is_down = has_flag(flags, "o_down");
  answer.replicas = core::whole_number<std::size_t>(replicas).value_or(0);
  return answer;
}

SentinelMemory::SentinelMemory(std::size_t sentinels) : order_(sentinels) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

void SentinelMemory::asked(std::size_t sentinel) {
  const auto found = std::ranges::find(order_, sentinel);
  std::rotate(found, found + 1, order_.end());
}

void SentinelMemory::answered(std::size_t sentinel) {
  const auto found = std::ranges::find(order_, sentinel);
  std::rotate(order_.begin(), found, found + 1);
}

bool SentinelMemory::is_current(const NamedMaster& master) const noexcept {
  return !newest_ || master.epoch >= newest_->epoch;
}

void SentinelMemory::used(const NamedMaster& master) {
  if (is_current(master)) newest_ = master;
}

Discovery::Discovery(const RedisOptions& options, const SentinelMemory& memory, BootTime deadline)
    : options_(options), order_(memory.order()), majority_(order_.size() / 2 + 1), deadline_(deadline) {}

BootTime Discovery::share_of(BootTime now, std::size_t steps) const noexcept {
  return now + (deadline_ - now) / static_cast<BootClock::rep>(steps);
}

void Discovery::note(std::string_view kind, const RedisAddress& where, const Error& error) {
  findings_.add(kind, to_text(where), error);
  if (error.transient()) {
    any_transient_ = true;
  } else {
    permanent_ = error.code();
  }
}

/// Permanent only if no step can end otherwise next time.
Error Discovery::failure() const {
  const auto code = permanent_ && !any_transient_ ? *permanent_ : ErrorCode::ServiceUnavailable;
  return {code, "the sentinels lead to no usable master. " + findings_.text()};
}

bool Discovery::has_untried_master() const noexcept {
  return best_ && (!tried_ || (best_->master != *tried_ && best_->master.epoch >= tried_->epoch));
}

Discovery::Action Discovery::start(BootTime now) {
  return next(now);
}

Discovery::Action Discovery::next(BootTime now) {
  if (asked_ == order_.size() && named_ < majority_ && !silent_.empty() && !second_pass_) {
    second_pass_ = true;
    asked_ = 0;
    order_ = silent_;
  }
  const auto left = order_.size() - asked_;
  // After a master that could not be used, every further answer may be the one that names its successor.
  const bool enough = named_ >= majority_ || (tried_ && has_untried_master());
  const bool may_dial = enough && has_untried_master() && !best_->is_down;
  if (left > 0 && !may_dial) {
    const auto share = share_of(now, left + 1);
    return Ask{.sentinel = order_[asked_],
               .until = second_pass_ ? share : std::min<BootTime>(share, now + quick_answer)};
  }
  if (!has_untried_master()) return failure();
  if (best_->is_down) {
    note("master", best_->master.address,
         {ErrorCode::ServiceUnavailable, "the sentinels agree that it is down"});
    return failure();
  }
  tried_ = best_->master;
  return Dial{.master = *tried_, .until = share_of(now, left + 1)};
}

Discovery::Action Discovery::on_answer(SentinelMemory& memory, const Result<SentinelAnswer>& answer,
                                       BootTime now) {
  const auto sentinel = order_[asked_++];
  const auto& where = options_.sentinels[sentinel];
  if (!answer) {
    // Whether it is silent or refuses: only the time that it got can be too short.
    const bool is_silent = answer.error().code() == ErrorCode::NetworkTimeout && !second_pass_;
    if (is_silent) {
      silent_.push_back(sentinel);
    } else {
      note("sentinel", where, answer.error());
    }
    return next(now);
  }
  const auto& master = answer->master;
  if (!memory.is_current(master)) {
    note("sentinel", where,
         {ErrorCode::ServiceUnavailable, "the named master is a former master (epoch " +
                                             std::to_string(master.epoch) + ", known is " +
                                             std::to_string(memory.newest()->epoch) +
                                             "). If the sentinels were created anew, restart this process"});
    return next(now);
  }
  memory.answered(sentinel);
  ++named_;
  if (!best_ || master.epoch > best_->master.epoch) {
    best_ = *answer;
  } else if (master == best_->master) {
    best_->is_down |= answer->is_down;
  }
  return next(now);
}

Discovery::Action Discovery::on_master_failed(const Error& error, BootTime now) {
  note("master", tried_->address, error);
  if (!error.transient())
    return Error(error.code(), "the sentinels lead to a master that cannot be used. " + findings_.text());
  return next(now);
}

}  // namespace holdfast::redis
