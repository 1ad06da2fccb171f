#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace holdfast::test {

/// A program on a terminal of its own, as a person would sit before it: typed text goes in, what the screen
/// would show comes out. Hung up and killed at the end.
class Pty {
 public:
  Pty(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  ~Pty();
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  void type(const std::string& text) const;
  /// Whether the text appears, after what an earlier call has found.
  [[nodiscard]] bool shows(const std::string& text,
                           std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// Likewise, of texts that may come in any order.
  [[nodiscard]] bool shows_all(const std::vector<std::string>& texts);
  /// Everything so far: for messages.
  [[nodiscard]] const std::string& screen() const { return screen_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

inline const std::string ctrl_c = "\x03";
inline const std::string ctrl_z = "\x1a";
inline const std::string ctrl_backslash = "\x1c";

}  // namespace holdfast::test
