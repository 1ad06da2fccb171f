#pragma once

#include <hiredis/read.h>

#include <holdfast/result.hpp>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// Bytes in, replies out: hiredis' reader, which does no I/O. Once it has failed the stream is out of step
/// and must be closed.
class ReplyReader {
 public:
  ReplyReader() : reader_(redisReaderCreate()) {
    if (!reader_) throw std::bad_alloc();
  }

  void feed(std::string_view bytes) {
    if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) out_of_step_ = true;
  }

  /// True if there are bytes that no reply was made of yet.
  [[nodiscard]] bool has_more() const noexcept { return reader_->pos < reader_->len; }

  /// The next whole reply; nothing if more bytes are needed. Internal if the bytes are not Redis' protocol.
  [[nodiscard]] Result<std::optional<Reply>> next() {
    void* reply = nullptr;
    if (!out_of_step_ && redisReaderGetReply(reader_.get(), &reply) == REDIS_OK) {
      if (reply != nullptr) return std::optional(Reply(static_cast<redisReply*>(reply)));
      if (reader_->len - reader_->pos <= longest_reply) return std::optional<Reply>();
    }
    out_of_step_ = true;
    return Error(ErrorCode::Internal, "the server's answer is not Redis' protocol",
                 reader_->err != 0 ? std::string(reader_->errstr) : std::string());
  }

 private:
  /// Far above what any of our commands can be answered with: a server that sends more is not one.
  static constexpr std::size_t longest_reply = std::size_t{256} << 20;

  struct Free {
    void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
  };
  std::unique_ptr<redisReader, Free> reader_;
  bool out_of_step_ = false;
};

}  // namespace holdfast::redis
