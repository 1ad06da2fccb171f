#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

#include "engine/redis/wire/sent_commands.hpp"

namespace holdfast::redis {

/// One command in the bytes that go to the server (RESP: an array of bulk strings, so any byte is safe).
class Command {
 public:
  /// A command and its arguments: `{"GET", key}`, `{"CLIENT SETNAME", name}`.
  template <std::convertible_to<std::string_view>... Arguments>
  Command(CommandName name, const Arguments&... arguments) : Command(name.str(), sizeof...(arguments)) {
    (add(arguments), ...);
  }

  /// The beginning of one; so many arguments are to be added.
  [[nodiscard]] static Command begin(CommandName name, std::size_t arguments) {
    return {name.str(), arguments};
  }
  /// The same for a name that is not known before run time: of a command that scripts call, to try whether
  /// its user has the right to it.
  [[nodiscard]] static Command begin_trial(std::string_view name, std::size_t arguments) {
    return {name, arguments};
  }

  Command& add(std::string_view argument) {
    add_count('$', argument.size());
    bytes_.append(argument).append("\r\n");
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::string bytes() && noexcept { return std::move(bytes_); }

 private:
  /// So that most commands are built in one piece of memory.
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
};

}  // namespace holdfast::redis
