#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// Splits what a command writes to a descriptor into lines.
class LineSplitter {
 public:
  /// Of a longer line the first max_line + 1 bytes are passed.
  static constexpr std::size_t max_line = std::size_t{2} * 1024 * 1024;

  /// Passes each line that ends in `text` to `on_line`, and keeps the rest.
  void take(std::string_view text, const std::function<void(std::string_view)>& on_line);
  /// Passes the rest as the last line: a command need not end it.
  void finish(const std::function<void(std::string_view)>& on_line);

 private:
  std::string line_;
};

}  // namespace holdfast::cli
