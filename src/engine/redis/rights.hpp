#pragma once

#include <array>
#include <cstdint>
#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The two halves of a store. Each has its own prefix, and so its own keys and channels.
enum class Half : std::uint8_t { locks, tasks };
inline constexpr std::array halves{Half::locks, Half::tasks};

/// A right that a user needs.
struct CommandRight {
  enum class On : std::uint8_t { keys, channels, nothing };
  struct Without {
    Severity severity;
    std::string lost;  ///< what does not work, or works worse
  };

  std::string name;  ///< as it is sent: `GET`, `CLIENT SETNAME`
  On on = On::nothing;
  /// By Half: the loss without the right. Empty if that half does not use the command.
  std::array<std::optional<Without>, halves.size()> without = {};

  [[nodiscard]] const std::optional<Without>& in(Half half) const {
    return without[static_cast<std::size_t>(half)];
  }
  /// In both halves together.
  [[nodiscard]] Without in_all() const;
  /// As ACL SETUSER spells it: `get`, `client|setname`.
  [[nodiscard]] std::string acl_name() const;
};

/// Every command that a user of a store with these options needs the right to, by name. Derived from the text
/// of the scripts and from `sent_commands`. `member`: the options are those of one node of a cluster.
[[nodiscard]] std::vector<CommandRight> command_rights(const RedisOptions& options, bool member = false);

/// The loss in a half if the user may use none of these commands there, in one text.
[[nodiscard]] CommandRight::Without without_all(std::span<const CommandRight* const> commands, Half half,
                                                const RedisOptions& options);

}  // namespace holdfast::redis
