#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>

#include "descriptor.hpp"

namespace holdfast::cli {

/// The controlling terminal of our session, if there is one: whose process group reads it and gets its
/// Ctrl-C and Ctrl-Z.
class Terminal {
 public:
  [[nodiscard]] static std::optional<Terminal> controlling();

  /// Negative if the terminal is gone.
  [[nodiscard]] pid_t foreground() const noexcept;
  /// Works from a background group too (SIGTTOU is kept away meanwhile). False if that group is gone.
  bool give_to(pid_t group) const noexcept;
  /// Back to the modes it had when this object was made: for after a full-screen command was killed.
  void restore_modes() const noexcept;

 private:
  explicit Terminal(Descriptor fd) noexcept;
  Descriptor fd_;
  std::optional<termios> modes_;
};

}  // namespace holdfast::cli
