#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::test {

/// A server's answer, read by hiredis from its bytes.
inline redis::Reply reply_of(const std::string& bytes) {
  const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(),
                                                                        &redisReaderFree);
  redisReaderFeed(reader.get(), bytes.data(), bytes.size());
  void* parsed = nullptr;
  if (redisReaderGetReply(reader.get(), &parsed) != REDIS_OK || parsed == nullptr) {
    throw std::runtime_error("not a whole reply");
  }
  return redis::Reply(static_cast<redisReply*>(parsed));
}

/// The bytes of a bulk string.
inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

}  // namespace holdfast::test
