#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

/// The controlling terminal of the session: which process group reads it and gets its Ctrl-C and Ctrl-Z.
class ControllingTerminal {
 public:
  /// Nothing if the session has none.
  [[nodiscard]] static std::optional<ControllingTerminal> open();

  /// Negative if the terminal is gone.
  [[nodiscard]] pid_t foreground() const noexcept;
  /// Works from a background group too (SIGTTOU is blocked meanwhile). False if that group is gone.
  bool give_to(pid_t group) const noexcept;
  /// Restores the modes of the time of open(): for after a full-screen command was killed.
  void restore_modes() const noexcept;

 private:
  explicit ControllingTerminal(posix::Descriptor fd) noexcept;
  posix::Descriptor fd_;
  std::optional<termios> modes_;
};

}  // namespace holdfast::cli
