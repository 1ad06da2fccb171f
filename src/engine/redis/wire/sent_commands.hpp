#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace holdfast::redis {

/// A command that C++ code sends. There is no other way to send one than by its name here (see Command), so
/// that the rights a user needs are known; what scripts call is read from their text.
struct SentCommand {
  enum class Right : std::uint8_t {
    every_user,    ///< the server grants it to every user
    needed,        ///< in the ACL of Holdfast's user
    if_not_db_0,   ///< the same, where another database than 0 is used
    nice_to_have,  ///< in the ACL: what works worse without it is said in rights.cpp
    to_examine,    ///< shows more of the server than its user need see; only the doctor tries it
  };
  std::string_view name;
  Right right;
};

inline constexpr std::array sent_commands{
    SentCommand{"ACL WHOAMI", SentCommand::Right::to_examine},
    SentCommand{"AUTH", SentCommand::Right::every_user},
    SentCommand{"CLIENT SETNAME", SentCommand::Right::nice_to_have},
    SentCommand{"CONFIG GET", SentCommand::Right::to_examine},
    SentCommand{"DBSIZE", SentCommand::Right::nice_to_have},
    SentCommand{"EVAL", SentCommand::Right::needed},
    SentCommand{"EVALSHA", SentCommand::Right::needed},
    SentCommand{"GET", SentCommand::Right::needed},
    SentCommand{"HELLO", SentCommand::Right::every_user},
    SentCommand{"INFO", SentCommand::Right::nice_to_have},
    SentCommand{"MEMORY USAGE", SentCommand::Right::to_examine},
    SentCommand{"PING", SentCommand::Right::nice_to_have},
    SentCommand{"PUBLISH", SentCommand::Right::nice_to_have},
    SentCommand{"SCAN", SentCommand::Right::nice_to_have},
    SentCommand{"SELECT", SentCommand::Right::if_not_db_0},
    SentCommand{"SET", SentCommand::Right::needed},
    SentCommand{"SUBSCRIBE", SentCommand::Right::nice_to_have},
    SentCommand{"TIME", SentCommand::Right::needed},
    SentCommand{"UNSUBSCRIBE", SentCommand::Right::nice_to_have},
};

/// The name of a command that C++ code sends, checked when it is compiled.
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

}  // namespace holdfast::redis
