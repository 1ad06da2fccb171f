#include "engine/redis/layout.hpp"

#include <algorithm>

#include "core/digest.hpp"
#include "core/nfc.hpp"
#include "core/storage_key.hpp"
#include "core/utf8.hpp"

namespace holdfast::redis {
namespace {

constexpr std::size_t name_limit = 1000;
constexpr std::string_view id_mark = "id:";
/// Room for derived names: ":id:" and a lock id.
constexpr std::size_t reserve = 1 + id_mark.size() + LockId::length;

/// With a longer prefix no name fits, not even that of a key of one byte.
constexpr std::size_t longest_prefix = name_limit - reserve - 1;
/// With a longer one, index keys are hashed: scripts cannot derive them from ids.
constexpr std::size_t longest_prefix_of_ids = name_limit - 2 * reserve;

/// A pattern that matches only this text.
std::string without_glob(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

constexpr std::size_t tag_size = 16;

/// 16 hex digits: FNV-1a. Two owners may share a tag, and then a slot.
std::string tag_of(std::string_view owner) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : owner) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string tag(tag_size, '0');
  for (auto at = tag.rbegin(); at != tag.rend(); ++at, hash >>= 4U) *at = digits[hash & 0x0FU];
  return tag;
}

/// Whether a tag behind this text would be the tag of the whole, or the text has one. A cluster takes what is
/// between the first { and the next }, or the whole name if that is nothing.
bool has_no_open_tag(std::string_view text) {
  const auto open = text.find('{');
  if (open == std::string_view::npos) return true;
  const auto close = text.find('}', open);
  return close != std::string_view::npos && close > open + 1;
}

}  // namespace

Result<Layout> Layout::make(std::string_view prefix, std::uint32_t db, Channels channels) {
  if (prefix.find("fence:") != std::string_view::npos || prefix.ends_with("fence")) {
    return Error(
        ErrorCode::InvalidArgument,
        "the lock prefix \"" + std::string(prefix) +
            "\" collides with fence counters; choose one without `fence:` in it or `fence` at its end");
  }
  while (prefix.ends_with(':')) prefix.remove_suffix(1);
  if (prefix.size() > longest_prefix) {
    return Error(ErrorCode::InvalidArgument, "the lock prefix has " + std::to_string(prefix.size()) +
                                                 " bytes; at most " + std::to_string(longest_prefix) +
                                                 " leave room for keys");
  }
  Layout layout;
  if (!prefix.empty()) layout.head_ = std::string(prefix) + ':';
  // A fence key is built from the lock key as if that were a user key, so the prefix in its middle is
  // normalised, while the leading one is not. The part after the colon is already normalised, and no
  // character composes with a colon: so the normal form of the whole is that of its two parts.
  auto fence_head = core::nfc("fence:" + layout.head_);
  if (!fence_head) {
    return Error(ErrorCode::InvalidArgument, "the lock prefix is not valid UTF-8",
                 fence_head.error().cause());
  }
  if (core::uncertain_code_point(*fence_head)) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid lock prefix: it contains a character that is not in Unicode " +
                     std::string(core::unicode_version()) + "; choose another prefix");
  }
  layout.fence_head_ = *std::move(fence_head);
  layout.index_prefix_ = layout.head_ + std::string(id_mark);
  layout.hashes_ids_ = prefix.size() > longest_prefix_of_ids;
  layout.channels_ = channels;
  const auto wake = std::string(prefix) + ":wake:";
  layout.channel_prefix_ = wake + std::to_string(db) + ':';
  layout.channel_pattern_ = without_glob(channels == Channels::sharded ? layout.head_ : wake) + '*';
  layout.authority_key_ = layout.head_ + layout.fence_head_;
  layout.pattern_ = without_glob(layout.head_) + '*';
  return layout;
}

bool Layout::is_reserved(std::string_view user_key) const noexcept {
  if (user_key.starts_with(fence_head_)) return true;
  return user_key.size() == id_mark.size() + LockId::length && user_key.starts_with(id_mark) &&
         std::ranges::all_of(user_key.substr(id_mark.size()), core::is_base64url);
}

Result<std::string> Layout::lock_key(const LockKey& key) const {
  if (is_reserved(key.str())) [[unlikely]] {
    return Error(
        ErrorCode::InvalidArgument,
        "invalid key: it collides with a name that Holdfast uses in Redis (`id:` and 22 characters, `" +
            fence_head_ + "` and any text); choose another key");
  }
  return core::storage_key_of_normalised(head_, key.str(), name_limit, reserve);
}

Result<std::string> Layout::fence_key(std::string_view lock_key) const {
  std::string name;
  name.reserve(fence_head_.size() + lock_key.size());
  name.append(fence_head_).append(lock_key.substr(head_.size()));
  return core::storage_key_of_normalised(head_, name, name_limit, reserve);
}

Result<std::string> Layout::index_key(const LockId& id) const {
  if (!hashes_ids_) [[likely]]
    return std::string(index_prefix_).append(id.str());
  return core::storage_key_of_normalised(head_, std::string(id_mark).append(id.str()), name_limit, reserve);
}

std::string Layout::channel(std::string_view lock_key) const {
  if (channels_ == Channels::sharded) return std::string(lock_key);
  return std::string(channel_prefix_).append(lock_key);
}

std::optional<std::string_view> Layout::after_prefix(std::string_view name) const {
  if (!name.starts_with(head_)) return std::nullopt;
  name.remove_prefix(head_.size());
  const auto key = LockKey::stored(name);
  if (!key || key->str() != name || is_reserved(name)) return std::nullopt;
  return name;
}

std::string Layout::named(std::string_view after_prefix) const {
  return std::string(head_).append(after_prefix);
}

Result<StorageLayout> StorageLayout::make(std::string_view prefix, std::uint32_t db, RedisLayout layout,
                                          Channels channels) {
  const auto refused = [](const std::string& why) {
    return Error(ErrorCode::InvalidArgument, "the task prefix " + why);
  };
  if (prefix.empty()) return refused("is empty; its default is pmcp");
  if (prefix.size() > longest_prefix) {
    return refused("has " + std::to_string(prefix.size()) + " bytes; at most " +
                   std::to_string(longest_prefix) + " are allowed");
  }
  if (!core::is_utf8(prefix)) return refused("is not valid UTF-8");
  if (std::ranges::any_of(prefix, core::is_control)) return refused("contains a control character");
  const bool is_native = layout == RedisLayout::native;
  if (is_native && !has_no_open_tag(prefix)) {
    return refused(
        "contains a { without a } that ends a tag: on a cluster, the keys of an owner would be in "
        "different slots. Close the brace behind at least one character, or omit it");
  }
  StorageLayout made;
  made.layout_ = layout;
  made.channels_ = channels;
  made.head_ = std::string(prefix) + ':';
  made.tasks_ = is_native ? "task:" : made.head_ + "tasks:";
  made.index_ = is_native ? "idx:" : made.head_ + "idx:";
  made.queue_ = is_native ? "queue:" : made.head_ + "queue:";
  const auto changed = made.head_ + "changed:";
  made.work_ = changed + "work:" + std::to_string(db) + ":";
  made.changed_ = changed + std::to_string(db) + ":";
  made.pattern_ = without_glob(made.head_) + '*';
  made.channel_pattern_ = channels == Channels::sharded ? made.pattern_ : without_glob(changed) + '*';
  made.index_pattern_ = is_native ? without_glob(made.head_) + "{*}:idx:*" : without_glob(made.index_) + '*';
  made.marker_ = made.head_ + "layout";
  return made;
}

std::string StorageLayout::tagged(std::string_view owner) const {
  if (layout_ == RedisLayout::documented) return {};
  return std::string(head_).append("{").append(tag_of(owner)).append("}:");
}

std::string StorageLayout::record(const RecordKey& key) const {
  return tagged(key.owner()).append(tasks_).append(key.str());
}

std::string StorageLayout::record_prefix(std::string_view owner) const {
  return tagged(owner).append(tasks_).append(owner).append(":");
}

std::string StorageLayout::index(std::string_view owner) const {
  return tagged(owner).append(index_).append(owner);
}

std::string StorageLayout::channel(const RecordKey& key) const {
  return channels_ == Channels::sharded ? record(key) : changed_ + key.str();
}

std::string StorageLayout::channel_prefix(std::string_view owner) const {
  if (channels_ == Channels::sharded) return record_prefix(owner);
  return std::string(changed_).append(owner).append(":");
}

StorageLayout::QueueKeys StorageLayout::queue(std::string_view owner) const {
  const auto begin = tagged(owner).append(queue_);
  const auto named = [&](std::string_view kind) { return std::string(begin).append(kind).append(owner); };
  return {named("ready:"),    named("delayed:"),  named("leases:"), named("exhausted:"),
          named("finished:"), named("settings:"), index(owner),     named("waiters:")};
}

std::string StorageLayout::dead_letters(std::string_view owner) const {
  return tagged(owner).append(queue_).append("settings:").append(owner).append(":dead");
}

std::string StorageLayout::claims(std::string_view owner, std::string_view process,
                                  std::uint32_t slot) const {
  return tagged(owner)
      .append(queue_)
      .append("claimed:")
      .append(owner)
      .append(":")
      .append(process)
      .append(":")
      .append(std::to_string(slot));
}

std::string StorageLayout::work_prefix(std::string_view owner) const {
  if (channels_ == Channels::sharded)
    return tagged(owner).append(queue_).append("work:").append(owner).append(":");
  return std::string(work_).append(owner).append(":");
}

std::optional<std::string_view> StorageLayout::owner_of_index(std::string_view name) const {
  const auto whole = name;
  if (layout_ == RedisLayout::native) {
    const auto tag = head_.size() + tag_size + 3;  // with its braces and the colon
    if (!name.starts_with(head_) || name.size() < tag) return std::nullopt;
    name.remove_prefix(tag);
  }
  if (!name.starts_with(index_)) return std::nullopt;
  name.remove_prefix(index_.size());
  // A name of another prefix that begins with ours has a colon in it, or another tag.
  if (!RecordKey::of(name, {}) || index(name) != whole) return std::nullopt;
  return name;
}

std::optional<std::string> prefix_of_counter(std::string_view name) {
  constexpr std::string_view mark = "fence:";
  for (auto at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
    if (at > 0 && name[at - 1] != ':') continue;
    const auto prefix = name.substr(0, at == 0 ? 0 : at - 1);
    const auto layout = Layout::make(prefix, 0);
    if (layout && name.starts_with(layout->authority_key())) return std::string(prefix);
  }
  return std::nullopt;
}

bool prefixes_nest(std::string_view one, std::string_view other) {
  const auto contains = [](std::string_view outer, std::string_view inner) {
    return outer.empty() || (inner.starts_with(outer) && inner.substr(outer.size()).starts_with(':'));
  };
  return one != other && (contains(one, other) || contains(other, one));
}

std::vector<std::string> outer_prefixes(std::string_view prefix) {
  std::vector<std::string> outer;
  while (!prefix.empty()) {
    const auto colon = prefix.rfind(':');
    prefix = prefix.substr(0, colon == std::string_view::npos ? 0 : colon);
    // A prefix never ends in a colon.
    if (!prefix.ends_with(':')) outer.emplace_back(prefix);
  }
  return outer;
}

}  // namespace holdfast::redis
