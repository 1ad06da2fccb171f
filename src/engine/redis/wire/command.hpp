#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// One command in the bytes that go to the server (RESP: an array of bulk strings, so any byte is safe).
class Command {
 public:
  /// The number of arguments, the command's name included, that will follow.
  explicit Command(std::size_t arguments) { add_count('*', arguments); }
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
  void add_count(char kind, std::size_t count) {
    bytes_.append(1, kind).append(std::to_string(count)).append("\r\n");
  }
  std::string bytes_;
};

}  // namespace holdfast::redis
