#include "engine/redis/change_messages.hpp"

#include <string>

namespace holdfast::redis {

std::optional<Change> lock_change(const Layout& names, std::string_view channel, std::string_view payload) {
  if (!channel.starts_with(names.channel_prefix())) return std::nullopt;
  const auto lock_key = channel.substr(names.channel_prefix().size());
  const auto key = names.after_prefix(lock_key);
  if (!key) return Change{};
  return Change{.kind = payload == "broken" ? Change::Kind::broken : Change::Kind::changed,
                .key = std::string(*key)};
}

std::optional<Change> record_change(const StorageLayout& names, std::string_view channel,
                                    std::string_view payload) {
  if (!channel.starts_with(names.channel_prefix())) return std::nullopt;
  Change change{.kind = Change::Kind::changed,
                .key = std::string(channel.substr(names.channel_prefix().size()))};
  constexpr std::string_view stale = "stale ";
  if (!payload.starts_with(stale)) return change;
  payload.remove_prefix(stale.size());
  const auto space = payload.find(' ');
  if (space == std::string_view::npos) return change;
  const auto refused = Fence::parse(payload.substr(0, space));
  const auto highest = Fence::parse(payload.substr(space + 1));
  if (!refused || !highest) return change;
  change.kind = Change::Kind::stale_write;
  change.refused = *refused;
  change.highest = *highest;
  return change;
}

}  // namespace holdfast::redis
