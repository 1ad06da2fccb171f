#pragma once

#include <array>
#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// One command in the bytes that go to the server (RESP: an array of bulk strings, so any byte is safe).
class Command {
 public:
  /// The number of arguments, the command's name included, that will follow.
  explicit Command(std::size_t arguments) {
    bytes_.reserve(arguments * usual_argument);
    add_count('*', arguments);
  }
  Command(std::initializer_list<std::string_view> arguments) : Command(arguments.size()) {
    for (const auto argument : arguments) add(argument);
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
