#include "engine/redis/doctor/trial.hpp"

#include <algorithm>

#include "engine/redis/conn/key_tracking.hpp"
#include "engine/redis/conn/routing_fsm.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {
namespace {

/// Lifetime of trial keys that an interrupted examination leaves behind.
constexpr auto trial_life_ms = "10000";
/// No command that a script calls needs more arguments, including the key.
constexpr std::size_t most_arguments = 5;
/// A master of a hundredth of the slots has the key of one of these, almost certainly.
constexpr int most_ids = 2000;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The command exists, and we may use it: only our arguments are invalid.
bool is_about_arguments(std::string_view error) {
  return error.starts_with("WRONGTYPE") ||
         (error.starts_with("ERR ") && !error.starts_with("ERR unknown command"));
}

/// Derives the right from the answer.
Right right_by(const CommandRight& command, std::optional<Half> half, const redisReply& reply) {
  Right right{.command = command.name, .half = half};
  if (!is_error(reply)) return right;
  // A node of a cluster checks rights before it checks whether the key is its own.
  if (redirection_of(reply).kind != Redirection::Kind::none) return right;
  const auto text = text_of(reply);
  if (!text.starts_with("NOPERM")) {
    if (!is_about_arguments(text) && !is_noscript(reply)) right.failure = server_text(reply);
    return right;
  }
  right.missing = has(text, "command")   ? Right::Missing::command
                  : has(text, "channel") ? Right::Missing::channel
                                         : Right::Missing::key;
  return right;
}

LockKey key_with(const LockId& id) {
  return LockKey::parse("holdfast-doctor:" + std::string(id.str())).value_or_throw();
}

/// An id whose key is at this server, if there is one.
LockId id_here(const LockLayout& layout, const IsHere& is_here) {
  auto id = LockId::generate();
  for (int i = 0; is_here && i < most_ids && !is_here(layout.names().lock_key(key_with(id)).value_or_throw());
       ++i) {
    id = LockId::generate();
  }
  return id;
}

std::size_t index_of(Half half) {
  return static_cast<std::size_t>(half);
}

}  // namespace

RightsTrial::RightsTrial(const std::shared_ptr<const Endpoint>& endpoint, Line& line,
                         const LockLayout& layout, const StorageLayout& tasks, const IsHere& is_here)
    : endpoint_(endpoint),
      line_(line),
      listener_(endpoint),
      id_(id_here(layout, is_here)),
      key_(key_with(id_)),
      task_(RecordKey::of("holdfast-doctor", id_.str()).value_or_throw()) {
  const auto& locks = layout.names();
  const auto lock = locks.lock_key(key_).value_or_throw();
  keys_[index_of(Half::locks)] = {lock, locks.index_key(id_).value_or_throw()};
  if (!layout.authority_per_key()) {
    keys_[index_of(Half::locks)].push_back(locks.fence_key(lock).value_or_throw());
  }
  channels_[index_of(Half::locks)] = locks.channel(lock);
  patterns_[index_of(Half::locks)] = locks.channel_pattern();
  // The index of an owner named after the random lock: no task exists under it.
  const auto owner = "holdfast-doctor-" + std::string(id_.str());
  keys_[index_of(Half::tasks)] = {tasks.record(task_), tasks.index(owner)};
  channels_[index_of(Half::tasks)] = tasks.channel(task_);
  patterns_[index_of(Half::tasks)] = tasks.channel_pattern();
}

std::vector<Right> RightsTrial::all() {
  std::vector<Right> rights;
  const auto may = [&](std::string_view command, Half half) {
    return std::ranges::any_of(rights, [&](const Right& right) {
      return right.command == command && right.half == half && right.is_there();
    });
  };
  for (const auto& right : command_rights(endpoint_->options(), endpoint_->servers() == Servers::cluster)) {
    if (right.on == CommandRight::On::nothing) {
      if (auto tried = on_nothing(right)) rights.push_back(*std::move(tried));
      continue;
    }
    for (const auto half : halves) {
      if (!right.in(half)) continue;
      if (right.on == CommandRight::On::channels) {
        rights.push_back(on_channel(right, half));
      } else if (auto tried = on_keys(right, half)) {
        rights.push_back(*std::move(tried));
      }
    }
  }
  // Deletes every trial key, including any that a command created from arguments meant to be invalid.
  for (const auto half : halves) {
    for (const auto& key : keys_[index_of(half)]) {
      if (may("DEL", half)) (void)line_.ask(Command::begin_trial("DEL", 1).add(key));
    }
  }
  const auto& channel = channels_[index_of(Half::locks)];
  if (may("SUBSCRIBE", Half::locks) && may("PUBLISH", Half::locks)) {
    reached_ = integer_of(*line_.ask({"PUBLISH", channel, "1"}));
  }
  if (may("SSUBSCRIBE", Half::locks) && may("SPUBLISH", Half::locks)) {
    reached_ = integer_of(*line_.ask({"SPUBLISH", channel, "1"}));
  }
  return rights;
}

std::optional<Right> RightsTrial::on_keys(const CommandRight& right, Half half) {
  std::optional<Right> tried;
  std::size_t arguments = right.name == "HSET" ? 4 : 1;  // HSET: a field without a value at the end
  for (const auto& key : keys_[index_of(half)]) {
    const auto reply = on_key(right, key, arguments);
    if (!reply) return std::nullopt;
    tried = right_by(right, half, *reply);
    if (!tried->is_there()) break;
  }
  return tried;
}

/// `arguments`: the least number that the command accepts; raised if the server reports too few. No reply if
/// the command cannot be tried safely.
Reply RightsTrial::on_key(const CommandRight& right, const std::string& key, std::size_t& arguments) {
  if (right.name == "SET") return line_.ask({"SET", key, "x", "PX", "0"});  // no such expiry
  if (right.name == "INCR") {
    // INCR on a value that is not a number. On an absent key it would start a counter.
    if (is_error(*line_.ask({"SET", key, "x", "PX", trial_life_ms}))) return {};
    return line_.ask(Command::begin_trial("INCR", 1).add(key));
  }
  for (;; ++arguments) {
    auto command = Command::begin_trial(right.name, arguments);
    for (std::size_t i = 0; i < arguments; ++i) command.add(key);
    auto reply = line_.ask(std::move(command));
    const bool too_few = is_error(*reply) && has(text_of(*reply), "wrong number of arguments");
    if (!too_few || right.name == "HSET" || arguments == most_arguments) return reply;
  }
}

Right RightsTrial::on_channel(const CommandRight& right, Half half) {
  // On a connection that closes: the listener counts each message to its channel once. A server allows only
  // patterns that are literally in the user's rules.
  if (right.name == "PSUBSCRIBE") {
    return right_by(right, half, *Line(endpoint_).ask({"PSUBSCRIBE", patterns_[index_of(half)]}));
  }
  const auto& channel = channels_[index_of(half)];
  // Another node of a cluster refuses a sharded channel, but only a user who has the right.
  const auto reply = right.name == "SUBSCRIBE"    ? listener_.ask({"SUBSCRIBE", channel})
                     : right.name == "SSUBSCRIBE" ? listener_.ask({"SSUBSCRIBE", channel})
                     : right.name == "SPUBLISH"   ? line_.ask({"SPUBLISH", channel, "1"})
                                                  : line_.ask({"PUBLISH", channel, "1"});
  return right_by(right, half, *reply);
}

std::optional<Right> RightsTrial::on_nothing(const CommandRight& right) {
  const auto tried = [&](const Reply& reply) { return right_by(right, std::nullopt, *reply); };
  if (right.name == "EVAL") return tried(line_.ask({"EVAL", "return 1", "0"}));
  if (right.name == "EVALSHA") return tried(line_.ask({"EVALSHA", std::string(40, '0'), "0"}));
  if (right.name == "SCAN") return tried(line_.ask({"SCAN", "0", "COUNT", "1"}));
  if (right.name == "PUBSUB SHARDNUMSUB") return tried(line_.ask({"PUBSUB SHARDNUMSUB"}));
  if (right.name == "PUBSUB NUMSUB") return tried(line_.ask({"PUBSUB NUMSUB"}));
  if (right.name == "TIME") return tried(line_.ask({"TIME"}));
  if (right.name == "WAIT") return tried(line_.ask({"WAIT", "0", "1"}));
  if (right.name == "ASKING") return tried(line_.ask({"ASKING"}));
  if (right.name == "CLUSTER INFO") return tried(line_.ask({"CLUSTER INFO"}));
  if (right.name == "CLUSTER NODES") return tried(line_.ask({"CLUSTER NODES"}));
  if (right.name == "CLUSTER SLOTS") return tried(line_.ask({"CLUSTER SLOTS"}));
  if (right.name == "PING") return tried(line_.ask({"PING"}));
  if (right.name == "CLIENT ID") return tried(line_.ask({"CLIENT ID"}));
  if (right.name == "CLIENT TRACKING") {
    const auto reply = line_.ask({"CLIENT TRACKING", "OFF"});
    if (is_error(*reply)) return tried(reply);
    auto heard = tried(Line(endpoint_).ask({"SUBSCRIBE", invalidation_channel}));
    // The command SUBSCRIBE is a right of its own.
    if (heard.missing == Right::Missing::command) heard.missing = Right::Missing::none;
    return heard;
  }
  if (right.name == "CLIENT SETNAME") {
    return tried(line_.ask({"CLIENT SETNAME", endpoint_->options().client_name.value_or("holdfast")}));
  }
  if (right.name == "SUNSUBSCRIBE") {
    return tried(Line(endpoint_).ask({"SUNSUBSCRIBE", channels_[index_of(Half::locks)]}));
  }
  if (right.name == "PUNSUBSCRIBE") {
    return tried(Line(endpoint_).ask({"PUNSUBSCRIBE", patterns_[index_of(Half::locks)]}));
  }
  if (right.name == "UNSUBSCRIBE") {
    // On a separate connection: the listener's still has to receive messages.
    return tried(Line(endpoint_).ask({"UNSUBSCRIBE", channels_[index_of(Half::locks)]}));
  }
  return std::nullopt;
}

}  // namespace holdfast::redis
