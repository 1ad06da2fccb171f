#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/export.hpp>
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
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(Severity severity) noexcept;

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
[[nodiscard]] HOLDFAST_EXPORT Result<std::vector<Finding>> examine(std::string_view url,
                                                                   const Progress& progress = {});

/// The same for options.
[[nodiscard]] HOLDFAST_EXPORT Result<std::vector<Finding>> examine_redis(const RedisOptions& options,
                                                                         const Progress& progress = {});

/// What the ACL of a Redis user must allow for every operation of locks and tasks, and nothing more.
struct HOLDFAST_EXPORT RedisAcl {
  struct Command {
    std::string name;     ///< as ACL SETUSER spells it: `get`, `client|setname`
    Severity severity;    ///< of not having it: a problem, or less for what is only nice to have
    std::string without;  ///< what does not work, or works worse, without it
  };
  std::string user;                   ///< the URL's; `USER` where it names none
  std::vector<std::string> keys;      ///< patterns: of locks, then of tasks
  std::vector<std::string> channels;  ///< the same
  std::vector<Command> commands;      ///< in alphabetical order

  /// `ACL SETUSER …`, quoted so that redis-cli and a shell both take it. It replaces what the user was
  /// allowed before, and leaves its passwords alone, and whether it is on.
  [[nodiscard]] std::string line() const;
};

/// The ACL for the user, the database and the prefixes of these options. It is derived from the scripts and
/// commands of this build; no server is asked. InvalidArgument for what open() would refuse, and for a user
/// whose name no ACL can have.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisAcl> redis_acl(const RedisOptions& options);

/// The same for a URL. InvalidArgument if it is not one of a Redis.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisAcl> redis_acl(std::string_view url);

}  // namespace holdfast
