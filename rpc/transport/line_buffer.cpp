#include "rpc/transport/line_buffer.hpp"

namespace holdfast::rpc {

void LineBuffer::append(std::string_view bytes) {
  if (skipping_) {
    const auto newline = bytes.find('\n');
    if (newline == std::string_view::npos) return;
    bytes.remove_prefix(newline + 1);
    skipping_ = false;
  }
  kept_.erase(0, start_);
  scanned_ -= start_;
  start_ = 0;
  kept_.append(bytes);
}

LineBuffer::Line LineBuffer::take(std::size_t end) const {
  if (end > start_ && kept_[end - 1] == '\r') --end;
  if (end - start_ > longest_) return {.too_long = true};
  return {.text = kept_.substr(start_, end - start_)};
}

std::optional<LineBuffer::Line> LineBuffer::next() {
  const auto newline = kept_.find('\n', scanned_);
  if (newline != std::string::npos) {
    auto line = take(newline);
    start_ = scanned_ = newline + 1;
    return line;
  }
  scanned_ = kept_.size();
  // One more than the limit may be the carriage return.
  if (kept_.size() - start_ <= longest_ + 1) return std::nullopt;
  kept_.clear();
  kept_.shrink_to_fit();
  start_ = scanned_ = 0;
  skipping_ = true;
  return Line{.too_long = true};
}

std::optional<LineBuffer::Line> LineBuffer::rest() {
  if (start_ == kept_.size()) return std::nullopt;
  auto line = take(kept_.size());
  start_ = scanned_ = kept_.size();
  return line;
}

}  // namespace holdfast::rpc
