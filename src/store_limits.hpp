#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/duration.hpp>
#include <holdfast/queue_types.hpp>
#include <holdfast/result.hpp>
#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/percent.hpp"
#include "url.hpp"

namespace holdfast {

/// A limit of tasks or queues, as it is named in a URL (task_quota) and in the environment
/// (HOLDFAST_TASK_QUOTA).
struct LimitSetting {
  std::string_view name;
  /// Empty if the text is accepted, else what it must be.
  std::string (*apply)(QueueOptions& options, std::string_view text);
};

namespace limits {

inline constexpr std::size_t most_tasks = 1'000'000'000;
/// Of a whole record: no part of it can be larger.
inline constexpr std::size_t most_bytes = RecordData::max_bytes;
/// pmcp-tasks cannot read a record that is nested much deeper.
inline constexpr std::size_t deepest = 100;

inline std::string set_count(std::size_t& into, std::string_view text, std::size_t lowest,
                             std::size_t highest) {
  const auto value = core::whole_number<std::size_t>(text);
  if (!value || *value < lowest || *value > highest) {
    return "must be a number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  }
  into = *value;
  return {};
}

inline std::string set_length(std::chrono::milliseconds& into, std::string_view text,
                              std::chrono::milliseconds lowest) {
  const auto length = parse_duration(text);
  if (!length) return length.error().message();
  if (*length < lowest) return "must be more than zero";
  into = *length;
  return {};
}

}  // namespace limits

inline constexpr std::string_view default_ttl_setting = "task_default_ttl";

inline constexpr std::array limit_settings{
    LimitSetting{"task_quota",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_count(options.tasks.max_tasks_per_owner, text, 0, limits::most_tasks);
                 }},
    LimitSetting{"task_max_ttl",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_length(options.tasks.max_ttl, text, std::chrono::milliseconds(1));
                 }},
    LimitSetting{default_ttl_setting,
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_length(options.tasks.default_ttl, text, std::chrono::milliseconds(1));
                 }},
    LimitSetting{"task_max_variables",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_count(options.tasks.max_variables_bytes, text, 1, limits::most_bytes);
                 }},
    LimitSetting{"task_max_string",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_count(options.tasks.max_string_bytes, text, 1, limits::most_bytes);
                 }},
    LimitSetting{"task_max_depth",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_count(options.tasks.max_variable_depth, text, 0, limits::deepest);
                 }},
    LimitSetting{"task_poll_interval",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_length(options.tasks.poll_interval, text, std::chrono::milliseconds(0));
                 }},
    LimitSetting{"queue_max_tasks",
                 [](QueueOptions& options, std::string_view text) {
                   return limits::set_count(options.max_tasks, text, 0, limits::most_tasks);
                 }},
};

/// A URL without its limits, and the limits, in the order in which they stand there.
struct LimitedUrl {
  std::string url;
  std::vector<std::pair<std::string, std::string>> limits = {};

  /// The value of this limit; empty if it is not there.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const {
    const auto found = std::ranges::find(limits, name, [](const auto& limit) { return limit.first; });
    return found == limits.end() ? std::nullopt : std::optional(found->second);
  }
};

namespace limits {

/// The setting of a parameter `NAME=VALUE`; null if it is another parameter.
inline const LimitSetting* setting_of(std::string_view parameter) {
  const auto name = parameter.substr(0, parameter.find('='));
  const auto* const found = std::ranges::find(limit_settings, name, &LimitSetting::name);
  return found == limit_settings.end() || name.size() == parameter.size() ? nullptr : found;
}

/// Where the parameters of a URL begin: its question mark, or npos. Only of Redis URLs may every question
/// mark begin them: the name of a file may contain one.
inline std::size_t parameters_of(std::string_view url) {
  if (engine_of(url) == EngineKind::redis) return url.find('?');
  auto at = url.rfind('?');
  while (at != std::string_view::npos) {
    const auto first = url.substr(at + 1);
    if (first.starts_with("holder=") || setting_of(first) != nullptr) return at;
    if (at == 0) break;
    at = url.rfind('?', at - 1);
  }
  return std::string_view::npos;
}

}  // namespace limits

/// Takes the limits out of a URL of any engine, and leaves its other parameters.
[[nodiscard]] inline Result<LimitedUrl> split_limits(std::string_view url) {
  const auto refuse = [](const std::string& why) {
    return Error(ErrorCode::InvalidArgument, "cannot use this URL: " + why);
  };
  LimitedUrl split{.url = std::string(url)};
  const auto at = limits::parameters_of(url);
  if (at == std::string_view::npos) return split;
  std::string others;
  for (auto rest = url.substr(at + 1);;) {
    const auto end = rest.find('&');
    const auto parameter = rest.substr(0, end);
    if (const auto* setting = limits::setting_of(parameter)) {
      const std::string name(setting->name);
      auto value = core::percent_decoded(parameter.substr(name.size() + 1));
      if (!value) return refuse(name + ": % must be followed by two hex digits; write a plain % as %25");
      if (split.find(name)) return refuse(name + " is given twice");
      split.limits.emplace_back(name, *std::move(value));
    } else {
      others.append(others.empty() ? "" : "&").append(parameter);
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (split.limits.empty()) return split;
  const bool other_is_known = engine_of(url) == EngineKind::redis || others.starts_with("holder=");
  if (!others.empty() && !other_is_known) {
    return refuse("it has an unknown parameter; holder and the limits of tasks and queues are known here");
  }
  split.url = std::string(url.substr(0, at));
  if (!others.empty()) split.url.append("?").append(others);
  return split;
}

/// Adds the limits to a URL that has none.
inline void append_limits(std::string& url, const LimitedUrl& from) {
  for (const auto& [name, value] : from.limits) {
    url += limits::parameters_of(url) == std::string_view::npos ? '?' : '&';
    url.append(name).append("=").append(core::percent_encoded(value));
  }
}

/// The limits of a store: each from its URL, else from the environment, else the default. `environment`
/// returns the value of a variable, empty if it is not set. InvalidArgument names the setting.
[[nodiscard]] inline Result<QueueOptions> limits_of(
    const LimitedUrl& url, const std::function<std::string(const std::string& name)>& environment) {
  QueueOptions options;
  bool has_default_ttl = false;
  for (const auto& setting : limit_settings) {
    std::string source(setting.name);
    auto value = url.find(setting.name).value_or("");
    if (!url.find(setting.name)) {
      source = "HOLDFAST_";
      for (const char c : setting.name) source += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      value = environment(source);
      if (value.empty()) continue;
    }
    if (const auto wrong = setting.apply(options, value); !wrong.empty()) {
      return Error(ErrorCode::InvalidArgument, source.append(" ").append(wrong));
    }
    has_default_ttl = has_default_ttl || setting.name == default_ttl_setting;
  }
  auto& tasks = options.tasks;
  if (tasks.default_ttl > tasks.max_ttl) {
    if (has_default_ttl) {
      return Error(ErrorCode::InvalidArgument,
                   "task_default_ttl is longer than task_max_ttl, " + duration_text(tasks.max_ttl));
    }
    tasks.default_ttl = tasks.max_ttl;
  }
  return options;
}

}  // namespace holdfast
