#pragma once

#include <string>
#include <vector>

#include "rpc/posix/descriptor.hpp"
#include "top/frame.hpp"

namespace holdfast::cli::top {

/// Whether a terminal can show the live view: stdout is one that moves its cursor, and keys can be read.
[[nodiscard]] bool can_show_live();
/// Whether the locale's characters are UTF-8.
[[nodiscard]] bool shows_utf8();

/// The terminal while it shows the view: the alternate screen, keys without echo. Restored by the destructor,
/// and when the process dies of a fault. One at a time.
class Terminal {
 public:
  /// Throws Internal if the terminal cannot be set up.
  explicit Terminal(bool colours);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Where keys are read from.
  [[nodiscard]] int input() const noexcept { return input_.get(); }
  [[nodiscard]] static Size size() noexcept;
  /// Writes the lines that differ from those on the screen. False if the terminal is gone.
  [[nodiscard]] bool draw(const Frame& frame);
  /// Draws everything the next time: something else may have written to the screen.
  void forget() noexcept { drawn_.clear(); }

  /// Gives the terminal back, to stop or to end; enter() takes it again.
  void leave() noexcept;
  void enter();

 private:
  posix::Descriptor input_;
  const bool colours_;
  std::vector<std::string> drawn_;
  Size drawn_size_ = {};
};

/// Returns a line as a terminal is told it; `colours`: otherwise only weight and reversal.
[[nodiscard]] std::string ansi(const Line& line, bool colours);

}  // namespace holdfast::cli::top
