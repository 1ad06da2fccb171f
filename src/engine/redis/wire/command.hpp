#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// A command that C++ code sends. Only commands listed here can be sent (see Command), so that the rights a
/// user needs are known; the commands of scripts are read from their text.
struct SentCommand {
  enum class Right : std::uint8_t {
    every_user,    ///< the server grants it to every user
    needed,        ///< in the ACL of Holdfast's user
    if_not_db_0,   ///< the same, where another database than 0 is used
    in_cluster,    ///< the same, in a cluster
    nice_to_have,  ///< in the ACL: rights.cpp describes what works worse without it
    of_sentinels,  ///< sent to sentinels, as a user of theirs
    to_examine,    ///< reveals more of the server than its user needs; only the doctor tries it
  };
  std::string_view name;
  Right right;
};

inline constexpr std::array sent_commands{
    SentCommand{"ACL WHOAMI", SentCommand::Right::to_examine},
    SentCommand{"ASKING", SentCommand::Right::in_cluster},
    SentCommand{"AUTH", SentCommand::Right::every_user},
    SentCommand{"CLIENT ID", SentCommand::Right::nice_to_have},
    SentCommand{"CLIENT SETNAME", SentCommand::Right::nice_to_have},
    SentCommand{"CLIENT TRACKING", SentCommand::Right::nice_to_have},
    SentCommand{"CLUSTER INFO", SentCommand::Right::in_cluster},
    SentCommand{"CLUSTER NODES", SentCommand::Right::in_cluster},
    SentCommand{"CLUSTER SLOTS", SentCommand::Right::in_cluster},
    SentCommand{"CONFIG GET", SentCommand::Right::to_examine},
    SentCommand{"DBSIZE", SentCommand::Right::nice_to_have},
    SentCommand{"EVAL", SentCommand::Right::needed},
    SentCommand{"EVALSHA", SentCommand::Right::needed},
    SentCommand{"GET", SentCommand::Right::needed},
    SentCommand{"HELLO", SentCommand::Right::every_user},
    SentCommand{"INFO", SentCommand::Right::nice_to_have},
    SentCommand{"MEMORY USAGE", SentCommand::Right::to_examine},
    SentCommand{"PING", SentCommand::Right::nice_to_have},
    SentCommand{"PSUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"PUBLISH", SentCommand::Right::nice_to_have},
    SentCommand{"PUBSUB NUMSUB", SentCommand::Right::nice_to_have},
    SentCommand{"PUBSUB SHARDNUMSUB", SentCommand::Right::nice_to_have},
    SentCommand{"PUNSUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"SCAN", SentCommand::Right::nice_to_have},
    SentCommand{"SELECT", SentCommand::Right::if_not_db_0},
    SentCommand{"SENTINEL CKQUORUM", SentCommand::Right::of_sentinels},
    SentCommand{"SENTINEL MASTER", SentCommand::Right::of_sentinels},
    SentCommand{"SENTINEL MYID", SentCommand::Right::of_sentinels},
    SentCommand{"SET", SentCommand::Right::needed},
    SentCommand{"SPUBLISH", SentCommand::Right::nice_to_have},
    SentCommand{"SSUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"SUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"SUNSUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"TIME", SentCommand::Right::needed},
    SentCommand{"UNSUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"WAIT", SentCommand::Right::nice_to_have},
};

/// The name of a command that C++ code sends, checked at compile time.
class CommandName {
 public:
  consteval CommandName(const char* name) : name_(name) {
    if (std::ranges::find(sent_commands, name_, &SentCommand::name) == sent_commands.end()) {
      throw "this command is not in sent_commands: which right does its user need?";
    }
  }
  [[nodiscard]] constexpr std::string_view str() const noexcept { return name_; }

 private:
  std::string_view name_;
};

/// A number as a command carries a fence floor. Requires that it has at most 15 digits.
[[nodiscard]] constexpr std::array<char, 15> fifteen_digits(std::uint64_t number) noexcept {
  std::array<char, 15> digits{};
  for (std::size_t i = digits.size(); i-- > 0; number /= 10) digits[i] = static_cast<char>('0' + number % 10);
  return digits;
}

/// A fence that this client was granted, and the epoch of the master that granted it. The next fence of the
/// key is above it, unless the next master has a lower epoch: such a one was deposed, and its successor may
/// have granted the fences above it.
struct RememberedFence {
  std::uint64_t fence = 0;  ///< 0: none
  std::uint64_t epoch = 0;
  /// This client was granted the key before, so it exists, unless the server has lost its data.
  bool key_exists = false;
};

/// An encoded command, and the key in it that decides which node of a cluster serves it.
struct RoutedCommand {
  std::string bytes;
  std::uint32_t key_at = 0;    ///< where the key begins in `bytes`
  std::uint32_t key_size = 0;  ///< 0: it has no key; any node serves it, or each one (SCAN)
  /// Where its fence floor stands, as 15 digits; npos: it has none.
  std::size_t fence_floor_at = std::string::npos;
  std::uint64_t fence_floor_epoch = 0;  ///< see RememberedFence

  [[nodiscard]] std::string_view key() const noexcept {
    return std::string_view(bytes).substr(key_at, key_size);
  }
};

/// One command, encoded for the server (RESP: an array of bulk strings, so any byte is safe).
class Command {
 public:
  /// A command and its arguments: `{"GET", key}`, `{"CLIENT SETNAME", name}`.
  template <std::convertible_to<std::string_view>... Arguments>
  Command(CommandName name, const Arguments&... arguments) : Command(name.str(), sizeof...(arguments)) {
    (add(arguments), ...);
  }

  /// The beginning of a command; add this many arguments.
  [[nodiscard]] static Command begin(CommandName name, std::size_t arguments) {
    return {name.str(), arguments};
  }
  /// The same for a name known only at run time: a command that scripts call, to try whether the user has the
  /// right to it.
  [[nodiscard]] static Command begin_trial(std::string_view name, std::size_t arguments) {
    return {name, arguments};
  }

  Command& add(std::string_view argument) {
    add_count('$', argument.size());
    bytes_.append(argument).append("\r\n");
    return *this;
  }

  /// Adds a key. The first one decides the slot: all keys of a command must share it.
  Command& add_key(std::string_view key) {
    if (key_size_ != 0) return add(key);
    add_count('$', key.size());
    key_at_ = static_cast<std::uint32_t>(bytes_.size());
    key_size_ = static_cast<std::uint32_t>(key.size());
    bytes_.append(key).append("\r\n");
    return *this;
  }

  /// Adds a fence floor. The connection that the command is written to may raise it.
  Command& add_fence_floor(const RememberedFence& floor) {
    const auto digits = fifteen_digits(floor.fence);
    fence_floor_epoch_ = floor.epoch;
    add_count('$', digits.size());
    fence_floor_at_ = bytes_.size();
    bytes_.append(digits.data(), digits.size()).append("\r\n");
    return *this;
  }

  [[nodiscard]] RoutedCommand routed() && noexcept {
    return {.bytes = std::move(bytes_),
            .key_at = key_at_,
            .key_size = key_size_,
            .fence_floor_at = fence_floor_at_,
            .fence_floor_epoch = fence_floor_epoch_};
  }
  [[nodiscard]] const std::string& bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::string bytes() && noexcept { return std::move(bytes_); }

 private:
  /// Chosen so that most commands need a single allocation.
  static constexpr std::size_t usual_argument = 48;

  /// A name has one word, or two: a command and its subcommand.
  Command(std::string_view name, std::size_t arguments) {
    const auto words = 1 + static_cast<std::size_t>(std::ranges::count(name, ' '));
    bytes_.reserve((words + arguments) * usual_argument);
    add_count('*', words + arguments);
    if (words == 2) {
      add(name.substr(0, name.find(' ')));
      name.remove_prefix(name.find(' ') + 1);
    }
    add(name);
  }

  void add_count(char kind, std::size_t count) {
    std::array<char, 24> line;
    line[0] = kind;
    char* end = std::to_chars(line.data() + 1, line.data() + line.size() - 2, count).ptr;
    *end++ = '\r';
    *end++ = '\n';
    bytes_.append(line.data(), end);
  }
  std::string bytes_;
  std::uint32_t key_at_ = 0, key_size_ = 0;
  std::size_t fence_floor_at_ = std::string::npos;
  std::uint64_t fence_floor_epoch_ = 0;
};

}  // namespace holdfast::redis
