#include "engine/redis/name_scan.hpp"

#include <algorithm>

#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

constexpr std::string_view beginning = "0";
/// How many buckets a SCAN step looks at: some tenths of a millisecond of the server's time.
constexpr std::string_view scan_step = "1000";

}  // namespace

NameScan::NameScan(What what) : what_(std::move(what)) {
  what_.limit = std::clamp<std::size_t>(what_.limit, 1, what_.most);
}

std::optional<std::string> NameScan::command() const {
  if (done_) return std::nullopt;
  return Command("SCAN", cursor_, "MATCH", what_.pattern, "COUNT", scan_step, "TYPE", what_.type).bytes();
}

Status NameScan::take(const redisReply& reply, std::uint64_t connection, const NameOf& name_of) {
  if (is_error(reply)) return error_of(reply);
  const auto parts = elements_of(reply);
  if (parts.size() != 2 || parts[0]->type != REDIS_REPLY_STRING || parts[1]->type != REDIS_REPLY_ARRAY) {
    return Error(ErrorCode::Internal, "Redis answered SCAN with something else");
  }
  // What was found, here and before, is there, or was: only the way through the rest is lost.
  for (const auto* key : elements_of(*parts[1])) {
    if (const auto name = name_of(text_of(*key))) consider(*name);
  }
  const bool goes_on = cursor_ == beginning || connection == connection_;
  connection_ = connection;
  cursor_ = goes_on ? text_of(*parts[0]) : beginning;
  done_ = goes_on && cursor_ == beginning;
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

}  // namespace holdfast::redis
