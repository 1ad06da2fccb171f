#include "terminal/log.hpp"

#include <holdfast/lock_types.hpp>
#include <nlohmann/json.hpp>

#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

LogSettings& current_log() noexcept {
  static LogSettings settings;
  return settings;
}

std::string_view name_of(LogSeverity level) noexcept {
  switch (level) {
    case LogSeverity::info:
      return "info";
    case LogSeverity::warning:
      return "warning";
    case LogSeverity::error:
      return "error";
  }
  return "error";
}

/// A key that is not valid is hashed as nothing else could be: it is in no store.
std::string hash_of_key(std::string_view key) {
  const auto parsed = LockKey::parse(key);
  return parsed ? key_hash(parsed->str()) : "invalid";
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

void set_log(LogSettings settings) {
  current_log() = std::move(settings);
}

const LogSettings& log_settings() noexcept {
  return current_log();
}

void log_event(const LogDetails& details, std::string_view message) noexcept {
  const auto& settings = log_settings();
  if (settings.format != LogFormat::json || details.level < settings.lowest) return;
  try {
    nlohmann::ordered_json line{
        {"time", iso_time(wall_clock())}, {"level", name_of(details.level)}, {"event", details.event}};
    if (!settings.command.empty()) line["command"] = settings.command;
    for (const auto& [name, value] : details.fields) {
      std::visit([&line, field = std::string(name)](const auto& one) { line[field] = one; }, value);
    }
    if (!message.empty()) line["message"] = message;
    write_json_line(line);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a line; the work goes on
  }
}

LogField key_field(std::string_view key) {
  if (log_settings().keys) return {.name = "key", .value = std::string(key)};
  return {.name = "key_hash", .value = hash_of_key(key)};
}

std::string named_key(std::string_view key) {
  return logs_json() && !log_settings().keys ? '"' + hash_of_key(key) + '"' : quote(key);
}

std::string without_key(std::string message, std::string_view key) {
  if (!logs_json() || log_settings().keys || key.empty()) return message;
  const auto hash = named_key(key);
  replace_all(message, quote(key), hash);
  replace_all(message, '"' + std::string(key) + '"', hash);
  return message;
}

}  // namespace holdfast::cli
