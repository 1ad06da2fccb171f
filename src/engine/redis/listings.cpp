#include "engine/redis/listings.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "core/record_request.hpp"
#include "engine/redis/conn/slot.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

constexpr std::string_view beginning = "0";
/// How many buckets a SCAN step visits: some tenths of a millisecond of the server's time.
constexpr std::string_view scan_step = "1000";

}  // namespace

NameScan::NameScan(What what) : what_(std::move(what)) {
  what_.limit = std::clamp<std::size_t>(what_.limit, 1, what_.most);
}

std::optional<RoutedCommand> NameScan::command() const {
  if (done_) return std::nullopt;
  return Command("SCAN", cursor_, "MATCH", what_.pattern, "COUNT", scan_step, "TYPE", what_.type).routed();
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
  const bool goes_on = cursor_ == beginning || connection == connection_;
  connection_ = connection;
  cursor_ = goes_on ? text_of(*parts[0]) : beginning;
  if (goes_on && cursor_ == beginning) done_ = ++scanned_ >= what_.masters.size();
  return Ok{};
}

void NameScan::consider(std::string_view name) {
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
      scan_({.pattern = layout.names().pattern(),
             .type = layout.type(),
             .after = request.cursor.empty() ? std::nullopt : std::optional(request.cursor),
             .limit = request.limit,
             .most = max_list_limit,
             .masters = std::move(masters)}) {}

Result<LockListing> LockListing::start(const LockLayout& layout, const ListRequest& request,
                                       std::vector<std::uint32_t> masters) {
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
  std::map<std::uint16_t, std::vector<std::string>> together;
  for (const auto& name : scan_.names()) {
    auto lock_key = layout_->names().named(name);
    together[in_cluster_ ? slot_of(lock_key) : 0].push_back(std::move(lock_key));
  }
  for (auto& [slot, lock_keys] : together) unread_.push_back(std::move(lock_keys));
  if (scan_.more()) page_.cursor = *scan_.names().rbegin();
  step_ = unread_.empty() ? Step::done : Step::reading;
  return Ok{};
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
