#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/result.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct RedisOptions;

enum class Severity : std::uint8_t {
  ok,       ///< checked, and as it should be
  note,     ///< good to know
  warning,  ///< will hurt in a foreseeable case, a crash or a busy day
  problem,  ///< hurts now, or breaks a promise in an ordinary event such as a restart
};
[[nodiscard]] std::string_view to_string(Severity severity) noexcept;

/// One thing that was checked.
struct Finding {
  Severity severity = Severity::ok;
  std::string topic;   ///< one word: connection, persistence, memory, …
  std::string found;   ///< what there is, in plain words
  std::string advice;  ///< what to do about it; empty if there is nothing to do
};

/// Told now and then, during what may take a while, how far it has come.
using Progress = std::function<void(std::string_view)>;

/// Examines what is behind a URL for whatever would hurt the locks there. Takes no lock and leaves nothing
/// behind: what it writes to find out what it may write is deleted, or expires within ten seconds. An Error,
/// as from open(), if the URL is wrong or there is nobody to examine: unreachable, or refusing us.
[[nodiscard]] Result<std::vector<Finding>> examine(std::string_view url, const Progress& progress = {});

/// The same for options.
[[nodiscard]] Result<std::vector<Finding>> examine_redis(const RedisOptions& options,
                                                         const Progress& progress = {});

}  // namespace holdfast
