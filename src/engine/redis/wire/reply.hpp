#pragma once

#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include <algorithm>
#include <cstdint>
#include <holdfast/result.hpp>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// One reply of the server, as hiredis' reader builds it.
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

/// Parses bytes into replies: hiredis' reader, which does no I/O. After a failure the stream is out of sync
/// and must be closed.
class ReplyReader {
 public:
  ReplyReader() : reader_(redisReaderCreate()) {
    if (!reader_) throw std::bad_alloc();
    // hiredis allocates an array as large as its header says, before an element has come.
    static redisReplyObjectFunctions* const usual = reader_->fn;
    static redisReplyObjectFunctions bounded = [] {
      auto functions = *usual;
      functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
        if (static_cast<std::int64_t>(elements) > most_elements) return nullptr;
        return usual->createArray(task, elements);
      };
      return functions;
    }();
    reader_->fn = &bounded;
  }

  void feed(std::string_view bytes) {
    if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) out_of_step_ = true;
  }

  /// True if there are unparsed bytes.
  [[nodiscard]] bool has_more() const noexcept { return reader_->pos < reader_->len; }

  /// The next whole reply; empty if more bytes are needed. Internal if the bytes are not Redis' protocol.
  [[nodiscard]] Result<std::optional<Reply>> next() {
    void* reply = nullptr;
    if (!out_of_step_ && redisReaderGetReply(reader_.get(), &reply) == REDIS_OK) {
      if (reply != nullptr) return std::optional(Reply(static_cast<redisReply*>(reply)));
      if (reader_->len - reader_->pos <= longest_reply) return std::optional<Reply>();
    }
    out_of_step_ = true;
    return Error(ErrorCode::Internal, "the server's reply is not in the Redis protocol",
                 reader_->err != 0 ? std::string(reader_->errstr) : std::string());
  }

 private:
  /// Far above the longest reply to any of our commands: a peer that sends more is not Redis.
  static constexpr std::size_t longest_reply = std::size_t{256} << 20;
  static constexpr std::int64_t most_elements = 1'000'000;

  struct Free {
    void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
  };
  std::unique_ptr<redisReader, Free> reader_;
  bool out_of_step_ = false;
};

/// Whether one of these flags, separated by commas, is this one: of SENTINEL MASTER and CLUSTER NODES.
[[nodiscard]] inline bool has_flag(std::string_view flags, std::string_view flag) {
  while (!flags.empty()) {
    const auto one = flags.substr(0, flags.find(','));
    if (one == flag) return true;
    flags.remove_prefix(std::min(flags.size(), one.size() + 1));
  }
  return false;
}

}  // namespace holdfast::redis
