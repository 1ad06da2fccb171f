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

/// How serious a finding is, in ascending order.
enum class Severity : std::uint8_t {
  ok,       ///< checked, without a problem
  note,     ///< useful information
  warning,  ///< will cause a problem in a foreseeable case, such as a crash or high load
  problem,  ///< causes a problem now, or breaks a promise in an ordinary event such as a restart
};
/// Returns the name of the enumerator, such as "warning". The text is static.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(Severity severity) noexcept;

/// The result of one check.
struct Finding {
  Severity severity = Severity::ok;  ///< how serious it is
  std::string topic;                 ///< a short name: connection, persistence, memory, …
  std::string found;                 ///< what was found, as a text for people
  std::string advice;                ///< what to do about it; empty if nothing needs to be done
};

/// Receives a short text about the progress of a long check, now and then, on the thread that called
/// examine().
using Progress = std::function<void(std::string_view)>;

/// Checks the store of a URL for problems, as `holdfast doctor` does.
///
/// Acquires no lock and leaves nothing behind: the values that it writes to check permissions are deleted, or
/// expire within ten seconds. Blocks; on a large Redis database it scans keys for about ten seconds at most.
///
/// Fails as open() does if the URL is invalid, or if the store cannot be reached or rejects this process.
///
/// @code
/// for (const auto& finding : holdfast::examine("redis://cache.internal").value_or_throw()) {
///   std::cout << to_string(finding.severity) << ' ' << finding.topic << ": " << finding.found << '\n';
/// }
/// @endcode
[[nodiscard]] HOLDFAST_EXPORT Result<std::vector<Finding>> examine(std::string_view url,
                                                                   const Progress& progress = {});

/// Checks the Redis of these options for problems: see examine().
[[nodiscard]] HOLDFAST_EXPORT Result<std::vector<Finding>> examine_redis(const RedisOptions& options,
                                                                         const Progress& progress = {});

/// The rights that the ACL of a Redis user must grant for all operations of locks and tasks, and no others.
struct HOLDFAST_EXPORT RedisAcl {
  /// A command that the user must be allowed to call.
  struct Command {
    std::string name;     ///< as ACL SETUSER spells it: `get`, `client|setname`
    Severity severity;    ///< of its absence: `problem`, or less if the command is optional
    std::string without;  ///< what does not work, or works worse, without it
  };
  std::string user;                   ///< the user of the options; `USER` if they contain none
  std::vector<std::string> keys;      ///< key patterns: of locks, then of tasks
  std::vector<std::string> channels;  ///< channel patterns: of locks, then of tasks
  std::vector<Command> commands;      ///< in alphabetical order

  /// Returns the command `ACL SETUSER …`, quoted so that both redis-cli and a shell accept it.
  ///
  /// The command replaces all rights that the user had. It changes neither the passwords of the user nor
  /// whether the user is enabled.
  [[nodiscard]] std::string line() const;
};

/// Returns the ACL for the user, the database and the prefixes of these options.
///
/// It is derived from the scripts and commands of this build; no server is contacted. InvalidArgument for
/// prefixes that open() would refuse, and for a user name that an ACL cannot contain.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisAcl> redis_acl(const RedisOptions& options);

/// Returns the ACL for the user at the sentinels of these options (`sentinel_user`): without keys, with the
/// channels of failovers. Sentinels have users of their own, which are not those of the master.
///
/// No sentinel is contacted. InvalidArgument if the options name no sentinels, and for a user name that an
/// ACL cannot contain.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisAcl> redis_sentinel_acl(const RedisOptions& options);

/// Returns the ACL for a Redis URL. Fails as parse_redis_url() does; InvalidArgument also for a URL of
/// another engine.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisAcl> redis_acl(std::string_view url);

}  // namespace holdfast
