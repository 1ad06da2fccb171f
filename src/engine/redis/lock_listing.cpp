#include "engine/redis/lock_listing.hpp"

namespace holdfast::redis {

LockListing::LockListing(const Layout& layout, const ListRequest& request)
    : layout_(&layout),
      scan_({.pattern = layout.pattern(),
             .type = "string",
             .after = request.cursor.empty() ? std::nullopt : std::optional(request.cursor),
             .limit = request.limit,
             .most = max_list_limit}) {}

Result<LockListing> LockListing::start(const Layout& layout, const ListRequest& request) {
  const auto key = request.cursor.empty() ? std::nullopt : std::optional(LockKey::stored(request.cursor));
  if (key && (!*key || (*key)->str() != request.cursor)) {
    return Error(ErrorCode::InvalidArgument, "the cursor is not one of this listing; start without one");
  }
  return LockListing(layout, request);
}

std::optional<std::string> LockListing::command(By by) const {
  switch (step_) {
    case Step::scanning:
      return scan_.command();
    case Step::reading:
      return records_command(lock_keys_, by);
    case Step::done:
      return std::nullopt;
  }
  return std::nullopt;
}

Status LockListing::take(const redisReply& reply, std::uint64_t connection) {
  if (step_ == Step::scanning) return take_names(reply, connection);
  auto records = records_outcome(reply, *layout_, lock_keys_);
  if (!records) return records.error();
  page_.locks = *std::move(records);
  step_ = Step::done;
  return Ok{};
}

Status LockListing::take_names(const redisReply& reply, std::uint64_t connection) {
  const auto name_of = [this](std::string_view key) { return layout_->after_prefix(key); };
  if (auto taken = scan_.take(reply, connection, name_of); !taken || !scan_.is_done()) return taken;
  for (const auto& name : scan_.names()) lock_keys_.push_back(layout_->named(name));
  if (scan_.more()) page_.cursor = *scan_.names().rbegin();
  step_ = lock_keys_.empty() ? Step::done : Step::reading;
  return Ok{};
}

LockPage LockListing::page() && {
  return std::move(page_);
}

}  // namespace holdfast::redis
