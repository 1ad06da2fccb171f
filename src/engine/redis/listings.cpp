#include "engine/redis/listings.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>

#include "core/lock_decisions.hpp"
#include "core/record_request.hpp"
#include "engine/redis/conn/slot.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

constexpr std::string_view beginning = "0";
/// How many buckets a SCAN step visits: some tenths of a millisecond of the server's time.
constexpr std::string_view scan_step = "1000";

std::optional<NameScan::Position> position_in(const ListRequest& request) {
  return NameScan::Position::parse(request.cursor);
}

}  // namespace

std::optional<NameScan::Position> NameScan::Position::parse(std::string_view text) {
  const auto number = [&text](char end) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto used = static_cast<std::size_t>(at - text.data());
    const bool ended = end == '\0' ? used == text.size() : used < text.size() && *at == end;
    if (failed != std::errc() || !ended) return std::nullopt;
    text.remove_prefix(end == '\0' ? used : used + 1);
    return value;
  };
  const auto scanned = number('.');
  const auto connection = scanned ? number('.') : std::nullopt;
  const auto cursor = connection ? number('\0') : std::nullopt;
  if (!cursor) return std::nullopt;
  return Position{.scanned = *scanned, .connection = *connection, .cursor = std::to_string(*cursor)};
}

std::string NameScan::Position::str() const {
  return std::to_string(scanned) + '.' + std::to_string(connection) + '.' + cursor;
}

NameScan::NameScan(What what) : what_(std::move(what)) {
  what_.limit = std::clamp<std::size_t>(what_.limit, 1, what_.most);
  if (!what_.step) return;
  at_ = *what_.step;
  // The cluster may have fewer masters now.
  at_.scanned = std::min(at_.scanned, what_.masters.empty() ? 0 : what_.masters.size() - 1);
}

std::optional<RoutedCommand> NameScan::command() const {
  if (done_) return std::nullopt;
  const auto count = what_.step ? std::to_string(what_.limit) : std::string(scan_step);
  return Command("SCAN", at_.cursor, "MATCH", what_.pattern, "COUNT", count, "TYPE", what_.type).routed();
}

Status NameScan::take(const redisReply& reply, std::uint64_t connection, const NameOf& name_of) {
  if (is_error(reply)) return error_of(reply);
  const auto parts = elements_of(reply);
  if (parts.size() != 2 || parts[0]->type != REDIS_REPLY_STRING || parts[1]->type != REDIS_REPLY_ARRAY) {
    return Error(ErrorCode::Internal, "unexpected reply of Redis to SCAN");
  }
  // The names found so far exist, or existed: only the position of the scan is lost.
  for (const auto* key : elements_of(*parts[1])) {
    if (const auto name = name_of(text_of(*key))) consider(*name);
  }
  const bool goes_on = at_.cursor == beginning || connection == at_.connection;
  at_.connection = connection;
  at_.cursor = goes_on ? text_of(*parts[0]) : beginning;
  if (goes_on && at_.cursor == beginning) done_ = ++at_.scanned >= what_.masters.size();
  if (what_.step) {
    more_ = !done_;
    done_ = true;
  }
  return Ok{};
}

void NameScan::consider(std::string_view name) {
  if (what_.step) {
    window_.emplace(name);
    return;
  }
  if ((what_.after && name <= *what_.after) || window_.contains(name)) return;
  if (window_.size() == what_.limit) {
    more_ = true;
    const auto last = std::prev(window_.end());
    if (name > *last) return;
    window_.erase(last);
  }
  window_.emplace(name);
}

LockListing::LockListing(const LockLayout& layout, const ListRequest& request,
                         std::vector<std::uint32_t> masters)
    : layout_(&layout),
      in_cluster_(!masters.empty()),
      as_found_(request.order == LockOrder::as_found),
      known_(as_found_ ? request.known : nullptr),
      scan_({.pattern = layout.names().pattern(),
             .type = layout.type(),
             .after = as_found_ || request.cursor.empty() ? std::nullopt : std::optional(request.cursor),
             .limit = request.limit,
             .most = max_list_limit,
             .masters = std::move(masters),
             .step = as_found_ ? std::optional(position_in(request).value_or(NameScan::Position()))
                               : std::nullopt}) {}

Result<LockListing> LockListing::start(const LockLayout& layout, const ListRequest& request,
                                       std::vector<std::uint32_t> masters) {
  if (!request.only.empty()) {
    if (auto refused = core::refuse_too_many(request)) return *std::move(refused);
    LockListing listing(layout, {}, std::move(masters));
    std::set<std::string> names;
    for (const auto& key : request.only) {
      // A reserved key has no lock.
      if (auto name = layout.names().lock_key(key)) names.insert(*std::move(name));
    }
    listing.read({names.begin(), names.end()});
    return listing;
  }
  if (request.order == LockOrder::as_found) {
    if (!request.cursor.empty() && !position_in(request)) {
      return Error(ErrorCode::InvalidArgument, "the cursor is not from this list; start without a cursor");
    }
    return LockListing(layout, request, std::move(masters));
  }
  const auto key = request.cursor.empty() ? std::nullopt : std::optional(LockKey::stored(request.cursor));
  if (key && (!*key || (*key)->str() != request.cursor)) {
    return Error(ErrorCode::InvalidArgument, "the cursor is not from this list; start without a cursor");
  }
  return LockListing(layout, request, std::move(masters));
}

std::optional<RoutedCommand> LockListing::command(By by) const {
  switch (step_) {
    case Step::scanning:
      return scan_.command();
    case Step::reading:
      return layout_->records(unread_.back(), by);
    case Step::done:
      return std::nullopt;
  }
  return std::nullopt;
}

Status LockListing::take(const redisReply& reply, std::uint64_t connection) {
  if (step_ == Step::scanning) return take_names(reply, connection);
  auto records = layout_->listed(reply, unread_.back());
  if (!records) return records.error();
  std::ranges::move(*records, std::back_inserter(page_.locks));
  unread_.pop_back();
  if (!unread_.empty()) return Ok{};
  step_ = Step::done;
  // By their names, as the pages are. Those of one command are sorted already.
  if (in_cluster_) {
    std::ranges::sort(page_.locks, {}, [this](const LockRecord& lock) {
      return layout_->names().lock_key(lock.key).value_or_throw();
    });
  }
  return Ok{};
}

Status LockListing::take_names(const redisReply& reply, std::uint64_t connection) {
  const auto name_of = [this](std::string_view key) { return layout_->names().after_prefix(key); };
  if (auto taken = scan_.take(reply, connection, name_of); !taken || !scan_.is_done()) return taken;
  std::vector<std::string> unread;
  for (const auto& name : scan_.names()) {
    // The name of a long key is a hash, which is not a key that a caller knows.
    if (known_ != nullptr && known_->knows(name)) {
      page_.seen.push_back(name);
    } else {
      unread.push_back(layout_->names().named(name));
    }
  }
  if (scan_.more()) page_.cursor = as_found_ ? scan_.position().str() : *scan_.names().rbegin();
  read(std::move(unread));
  return Ok{};
}

void LockListing::read(std::vector<std::string> lock_keys) {
  std::map<std::uint16_t, std::vector<std::string>> together;
  for (auto& lock_key : lock_keys) {
    together[in_cluster_ ? slot_of(lock_key) : 0].push_back(std::move(lock_key));
  }
  for (auto& [slot, names] : together) unread_.push_back(std::move(names));
  step_ = unread_.empty() ? Step::done : Step::reading;
}

LockPage LockListing::page() && {
  return std::move(page_);
}

Result<OwnerListing> OwnerListing::start(const StorageLayout& layout, const ListOwners& request,
                                         std::vector<std::uint32_t> masters) {
  auto after = core::owner_before(request.cursor);
  if (!after) return after.error();
  return OwnerListing(layout, NameScan({.pattern = layout.index_pattern(),
                                        .type = "zset",
                                        .after = *std::move(after),
                                        .limit = request.limit,
                                        .most = max_record_page,
                                        .masters = std::move(masters)}));
}

Status OwnerListing::take(const redisReply& reply, std::uint64_t connection) {
  return scan_.take(reply, connection, [this](std::string_view key) { return layout_->owner_of_index(key); });
}

OwnerPage OwnerListing::page() && {
  const auto& names = scan_.names();
  return {.owners = {names.begin(), names.end()},
          .cursor = scan_.more() ? core::cursor_behind(*names.rbegin()) : std::string()};
}

}  // namespace holdfast::redis
