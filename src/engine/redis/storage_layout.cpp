#include "engine/redis/storage_layout.hpp"

#include <algorithm>

#include "core/utf8.hpp"
#include "engine/redis/glob.hpp"

namespace holdfast::redis {

Result<StorageLayout> StorageLayout::make(std::string_view prefix, std::uint32_t db) {
  const auto refused = [](const std::string& why) {
    return Error(ErrorCode::InvalidArgument, "the task prefix " + why);
  };
  if (prefix.empty()) return refused("is empty; its default is pmcp");
  if (prefix.size() > longest_prefix) {
    return refused("has " + std::to_string(prefix.size()) + " bytes; at most " +
                   std::to_string(longest_prefix) + " are allowed");
  }
  if (!core::is_utf8(prefix)) return refused("is not valid UTF-8");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(prefix, is_control)) return refused("contains a control character");
  StorageLayout layout;
  layout.tasks_ = std::string(prefix) + ":tasks:";
  layout.index_ = std::string(prefix) + ":idx:";
  const auto channels = std::string(prefix) + ":changed:";
  layout.changed_ = channels + std::to_string(db) + ":";
  layout.channel_pattern_ = without_glob(channels) + '*';
  layout.pattern_ = without_glob(prefix) + ":*";
  layout.index_pattern_ = without_glob(layout.index_) + '*';
  return layout;
}

std::optional<std::string_view> StorageLayout::owner_of_index(std::string_view name) const {
  if (!name.starts_with(index_)) return std::nullopt;
  name.remove_prefix(index_.size());
  // What another prefix, one that begins with ours, puts there has a colon in it.
  if (!RecordKey::of(name, {})) return std::nullopt;
  return name;
}

}  // namespace holdfast::redis
