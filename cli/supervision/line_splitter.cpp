#include "supervision/line_splitter.hpp"

namespace holdfast::cli {

void LineSplitter::take(std::string_view text, const std::function<void(std::string_view)>& on_line) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto part = text.substr(0, end);
    if (line_.size() + part.size() > max_line) {
      too_long_ = true;
      line_.clear();
    }
    if (!too_long_) line_ += part;
    if (end == std::string_view::npos) return;
    on_line(line_);
    line_.clear();
    too_long_ = false;
    text.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const std::function<void(std::string_view)>& on_line) {
  if (!line_.empty() || too_long_) take("\n", on_line);
}

}  // namespace holdfast::cli
