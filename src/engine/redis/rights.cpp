#include "engine/redis/rights.hpp"

#include <algorithm>
#include <holdfast/redis.hpp>
#include <map>

#include "embedded/scripts.hpp"
#include "engine/redis/conn/key_tracking.hpp"
#include "engine/redis/conn/master_watch.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/wire/command.hpp"

namespace holdfast {
namespace redis {
namespace {

using embedded::script_purposes;
using embedded::ScriptPurpose;

constexpr Half half_of(const ScriptPurpose& purpose) {
  return purpose.half == "tasks" ? Half::tasks : Half::locks;
}

/// Whether a store of this layout uses the script.
constexpr bool is_used(const ScriptPurpose& purpose, RedisLayout layout) {
  const bool is_native = purpose.script.starts_with("native_");
  return half_of(purpose) == Half::tasks || is_native == (layout == RedisLayout::native);
}

/// A command that a half can do without, and what is lost then: scripts of that half call it only by
/// redis.pcall, or C++ code tolerates the refusal.
struct OptionalCommand {
  std::string_view command;
  Half half;
  Severity severity;
  std::string_view lost;
};
constexpr std::string_view unnamed = "connections have no name in CLIENT LIST";
constexpr std::string_view loading = "a server that is still loading is detected late";
constexpr std::string_view piles_up = "subscriptions accumulate";
constexpr std::string_view grants_late = "a live view has to search for new locks, so it shows them later";
constexpr std::string_view unseen = "the doctor can check less of the server";
constexpr std::array optional_commands{
    OptionalCommand{"PUBLISH", Half::locks, Severity::warning, "a release wakes no waiter; waiters poll"},
    OptionalCommand{"PUBLISH", Half::tasks, Severity::warning,
                    "a changed task wakes no waiter; waiters poll"},
    OptionalCommand{"SPUBLISH", Half::locks, Severity::warning, "a release wakes no waiter; waiters poll"},
    OptionalCommand{"SPUBLISH", Half::tasks, Severity::warning,
                    "a changed task wakes no waiter; waiters poll"},
    OptionalCommand{"SUBSCRIBE", Half::locks, Severity::warning, "waiters for a lock poll"},
    OptionalCommand{"SUBSCRIBE", Half::tasks, Severity::warning, "waiters for a task poll"},
    OptionalCommand{"SSUBSCRIBE", Half::locks, Severity::warning, "waiters for a lock poll"},
    OptionalCommand{"SSUBSCRIBE", Half::tasks, Severity::warning, "waiters for a task poll"},
    OptionalCommand{"SUNSUBSCRIBE", Half::locks, Severity::warning, piles_up},
    OptionalCommand{"SUNSUBSCRIBE", Half::tasks, Severity::warning, piles_up},
    OptionalCommand{"PSUBSCRIBE", Half::locks, Severity::note, "a live view polls for released locks"},
    OptionalCommand{"PSUBSCRIBE", Half::tasks, Severity::note, "a live view polls for changed tasks"},
    OptionalCommand{"PUNSUBSCRIBE", Half::locks, Severity::note,
                    "a live view that was closed stays subscribed"},
    OptionalCommand{"PUNSUBSCRIBE", Half::tasks, Severity::note,
                    "a live view that was closed stays subscribed"},
    OptionalCommand{"UNSUBSCRIBE", Half::locks, Severity::warning, piles_up},
    OptionalCommand{"UNSUBSCRIBE", Half::tasks, Severity::warning, piles_up},
    OptionalCommand{"HGET", Half::tasks, Severity::warning,
                    "expired tasks count against their owner's quota until they are listed"},
    OptionalCommand{"PEXPIREAT", Half::locks, Severity::warning,
                    "locks cannot be renewed while the server is out of memory"},
    OptionalCommand{"PTTL", Half::locks, Severity::note, "waiters retry too often for a lock without expiry"},
    OptionalCommand{"SCAN", Half::locks, Severity::warning, "locks cannot be listed"},
    OptionalCommand{"SCAN", Half::tasks, Severity::warning, "the owners of tasks cannot be listed"},
    OptionalCommand{"PUBSUB NUMSUB", Half::locks, Severity::note, "the waiters of a lock cannot be counted"},
    OptionalCommand{"PUBSUB SHARDNUMSUB", Half::locks, Severity::note,
                    "the waiters of a lock cannot be counted"},
    OptionalCommand{"CLIENT ID", Half::locks, Severity::note, grants_late},
    OptionalCommand{"CLIENT TRACKING", Half::locks, Severity::note, grants_late},
    OptionalCommand{"CLIENT SETNAME", Half::locks, Severity::note, unnamed},
    OptionalCommand{"CLIENT SETNAME", Half::tasks, Severity::note, unnamed},
    OptionalCommand{"PING", Half::locks, Severity::note, loading},
    OptionalCommand{"PING", Half::tasks, Severity::note, loading},
    OptionalCommand{"INFO", Half::locks, Severity::note, unseen},
    OptionalCommand{"WAIT", Half::locks, Severity::note, "no replica can acknowledge a lock (min_replicas)"},
    OptionalCommand{"DBSIZE", Half::locks, Severity::note, "the doctor does not count fence counters"},
};

/// A command that scripts of a half reach only after a rare event, so that most locks work without it.
struct RareCall {
  std::string_view command;
  Half half;
  std::string_view lost;
};
constexpr std::array rare_calls{
    // parts/native_sweep.lua
    RareCall{"HGETALL", Half::locks,
             "a lock that was broken, or released again after a lost reply, cannot be acquired from a minute "
             "later on"},
};

constexpr const RareCall* rare_call_of(std::string_view command, Half half) {
  for (const auto& rare : rare_calls) {
    if (rare.command == command && rare.half == half) return &rare;
  }
  return nullptr;
}

constexpr std::string_view no_switches = "a failover is noticed only when the old master does not answer";
constexpr std::array rights_at_sentinels{
    SentinelRight{"CLIENT SETNAME", Severity::note, unnamed},
    SentinelRight{"PING", Severity::note, "a sentinel that hangs is detected late"},
    SentinelRight{"SENTINEL CKQUORUM", Severity::warning,
                  "quorum not checked, so the sentinels may be unable to elect another master"},
    SentinelRight{"SENTINEL MASTER", Severity::problem, "the master cannot be found"},
    SentinelRight{"SENTINEL MYID", Severity::note,
                  "not checked whether two addresses of the URL are the same sentinel"},
    SentinelRight{"SUBSCRIBE", Severity::warning, no_switches},
};
static_assert(std::ranges::all_of(sent_commands,
                                  [](const SentCommand& sent) {
                                    return sent.right != SentCommand::Right::of_sentinels ||
                                           std::ranges::find(rights_at_sentinels, sent.name,
                                                             &SentinelRight::command) !=
                                               rights_at_sentinels.end();
                                  }),
              "a command that is sent to sentinels is missing in rights_at_sentinels");

constexpr const ScriptPurpose* purpose_of(std::string_view script) {
  for (const auto& purpose : script_purposes) {
    if (purpose.script == script) return &purpose;
  }
  return nullptr;
}

constexpr const OptionalCommand* find_optional(std::string_view command, Half half) {
  for (const auto& optional : optional_commands) {
    if (optional.command == command && optional.half == half) return &optional;
  }
  return nullptr;
}

/// Whether a script of this half fails without the right to the command, in a store of this layout.
constexpr bool is_needed(std::string_view command, Half half, RedisLayout layout) {
  return std::ranges::any_of(embedded::script_commands, [&](const auto& called) {
    if (called.command != command || called.may_fail) return false;
    const auto* purpose = purpose_of(called.script);
    return half_of(*purpose) == half && is_used(*purpose, layout);
  });
}

/// Whether some script of a store of this layout calls the command.
constexpr bool is_called(std::string_view command, RedisLayout layout) {
  return std::ranges::any_of(embedded::script_commands, [&](const auto& called) {
    return called.command == command && is_used(*purpose_of(called.script), layout);
  });
}

/// Whether it is a command for the other kind of channels.
constexpr bool is_for_other_channels(std::string_view command, Channels channels) {
  constexpr std::array<std::string_view, 6> global{"PUBLISH",    "SUBSCRIBE",    "UNSUBSCRIBE",
                                                   "PSUBSCRIBE", "PUNSUBSCRIBE", "PUBSUB NUMSUB"};
  constexpr std::array<std::string_view, 4> sharded{"SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE",
                                                    "PUBSUB SHARDNUMSUB"};
  const auto is_in = [&](const auto& commands) {
    return std::ranges::find(commands, command) != commands.end();
  };
  return channels == Channels::sharded ? is_in(global) : is_in(sharded);
}

static_assert(std::ranges::all_of(embedded::script_commands,
                                  [](const auto& called) {
                                    const auto& purpose = *purpose_of(called.script);
                                    return !called.may_fail ||
                                           find_optional(called.command, half_of(purpose)) != nullptr ||
                                           is_needed(called.command, half_of(purpose),
                                                     RedisLayout::documented) ||
                                           is_needed(called.command, half_of(purpose), RedisLayout::native);
                                  }),
              "a command that scripts call by redis.pcall alone is missing in optional_commands");
static_assert(std::ranges::all_of(sent_commands,
                                  [](const SentCommand& sent) {
                                    return sent.right != SentCommand::Right::nice_to_have ||
                                           find_optional(sent.name, Half::locks) != nullptr ||
                                           find_optional(sent.name, Half::tasks) != nullptr;
                                  }),
              "a command that is nice to have is missing in optional_commands");

/// "locks cannot be acquired, extended or released".
std::string cannot_be(Half half, RedisLayout layout, const auto& is_affected) {
  std::vector<std::string_view> all, affected;
  const auto add = [](std::vector<std::string_view>& words, std::string_view word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  };
  for (const auto& purpose : script_purposes) {
    if (half_of(purpose) != half || !is_used(purpose, layout)) continue;
    add(all, purpose.done);
    if (is_affected(purpose.script)) add(affected, purpose.done);
  }
  std::string text = half == Half::locks ? "locks cannot be " : "tasks cannot be ";
  if (affected.size() == all.size()) return text + "used";
  for (std::size_t i = 0; i < affected.size(); ++i) {
    if (i > 0) text += i + 1 == affected.size() ? " or " : ", ";
    text += affected[i];
  }
  return text;
}

bool fails_without(std::string_view script, std::string_view command) {
  return std::ranges::any_of(embedded::script_commands, [&](const auto& called) {
    return called.script == script && called.command == command && !called.may_fail;
  });
}

std::optional<CommandRight::Without> without_in_scripts(std::string_view command, Half half,
                                                        RedisLayout layout) {
  if (!is_needed(command, half, layout)) return std::nullopt;
  if (const auto* rare = rare_call_of(command, half)) {
    return CommandRight::Without{.severity = Severity::problem, .lost = std::string(rare->lost)};
  }
  const auto is_affected = [&](std::string_view script) { return fails_without(script, command); };
  // A store may have no queues.
  const bool is_for_queues = std::ranges::all_of(script_purposes, [&](const ScriptPurpose& purpose) {
    return half_of(purpose) != half || !is_used(purpose, layout) || purpose.script.starts_with("queue_") ||
           !is_affected(purpose.script);
  });
  return CommandRight::Without{.severity = is_for_queues ? Severity::warning : Severity::problem,
                               .lost = cannot_be(half, layout, is_affected)};
}

/// Several losses in one text, each mentioned once.
std::string joined(const std::vector<std::string>& losses) {
  std::vector<std::string_view> listed;
  std::string text;
  for (const auto& loss : losses) {
    if (std::ranges::find(listed, loss) != listed.end()) continue;
    listed.push_back(loss);
    text += (text.empty() ? "" : "; ") + loss;
  }
  return text;
}

CommandRight::On used_on(std::string_view command) {
  constexpr std::array of_channels{"PUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SPUBLISH", "SSUBSCRIBE"};
  if (std::ranges::find(of_channels, command) != of_channels.end()) return CommandRight::On::channels;
  const bool by_scripts =
      std::ranges::find(embedded::script_commands, command, &embedded::ScriptCommand::command) !=
      std::ranges::end(embedded::script_commands);
  return by_scripts && command != "TIME" ? CommandRight::On::keys : CommandRight::On::nothing;
}

CommandRight right_to(std::string_view command, RedisLayout layout) {
  CommandRight right{.name = std::string(command), .on = used_on(command)};
  for (const auto half : halves) {
    auto& without = right.without[static_cast<std::size_t>(half)];
    without = without_in_scripts(command, half, layout);
    const auto* optional = find_optional(command, half);
    if (!without && optional != nullptr) without = {optional->severity, std::string(optional->lost)};
  }
  return right;
}

/// A right that everything depends on.
CommandRight right_to_all(std::string_view command, RedisLayout layout) {
  auto right = right_to(command, layout);
  for (const auto half : halves) {
    auto& without = right.without[static_cast<std::size_t>(half)];
    if (!without) without = {Severity::problem, cannot_be(half, layout, [](auto) { return true; })};
  }
  return right;
}

/// The pattern as a word of ACL SETUSER. White space is not possible there, and redis-cli and a shell read
/// quotes differently: such characters are replaced by the wildcard for any character.
std::string as_rule(std::string pattern) {
  std::ranges::replace_if(
      pattern, [](char c) { return (c >= '\0' && c <= ' ') || c == '\'' || c == '\x7F'; }, '?');
  return pattern;
}

/// Redis rejects a pattern beside one that matches everything, such as that of an empty prefix.
std::vector<std::string> all_rules(const std::vector<std::string>& patterns) {
  if (std::ranges::find(patterns, "*") != patterns.end()) return {"*"};
  std::vector<std::string> rules;
  rules.reserve(patterns.size());
  for (const auto& pattern : patterns) rules.push_back(as_rule(pattern));
  return rules;
}

std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("+-_.:@%/").find(c) != std::string_view::npos;
  };
  return std::ranges::all_of(word, is_plain) && !word.empty() ? word : "'" + word + "'";
}

}  // namespace

CommandRight::Without without_all(std::span<const CommandRight* const> commands, Half half,
                                  const RedisOptions& options) {
  const auto layout = layout_of(options);
  CommandRight::Without whole{.severity = Severity::ok, .lost = {}};
  std::vector<std::string> losses;
  bool any_always_called = false;
  for (const auto* command : commands) {
    const auto& without = command->in(half);
    if (!without) continue;
    whole.severity = std::max(whole.severity, without->severity);
    const bool is_always_called =
        is_needed(command->name, half, layout) && rare_call_of(command->name, half) == nullptr;
    any_always_called |= is_always_called;
    if (!is_always_called) losses.push_back(without->lost);
  }
  if (any_always_called) {
    losses.insert(losses.begin(), cannot_be(half, layout, [&](std::string_view script) {
                    return std::ranges::any_of(commands, [&](const CommandRight* command) {
                      return rare_call_of(command->name, half) == nullptr &&
                             fails_without(script, command->name);
                    });
                  }));
  }
  whole.lost = joined(losses);
  return whole;
}

CommandRight::Without CommandRight::in_all() const {
  Without whole{.severity = Severity::ok, .lost = {}};
  std::vector<std::string> losses;
  for (const auto& half : without) {
    if (!half) continue;
    whole.severity = std::max(whole.severity, half->severity);
    losses.push_back(half->lost);
  }
  whole.lost = joined(losses);
  return whole;
}

namespace {

using RightsByCommand = std::map<std::string_view, CommandRight>;

/// The rights that the scripts of a layout need. Computed once: it compares each command with each script.
const RightsByCommand& rights_of_scripts(RedisLayout layout) {
  constexpr auto compute = [](RedisLayout how) {
    RightsByCommand rights;
    for (const auto& called : embedded::script_commands) {
      if (rights.contains(called.command) || !is_called(called.command, how)) continue;
      rights.emplace(called.command, right_to(called.command, how));
    }
    return rights;
  };
  // Never destroyed: threads may still use them while the process exits.
  static const auto& documented = *new RightsByCommand(compute(RedisLayout::documented));
  static const auto& native = *new RightsByCommand(compute(RedisLayout::native));
  return layout == RedisLayout::native ? native : documented;
}

}  // namespace

std::span<const SentinelRight> sentinel_rights() noexcept {
  return rights_at_sentinels;
}

std::string acl_name_of(std::string_view command) {
  std::string text(command);
  for (char& c : text) c = c == ' ' ? '|' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string CommandRight::acl_name() const {
  return acl_name_of(name);
}

std::vector<CommandRight> command_rights(const RedisOptions& options, bool member) {
  const bool in_cluster = member || !options.cluster_nodes.empty();
  const auto layout = layout_of(options);
  const auto channels = channels_of(options, member);
  auto rights = rights_of_scripts(layout);
  for (const auto& sent : sent_commands) {
    switch (sent.right) {
      case SentCommand::Right::needed:
        // Commands that scripts call too are needed both for those scripts and to open the same half.
        rights.try_emplace(sent.name, right_to_all(sent.name, layout));
        break;
      case SentCommand::Right::if_not_db_0:
        if (options.db != 0) rights.try_emplace(sent.name, right_to_all(sent.name, layout));
        break;
      case SentCommand::Right::in_cluster:
        if (in_cluster) rights.try_emplace(sent.name, right_to_all(sent.name, layout));
        break;
      case SentCommand::Right::nice_to_have:
        rights.try_emplace(sent.name, right_to(sent.name, layout));
        break;
      case SentCommand::Right::every_user:
      case SentCommand::Right::of_sentinels:
      case SentCommand::Right::to_examine:
        break;
    }
  }
  std::vector<CommandRight> sorted;
  sorted.reserve(rights.size());
  for (auto& [name, right] : rights) {
    // Waiters use sharded channels, but there are none for the names of written keys.
    if (name == "SUBSCRIBE" && channels == Channels::sharded) {
      sorted.push_back({.name = right.name, .on = CommandRight::On::channels});
      sorted.back().without[0] = {Severity::note, std::string(grants_late)};
    } else if (!is_for_other_channels(name, channels)) {
      sorted.push_back(std::move(right));
    }
  }
  return sorted;
}

}  // namespace redis

std::string RedisAcl::line() const {
  std::string text = "ACL SETUSER " + redis::quoted(user) + " resetkeys resetchannels -@all";
  const auto add = [&](const std::string& rule) { text += " " + redis::quoted(rule); };
  for (const auto& pattern : keys) add("~" + pattern);
  for (const auto& pattern : channels) add("&" + pattern);
  for (const auto& command : commands) add("+" + command.name);
  return text;
}

Result<RedisAcl> redis_acl(const RedisOptions& options) {
  const auto channels = redis::channels_of(options);
  const auto locks = redis::LockLayout::make(options, channels);
  if (!locks) return locks.error();
  const auto tasks =
      redis::StorageLayout::make(options.task_prefix, options.db, redis::layout_of(options), channels);
  if (!tasks) return tasks.error();
  if (redis::as_rule(options.user) != options.user) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid user name: an ACL line cannot contain a space, a control character or a quote");
  }
  RedisAcl acl{.user = options.user.empty() ? "USER" : options.user,
               .keys = redis::all_rules({(*locks)->names().pattern(), tasks->pattern()}),
               .channels = redis::all_rules({(*locks)->names().channel_pattern(), tasks->channel_pattern(),
                                             std::string(redis::invalidation_channel)}),
               .commands = {}};
  for (const auto& right : redis::command_rights(options)) {
    auto without = right.in_all();
    acl.commands.push_back(
        {.name = right.acl_name(), .severity = without.severity, .without = std::move(without.lost)});
  }
  return acl;
}

Result<RedisAcl> redis_sentinel_acl(const RedisOptions& options) {
  if (options.sentinels.empty()) {
    return Error(ErrorCode::InvalidArgument,
                 "the URL names no sentinels; pass a URL such as redis+sentinel://HOST/SERVICE");
  }
  if (redis::as_rule(options.sentinel_user) != options.sentinel_user) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid sentinel_user: an ACL line cannot contain a space, a control character or a quote");
  }
  RedisAcl acl{.user = options.sentinel_user.empty() ? "USER" : options.sentinel_user,
               .keys = {},
               .channels = {redis::switch_channel, redis::promotion_channel},
               .commands = {}};
  for (const auto& right : redis::sentinel_rights()) {
    acl.commands.push_back({.name = redis::acl_name_of(right.command),
                            .severity = right.severity,
                            .without = std::string(right.lost)});
  }
  return acl;
}

}  // namespace holdfast
