#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::rpc {

/// Divides a stream of bytes into lines. A line that is longer than the limit is reported once, when it
/// becomes too long, and skipped up to its newline; it is never kept as a whole.
class LineBuffer {
 public:
  struct Line {
    std::string text = {};  ///< without the newline, or a carriage return before it
    bool too_long = false;  ///< then there is no text
  };

  explicit LineBuffer(std::size_t longest) noexcept : longest_(longest) {}

  void append(std::string_view bytes);
  /// The next complete line.
  [[nodiscard]] std::optional<Line> next();
  /// At the end of the stream: the last line, if it has no newline.
  [[nodiscard]] std::optional<Line> rest();
  /// How much is kept.
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size() - start_; }

 private:
  [[nodiscard]] Line take(std::size_t end) const;

  std::size_t longest_;
  std::string kept_;
  std::size_t start_ = 0;    ///< of the incomplete line
  std::size_t scanned_ = 0;  ///< there is no newline between start_ and here
  bool skipping_ = false;    ///< the rest of a line that was too long
};

}  // namespace holdfast::rpc
