#include "engine/redis/waiter_count.hpp"

#include <limits>
#include <utility>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

WaiterCount::WaiterCount(const Layout& names, const std::vector<LockKey>& keys,
                         std::vector<std::uint32_t> masters)
    : is_sharded_(names.channels() == Channels::sharded), counts_(keys.size()), masters_(std::move(masters)) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // A reserved key has no lock, and so no waiters that could be seen.
    const auto lock_key = names.lock_key(keys[i]);
    if (!lock_key) continue;
    channels_.push_back(names.channel(*lock_key));
    places_.push_back(i);
    counts_[i] = 0;
  }
  done_ = channels_.empty();
}

std::optional<RoutedCommand> WaiterCount::command(By) const {
  if (done_) return std::nullopt;
  const CommandName name = is_sharded_ ? CommandName("PUBSUB SHARDNUMSUB") : CommandName("PUBSUB NUMSUB");
  auto command = Command::begin(name, channels_.size());
  for (const auto& channel : channels_) command.add(channel);
  return std::move(command).routed();
}

std::optional<std::uint32_t> WaiterCount::master() const {
  return asked_ < masters_.size() ? std::optional(masters_[asked_]) : std::nullopt;
}

Status WaiterCount::take(const redisReply& reply, std::uint64_t) {
  if (is_error(reply)) {
    auto error = error_of(reply);
    if (error.code() != ErrorCode::AuthFailed) return error;
    counts_.assign(counts_.size(), std::nullopt);
    done_ = true;
    return Ok{};
  }
  const auto parts = elements_of(reply);
  if (parts.size() != 2 * channels_.size()) {
    return Error(ErrorCode::Internal, "unexpected reply of Redis to PUBSUB NUMSUB");
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto count = integer_of(*parts[2 * i + 1]);
    if (!count || *count < 0 || *count > std::numeric_limits<std::int32_t>::max()) {
      return Error(ErrorCode::Internal, "unexpected reply of Redis to PUBSUB NUMSUB");
    }
    *counts_[places_[i]] += static_cast<std::uint32_t>(*count);
  }
  done_ = ++asked_ >= masters_.size();
  return Ok{};
}

}  // namespace holdfast::redis
