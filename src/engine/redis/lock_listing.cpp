#include "engine/redis/lock_listing.hpp"

#include <algorithm>

#include "core/nfc.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// How many buckets a SCAN step looks at: some tenths of a millisecond of the server's time.
constexpr std::string_view scan_step = "1000";

}  // namespace

LockListing::LockListing(const Layout& layout, const ListRequest& request)
    : layout_(&layout),
      after_(request.cursor),
      limit_(std::clamp<std::size_t>(request.limit, 1, max_list_limit)) {}

Result<LockListing> LockListing::start(const Layout& layout, const ListRequest& request) {
  const auto normalised = core::nfc(request.cursor);
  if (!normalised || *normalised != request.cursor || request.cursor.size() > LockKey::max_bytes) {
    return Error(ErrorCode::InvalidArgument, "the cursor is not one of this listing; start without one");
  }
  return LockListing(layout, request);
}

std::optional<std::string> LockListing::command(By by) const {
  switch (step_) {
    case Step::scanning:
      return Command(
                 {"SCAN", scan_cursor_, "MATCH", layout_->pattern(), "COUNT", scan_step, "TYPE", "string"})
          .bytes();
    case Step::reading:
      return records_command(lock_keys_, by);
    case Step::done:
      return std::nullopt;
  }
  return std::nullopt;
}

Status LockListing::take(const redisReply& reply) {
  if (step_ == Step::scanning) return take_names(reply);
  auto records = records_outcome(reply, *layout_, lock_keys_);
  if (!records) return records.error();
  page_.locks = *std::move(records);
  step_ = Step::done;
  return Ok{};
}

Status LockListing::take_names(const redisReply& reply) {
  if (is_error(reply)) return error_of(reply);
  const auto parts = elements_of(reply);
  if (parts.size() != 2 || parts[0]->type != REDIS_REPLY_STRING || parts[1]->type != REDIS_REPLY_ARRAY) {
    return Error(ErrorCode::Internal, "Redis answered SCAN with something else");
  }
  for (const auto* name : elements_of(*parts[1])) consider(text_of(*name));
  scan_cursor_ = text_of(*parts[0]);
  if (scan_cursor_ != "0") return Ok{};
  for (const auto& name : window_) lock_keys_.push_back(layout_->named(name));
  if (more_) page_.cursor = *window_.rbegin();
  step_ = window_.empty() ? Step::done : Step::reading;
  return Ok{};
}

void LockListing::consider(std::string_view name) {
  const auto tail = layout_->after_prefix(name);
  if (!tail || *tail <= after_ || window_.contains(*tail)) return;
  if (window_.size() == limit_) {
    more_ = true;
    const auto last = std::prev(window_.end());
    if (*tail > *last) return;
    window_.erase(last);
  }
  window_.emplace(*tail);
}

LockPage LockListing::page() && {
  return std::move(page_);
}

}  // namespace holdfast::redis
