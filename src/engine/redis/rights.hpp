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

/// A right that a user needs, and whether this user has it.
struct Right {
  enum class Missing : std::uint8_t {
    none,
    command,  ///< may not run it
    key,      ///< may not use a key of the prefix with it
    channel,  ///< may not use a channel of the prefix with it
  };
  std::string command;                      ///< as CommandRight names it
  std::optional<Half> half = std::nullopt;  ///< whose keys or channels it was tried on
  Missing missing = Missing::none;
  /// The server's error, if it was not about rights.
  std::string failure = {};

  [[nodiscard]] bool is_there() const noexcept { return missing == Missing::none && failure.empty(); }
};

/// A right that the user at the sentinels needs.
struct SentinelRight {
  std::string_view command;  ///< as it is sent
  Severity severity;
  std::string_view lost;  ///< what does not work, or works worse, without it
};
/// Every one, by name.
[[nodiscard]] std::span<const SentinelRight> sentinel_rights() noexcept;

/// A command as ACL SETUSER spells it: `get`, `client|setname`.
[[nodiscard]] std::string acl_name_of(std::string_view command);

/// Every command that a user of a store with these options needs the right to, by name. Derived from the text
/// of the scripts and from `sent_commands`. `member`: the options are those of one node of a cluster.
[[nodiscard]] std::vector<CommandRight> command_rights(const RedisOptions& options, bool member = false);

/// The loss in a half if the user may use none of these commands there, in one text.
[[nodiscard]] CommandRight::Without without_all(std::span<const CommandRight* const> commands, Half half,
                                                const RedisOptions& options);

}  // namespace holdfast::redis
