#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast::cli {

// The log on stderr: lines for people, or with `--log-format json` one JSON object per line, with the fields
// that docs/reference/logs.md lists.

enum class LogFormat : std::uint8_t { text, json };
enum class LogSeverity : std::uint8_t { info, warning, error };

struct LogSettings {
  LogFormat format = LogFormat::text;
  /// Of JSON lines; text has no levels.
  LogSeverity lowest = LogSeverity::info;
  /// --log-keys: keys instead of their hashes in JSON lines.
  bool keys = false;
  /// The command family, for JSON lines.
  std::string command = {};
};

/// To be called before other threads write lines.
void set_log(LogSettings settings);
[[nodiscard]] const LogSettings& log_settings() noexcept;
[[nodiscard]] inline bool logs_json() noexcept {
  return log_settings().format == LogFormat::json;
}

struct LogField {
  std::string_view name;
  std::variant<std::int64_t, std::string> value;
};
using LogFields = std::vector<LogField>;

/// What a line of the log says besides its message.
struct LogDetails {
  std::string_view event = "message";
  LogSeverity level = LogSeverity::info;
  LogFields fields = {};
};

/// Writes a JSON line; nothing if the format is text. `message` may be empty. A line that cannot be written
/// is dropped.
void log_event(const LogDetails& details, std::string_view message = {}) noexcept;

/// The field of a lock's key: `key` with --log-keys, else `key_hash`.
[[nodiscard]] LogField key_field(std::string_view key);
/// A key between double quotes, for a message: printable in text, and in JSON lines its hash unless
/// --log-keys is given.
[[nodiscard]] std::string named_key(std::string_view key);
/// The message of an error that quotes this key, fit for the log.
[[nodiscard]] std::string without_key(std::string message, std::string_view key);

}  // namespace holdfast::cli
