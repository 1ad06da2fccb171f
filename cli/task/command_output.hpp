#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "process/keeper.hpp"
#include "rpc/posix/descriptor.hpp"
#include "supervision/line_splitter.hpp"

namespace holdfast::cli {

/// Forwards a command's stdout and stderr to those of this process and keeps their tails, and passes each
/// line of descriptor 3 to a callback.
///
/// A separate thread does that. It never blocks on the readers: a full pipe downstream pauses the reading,
/// and so the command, as if the command wrote there directly.
class CommandOutput {
 public:
  static constexpr std::size_t tail_bytes = std::size_t{4} * 1024;

  /// Creates the pipes. To be called before the keeper is forked.
  CommandOutput();
  ~CommandOutput();
  CommandOutput(const CommandOutput&) = delete;
  CommandOutput& operator=(const CommandOutput&) = delete;

  /// For the keeper.
  [[nodiscard]] std::vector<Redirection> redirections() const;
  /// After the keeper was forked: closes the command's ends and starts forwarding. `on_line` gets the lines
  /// of descriptor 3, on the thread of this object, and must not block.
  /// `on_output` gets what is read of stdout (0) and stderr (1), on that thread or that of finish_reading(),
  /// and must not block either.
  void start(std::function<void(std::string_view)> on_line,
             std::function<void(std::size_t, std::string_view)> on_output = {});

  /// After the command's end: reads what is left in the pipes, though not what its descendants go on writing,
  /// and keeps what has not been forwarded for forward_rest().
  void finish_reading();
  /// Whether forward_rest() has anything to do.
  [[nodiscard]] bool has_rest() const noexcept;
  /// Waits for the readers, without a limit if they do not read.
  void forward_rest();

  /// The last 4 KiB, at the start of a character if it is UTF-8. After finish_reading().
  [[nodiscard]] std::string out_tail() const { return streams_[0].tail_text(); }
  [[nodiscard]] std::string err_tail() const { return streams_[1].tail_text(); }

 private:
  struct Stream {
    posix::Descriptor in;      ///< our end; none once it has ended
    posix::Descriptor theirs;  ///< the command's end
    int number = -1;           ///< what it is in the command, and where it is passed on
    std::string pending;       ///< read, and not passed on yet
    std::string tail;

    [[nodiscard]] std::string tail_text() const;
  };

  void pump();
  void read_some(Stream& stream);
  void forward_some(Stream& stream, std::size_t at_most);
  void read_lines();

  std::array<Stream, 2> streams_;
  Stream lines_;
  LineSplitter splitter_;
  std::function<void(std::string_view)> on_line_;
  std::function<void(std::size_t, std::string_view)> on_output_;
  posix::Descriptor end_;
  std::thread thread_;
};

}  // namespace holdfast::cli
