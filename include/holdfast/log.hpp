#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/export.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast {

/// How important a log message is.
enum class LogLevel : std::uint8_t {
  debug,    ///< details for diagnosis, such as a release that failed in the background
  warning,  ///< needs attention before it becomes an error
  error     ///< a failure that needs attention now
};
/// Returns "debug", "warning" or "error". The view is valid forever.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(LogLevel level) noexcept;

/// A function that receives log messages. The view is valid only during the call.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// The destination of messages that no call can return: a failed release in a destructor, a fence counter
/// near its limit. Messages contain neither keys nor lock ids.
///
/// The sink runs on a separate thread, with one message at a time; it may block or throw without disturbing
/// an operation. At most 1000 messages wait for it; further ones are dropped, and their number is reported
/// before the next message. Thread-safe. In a forked child, messages are discarded.
///
/// @code
/// hf.log().set_sink([](holdfast::LogLevel level, std::string_view message) {
///   std::clog << to_string(level) << ": " << message << '\n';
/// });
/// @endcode
class HOLDFAST_EXPORT Log {
 public:
  /// Creates a log that writes to stderr; see set_sink(). Its thread is started by the first message.
  Log();
  /// Waits until the sink has received all messages, unless it runs on a thread of the library.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Replaces the sink; messages that still wait go to the new one. The default sink writes one line to
  /// stderr for each warning and error, and for debug messages only in debug builds or with HOLDFAST_DEBUG=1.
  /// The old sink may still be running when this returns.
  void set_sink(LogSink sink);
  /// Queues a message for the sink. Never blocks on the sink; drops the message if too many wait.
  void write(LogLevel level, std::string message) noexcept;
  /// Waits until the sink has received everything that was written before. On a thread of the library, such
  /// as that of the sink, it returns without waiting.
  void flush();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
