#include "support/fake_redis.hpp"

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::test {
namespace {

struct FreeReader {
  void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
};

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
  return text;
}

}  // namespace

FakeRedis::FakeRedis(Script script, std::string greeting)
    : script_(std::move(script)),
      greeting_(std::move(greeting)),
      port_(free_loopback_port()),
      listener_(listen_on_loopback(port_)),
      thread_([this] { accept_guests(); }) {}

FakeRedis::~FakeRedis() {
  ::shutdown(listener_.fd(), SHUT_RD);
  thread_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& guest : guests_) {
      if (guest.socket.is_open()) ::shutdown(guest.socket.fd(), SHUT_RDWR);
    }
  }
  for (auto& guest : guests_) guest.thread.join();
}

std::vector<FakeRedis::Words> FakeRedis::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

void FakeRedis::accept_guests() {
  while (true) {
    auto socket = accept_from(listener_);
    if (!socket.is_open()) return;
    ++accepted_;
    const std::lock_guard lock(mutex_);
    auto& guest = guests_.emplace_back();
    guest.socket = std::move(socket);
    guest.thread = std::thread([this, &guest, fd = guest.socket.fd()] {
      const auto ending = serve(fd);
      const std::lock_guard goodbye(mutex_);
      if (ending == Then::reset) {
        guest.socket.reset();
      } else {
        guest.socket.close();
      }
    });
  }
}

FakeRedis::Then FakeRedis::serve(int socket) {
  const auto say = [&](const std::string& bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  };
  if (!say(greeting_)) return Then::close;
  // A command is an array of strings, which is a reply like any other to hiredis.
  const std::unique_ptr<redisReader, FreeReader> reader(redisReaderCreate());
  std::array<char, 16384> buffer{};
  while (true) {
    const auto n = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (n <= 0) return Then::close;
    redisReaderFeed(reader.get(), buffer.data(), static_cast<std::size_t>(n));
    void* parsed = nullptr;
    while (redisReaderGetReply(reader.get(), &parsed) == REDIS_OK && parsed != nullptr) {
      const redis::Reply command(static_cast<redisReply*>(parsed));
      Words words;
      for (const auto* element : redis::elements_of(*command)) words.emplace_back(redis::text_of(*element));
      {
        const std::lock_guard lock(mutex_);
        heard_.push_back(words);
      }
      const auto answer = script_(words);
      const bool said = say(answer.bytes);
      if (answer.then != Then::go_on) return answer.then;
      if (!said) return Then::close;
    }
  }
}

FakeRedis::Answer FakeRedis::politely(const Words& command) {
  const auto name = command.empty() ? "" : upper(command.front());
  if (name == "PING") return {"+PONG\r\n"};
  if (name == "TIME") return {"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"};
  if (name == "INFO") return {bulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n")};
  if (name == "GET") return {"$-1\r\n"};
  return {"+OK\r\n"};
}

std::string FakeRedis::bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

}  // namespace holdfast::test
