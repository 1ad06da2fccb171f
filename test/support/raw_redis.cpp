#include "support/raw_redis.hpp"

#include <sstream>
#include <stdexcept>

namespace holdfast::test {
namespace {

/// No command of a test takes that long; a test that fails is more useful than one that hangs.
constexpr timeval connect_timeout{.tv_sec = 30, .tv_usec = 0};

std::string describe(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) return "(nil)";
  if (const auto number = redis::integer_of(reply)) return std::to_string(*number);
  if (reply.type != REDIS_REPLY_ARRAY) return std::string(redis::text_of(reply));
  std::string lines;
  for (const auto* element : redis::elements_of(reply)) {
    lines += (lines.empty() ? "" : "\n") + describe(*element);
  }
  return lines;
}

}  // namespace

RawRedis::RawRedis(const RedisOptions& where) {
  if (where.tls) throw std::runtime_error("RawRedis speaks no TLS");
  context_.reset(where.unix_socket.empty()
                     ? redisConnectWithTimeout(where.host.c_str(), where.port, connect_timeout)
                     : redisConnectUnixWithTimeout(where.unix_socket.c_str(), connect_timeout));
  if (context_ == nullptr || context_->err != 0) fail("cannot connect");
  redisSetTimeout(context_.get(), connect_timeout);
  if (!where.password.empty()) {
    text(where.user.empty() ? std::vector<std::string>{"AUTH", where.password}
                            : std::vector<std::string>{"AUTH", where.user, where.password});
  }
  if (where.db != 0) text({"SELECT", std::to_string(where.db)});
}

void RawRedis::send(const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const auto& argument : arguments) {
    pointers.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  if (redisAppendCommandArgv(context_.get(), static_cast<int>(arguments.size()), pointers.data(),
                             lengths.data()) != REDIS_OK) {
    fail("cannot send");
  }
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) fail("cannot send");
  }
}

redis::Reply RawRedis::receive() {
  void* reply = nullptr;
  if (redisGetReply(context_.get(), &reply) != REDIS_OK) fail("no answer");
  return redis::Reply(static_cast<redisReply*>(reply));
}

redis::Reply RawRedis::command(const std::vector<std::string>& arguments) {
  send(arguments);
  return receive();
}

std::string RawRedis::text(const std::vector<std::string>& arguments) {
  const auto reply = command(arguments);
  if (redis::is_error(*reply)) {
    throw std::runtime_error(arguments.front() + ": " + std::string(redis::text_of(*reply)));
  }
  return describe(*reply);
}

std::int64_t RawRedis::integer(const std::vector<std::string>& arguments) {
  return std::stoll(text(arguments));
}

std::int64_t RawRedis::now_ms() {
  std::istringstream time(text({"TIME"}));
  std::int64_t seconds = 0, microseconds = 0;
  time >> seconds >> microseconds;
  return seconds * 1000 + microseconds / 1000;
}

void RawRedis::fail(const std::string& what) const {
  throw std::runtime_error(what + ": " + (context_ == nullptr ? "out of memory" : context_->errstr));
}

}  // namespace holdfast::test
