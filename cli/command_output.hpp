#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "descriptor.hpp"
#include "keeper.hpp"

namespace holdfast::cli {

/// What a command writes, on its way through us: stdout and stderr are passed on to ours and their ends kept,
/// and each line of descriptor 3 is given to somebody.
///
/// Everything is passed on by a thread of its own, which never waits for our readers: a full pipe behind us
/// stops the reading, and so the command, as it would if the command wrote there itself.
class CommandOutput {
 public:
  static constexpr std::size_t tail_bytes = std::size_t{4} * 1024;
  /// The longest line of descriptor 3; a longer one is given as an empty line.
  static constexpr std::size_t max_line = std::size_t{2} * 1024 * 1024;

  /// Makes the pipes. Call it before the keeper is forked.
  CommandOutput();
  ~CommandOutput();
  CommandOutput(const CommandOutput&) = delete;
  CommandOutput& operator=(const CommandOutput&) = delete;

  /// For the keeper.
  [[nodiscard]] std::vector<Redirection> redirections() const;
  /// After the keeper was forked: lets go of the command's ends and starts passing on. `on_line` gets the
  /// lines of descriptor 3, on the thread of this object, and must not block.
  void start(std::function<void(std::string_view)> on_line);

  /// After the command's end: reads what it left behind, though not what its descendants go on writing, and
  /// keeps what our readers have not taken yet for pass_on_rest().
  void finish_reading();
  /// Whether pass_on_rest() has anything to do.
  [[nodiscard]] bool has_rest() const noexcept;
  /// Waits for our readers, for ever if they do not read.
  void pass_on_rest();

  /// The last 4 KiB, at the start of a character if it is UTF-8. After finish_reading().
  [[nodiscard]] std::string out_tail() const { return streams_[0].tail_text(); }
  [[nodiscard]] std::string err_tail() const { return streams_[1].tail_text(); }

 private:
  struct Stream {
    Descriptor in;        ///< our end; none once it has ended
    Descriptor theirs;    ///< the command's end
    int number = -1;      ///< what it is in the command, and where it is passed on
    std::string pending;  ///< read, and not passed on yet
    std::string tail;

    [[nodiscard]] std::string tail_text() const;
  };

  void pump();
  void read_some(Stream& stream);
  void pass_on_some(Stream& stream, std::size_t at_most);
  void read_lines();
  void take_lines(std::string_view text);

  std::array<Stream, 2> streams_;
  Stream lines_;
  std::string line_;
  bool line_too_long_ = false;
  std::function<void(std::string_view)> on_line_;
  Descriptor end_;
  std::thread thread_;
};

}  // namespace holdfast::cli
