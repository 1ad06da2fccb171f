#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/loopback.hpp"

namespace holdfast::test {

/// A server on loopback that breaks the protocol on purpose. It parses commands like Redis, and answers each
/// with the bytes that its script returns, however wrong they are.
class FakeRedis {
 public:
  using Words = std::vector<std::string>;
  enum class Then : std::uint8_t { go_on, close, reset };
  struct Answer {
    std::string bytes;  ///< as they are; empty: no answer
    Then then = Then::go_on;
  };
  /// Called for each command that came, from the thread of its connection: guard what it shares.
  using Script = std::function<Answer(const Words& command)>;

  /// `greeting` is sent to every client on connect, before its first command.
  explicit FakeRedis(Script script, std::string greeting = {});
  ~FakeRedis();
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t accepted() const { return accepted_; }
  /// The commands that came so far, of all connections.
  [[nodiscard]] std::vector<Words> heard() const;

  /// The answers of a healthy server to the commands that open a connection, and +OK to any other. A script
  /// can use it for the commands that it does not handle.
  [[nodiscard]] static Answer politely(const Words& command);
  [[nodiscard]] static std::string bulk(const std::string& text);

 private:
  struct Guest {
    Socket socket;
    std::thread thread;
  };
  void accept_guests();
  /// Until its client or the script ends it; how it shall end.
  [[nodiscard]] Then serve(int socket);

  Script script_;
  std::string greeting_;
  std::uint16_t port_ = 0;
  Socket listener_;
  std::atomic<std::size_t> accepted_{0};
  mutable std::mutex mutex_;
  std::vector<Words> heard_;
  std::list<Guest> guests_;
  std::thread thread_;
};

}  // namespace holdfast::test
