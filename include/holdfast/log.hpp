#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/export.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast {

enum class LogLevel : std::uint8_t { debug, warning, error };
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(LogLevel level) noexcept;

using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Where the library says what it cannot return: a failed release in a destructor, a fence counter near its
/// end. Messages carry neither keys nor lock ids. The sink runs on a thread of its own, one message after
/// another; it may block or throw without disturbing an operation. When it falls far behind, further
/// messages are dropped and their number is told in the next. Thread-safe.
class HOLDFAST_EXPORT Log {
 public:
  Log();
  /// Waits until the sink has seen what was written, unless it ends on a thread of the library.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Default: one line on stderr for warnings and errors; debug messages only in debug builds or with
  /// HOLDFAST_DEBUG=1.
  void set_sink(LogSink sink);
  void write(LogLevel level, std::string message) noexcept;
  /// Waits until everything written before has reached the sink.
  void flush();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
