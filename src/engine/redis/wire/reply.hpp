#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace holdfast::redis {

/// One answer of the server, as hiredis' reader makes it.
struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

[[nodiscard]] inline bool is_error(const redisReply& reply) noexcept {
  return reply.type == REDIS_REPLY_ERROR;
}

/// The text of a string, status or error; empty for anything else.
[[nodiscard]] inline std::string_view text_of(const redisReply& reply) noexcept {
  const bool has_text =
      reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS || reply.type == REDIS_REPLY_ERROR;
  return has_text ? std::string_view(reply.str, static_cast<std::size_t>(reply.len)) : std::string_view();
}

[[nodiscard]] inline std::optional<std::int64_t> integer_of(const redisReply& reply) noexcept {
  if (reply.type != REDIS_REPLY_INTEGER) return std::nullopt;
  return reply.integer;
}

/// The elements of an array; none for anything else.
[[nodiscard]] inline std::span<redisReply* const> elements_of(const redisReply& reply) noexcept {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, static_cast<std::size_t>(reply.elements)};
}

}  // namespace holdfast::redis
