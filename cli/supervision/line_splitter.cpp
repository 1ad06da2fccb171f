#include "supervision/line_splitter.hpp"

namespace holdfast::cli {

void LineSplitter::take(std::string_view text, const std::function<void(std::string_view)>& on_line) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    line_ += text.substr(0, end).substr(0, max_line + 1 - line_.size());
    if (end == std::string_view::npos) return;
    on_line(line_);
    line_.clear();
    text.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const std::function<void(std::string_view)>& on_line) {
  if (!line_.empty()) take("\n", on_line);
}

}  // namespace holdfast::cli
