#include "engine/redis/conn/master_watch.hpp"

#include <poll.h>

#include <array>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/wire/command.hpp"
#include "os/random.hpp"

namespace holdfast::redis {
namespace {

/// The address of the new master, "host port", if the message says that the service has another one. The
/// service may contain spaces.
std::string_view new_master_in(std::string_view channel, std::string_view text, const std::string& service) {
  if (channel == switch_channel) {
    // "service old-host old-port new-host new-port"
    if (!text.starts_with(service + " ")) return {};
    const auto port = text.rfind(' ');
    return text.substr(text.rfind(' ', port - 1) + 1);
  }
  // "slave host:port host port @ service old-host old-port"
  const auto at = text.find(" @ " + service + " ");
  if (channel != promotion_channel || at == std::string_view::npos) return {};
  const auto slave = text.substr(0, at);
  const auto port = slave.rfind(' ');
  if (port == std::string_view::npos || port == 0) return {};
  return slave.substr(slave.rfind(' ', port - 1) + 1);
}
/// A subscription is silent while nothing happens, and also when its connection is dead.
constexpr BootClock::duration probe_after = std::chrono::seconds(2);
constexpr BootClock::duration longest_probe = std::chrono::seconds(2);
constexpr BootClock::duration ask_again_after = std::chrono::seconds(1);

}  // namespace

MasterWatch::MasterWatch(const Endpoint& endpoint)
    : endpoint_(endpoint), memory_(endpoint.options().sentinels.size()) {}

std::string MasterWatch::question(const std::string& service) {
  return Command("SENTINEL MASTER", service).bytes() + Command("SUBSCRIBE", switch_channel).bytes() +
         Command("SUBSCRIBE", promotion_channel).bytes();
}

bool MasterWatch::used(const NamedMaster& master, std::optional<Connection> subscription, BootTime now) {
  const std::lock_guard lock(mutex_);
  // Before any fence of the new epoch is known to this process.
  const bool is_new = memory_.newest() && master.epoch > memory_.newest()->epoch;
  if (is_new) ++switches_;
  memory_.used(master);
  epoch_ = memory_.newest()->epoch;
  if (!subscription) return is_new;
  dialer_.reset();
  subscription_ = std::move(subscription);
  heard_at_ = now;
  due_.reset();
  backoff_.reset();
  (void)read();  // messages that came with the answer
  return is_new;
}

MasterWatch::Plan MasterWatch::step(BootTime now, bool ready) {
  const std::lock_guard lock(mutex_);
  if (subscription_ && ready) {
    const auto count = read();
    if (!count) {
      lose(now);
    } else if (*count > 0) {
      due_.reset();
      heard_at_ = now;
    }
  }
  if (subscription_ && due_ && now >= *due_) lose(now);
  if (subscription_ && !due_ && now >= heard_at_ + probe_after) {
    if (!subscription_->stream->write(Command("PING").bytes())) {
      lose(now);
    } else {
      due_ = now + longest_probe;
    }
  }
  if (!subscription_) dial(now);
  if (subscription_) {
    return {.descriptor = subscription_->stream->descriptor(),
            .events = POLLIN,
            .until = due_ ? *due_ : heard_at_ + probe_after};
  }
  if (dialer_) {
    return {.descriptor = dial_wait_.descriptor, .events = dial_wait_.events, .until = dialer_->deadline()};
  }
  return {.until = memory_.newest() ? redial_at_ : never};
}

/// Makes the subscription again after it was lost. The first one comes with the first connection.
void MasterWatch::dial(BootTime now) {
  if (!memory_.newest() || (!dialer_ && now < redial_at_)) return;
  if (!dialer_) {
    const auto& order = memory_.order();
    const auto& options = endpoint_.options();
    dialer_.emplace(endpoint_.sentinel(order[next_sentinel_++ % order.size()]), now,
                    saturating_add(now, options.connect_timeout / static_cast<int>(order.size() + 1)));
  }
  auto outcome = dialer_->step(now);
  if (const auto* waiting = std::get_if<ServerDialer::PendingIo>(&outcome)) {
    dial_wait_ = *waiting;
    return;
  }
  auto* const made = std::get_if<Connection>(&outcome);
  const auto answer = made != nullptr ? read_sentinel_answer(*dialer_->answers().front(),
                                                             endpoint_.options().sentinel_service)
                                      : Result<SentinelAnswer>(std::get<Error>(outcome));
  const bool follows = made != nullptr && !is_error(*dialer_->answers()[subscribed]);
  dialer_.reset();
  // A switch that was missed.
  if (answer && answer->master.epoch > memory_.newest()->epoch) ++switches_;
  if (!answer || !follows || !memory_.is_current(answer->master)) {
    // A user who may not subscribe asks from time to time instead.
    redial_at_ = now + (answer ? ask_again_after : backoff_.next(os::jitter_fraction()));
    return;
  }
  subscription_.emplace(std::move(*made));
  heard_at_ = now;
  due_.reset();
  backoff_.reset();
  if (!read()) lose(now);
}

/// The number of bytes that had come; empty if the connection is of no use any more.
std::optional<std::size_t> MasterWatch::read() {
  std::array<char, 4096> bytes;
  auto& stream = subscription_->stream;
  auto& reader = subscription_->reader;
  for (std::size_t total = 0;;) {
    const auto count = stream->read(bytes);
    if (!count) return std::nullopt;
    total += *count;
    reader.feed({bytes.data(), *count});
    for (;;) {
      const auto reply = reader.next();
      if (!reply) return std::nullopt;
      if (!*reply) break;
      take_message(***reply);
    }
    if (*count < bytes.size() && !stream->has_more()) return total;
  }
}

void MasterWatch::take_message(const redisReply& reply) {
  const auto parts = elements_of(reply);
  if (parts.size() != 3 || text_of(*parts[0]) != "message") return;
  const auto named =
      new_master_in(text_of(*parts[1]), text_of(*parts[2]), endpoint_.options().sentinel_service);
  if (named.empty()) return;
  const auto& newest = memory_.newest();
  const bool known = newest && named == newest->address.host + " " + std::to_string(newest->address.port);
  if (!known) ++switches_;
}

void MasterWatch::lose(BootTime now) {
  subscription_.reset();
  due_.reset();
  redial_at_ = now + backoff_.next(os::jitter_fraction());
}

}  // namespace holdfast::redis
