#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/loopback.hpp"

namespace holdfast::test {

/// A loopback TCP proxy that misbehaves on demand. Without a fault it passes on bytes, the end of a stream
/// and resets. A fault holds for all connections, present and future, until `forward()`; it is in force when
/// the call returns. Thread-safe.
class TcpProxy {
 public:
  enum class Way : std::uint8_t { to_server, to_client };
  enum class Ending : std::uint8_t { fin, rst };

  explicit TcpProxy(std::uint16_t server_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  /// Where clients connect to.
  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// Ends all faults. What was held is delivered now, even if its sender has gone.
  void forward();
  /// Holds incoming bytes: a delayed request or answer.
  void hold(Way way);
  /// Drops incoming bytes: a black hole in one direction.
  void swallow(Way way);
  void delay(Way way, std::chrono::microseconds by);
  /// One byte at a time, each in a separate packet.
  void drip(Way way);
  /// Lets so many more bytes pass, then ends that connection, both sides. Once.
  void cut_after(Way way, std::size_t bytes, Ending ending = Ending::rst);
  /// Ends all connections now, both sides.
  void cut(Ending ending = Ending::rst);
  /// Sends end of stream that way on all connections; the other way stays open.
  void half_close(Way way);
  /// Existing connections pass on neither bytes nor their end: their peers are not notified. Later ones are
  /// served.
  void silence();
  /// Later connections go to this server.
  void lead_to(std::uint16_t server_port);
  /// Connecting is refused, until `listen_again`. Connections that exist stay.
  void refuse();
  void listen_again();

  /// Connections accepted so far.
  [[nodiscard]] std::size_t accepted();
  /// Bytes that went that way so far, and those that wait in here.
  [[nodiscard]] std::size_t passed(Way way);
  [[nodiscard]] std::size_t held(Way way);

 private:
  struct State;  // the state of the proxy's thread; no other thread uses it
  void order(const std::function<void(State&)>& what);
  template <class T>
  T ask(const std::function<T(State&)>& what);
  void work(State& state);

  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::function<void(State&)>> orders_;
  std::size_t ordered_ = 0;
  std::size_t carried_out_ = 0;
  bool ending_ = false;
  Socket alarm_;
  std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace holdfast::test
