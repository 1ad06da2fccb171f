#include "terminal/progress_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "terminal/text.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view clear_line = "\r\x1b[K";

void write_out(std::string_view text) noexcept {
  [[maybe_unused]] const auto n = write(STDERR_FILENO, text.data(), text.size());
}

/// A line that wraps could not be drawn over.
std::string cut_to_terminal(std::string text) {
  winsize size{};
  const std::size_t columns =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;  // within a character
    if (++column >= columns) {
      text.resize(i);
      break;
    }
  }
  return text;
}

}  // namespace

ProgressLine::ProgressLine() {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { keep_drawing(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  thread_.join();
  write_out(clear_line);
}

void ProgressLine::show(std::string text) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    new_text_ = true;
  }
  changed_.notify_one();
}

void ProgressLine::keep_drawing() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    if (!text_.empty()) draw();
    new_text_ = false;
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return end_ || new_text_; });
  }
}

void ProgressLine::draw() const {
  const auto elapsed = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - since_);
  write_out(std::string(clear_line) + cut_to_terminal(text_ + "  (" + describe(milliseconds(elapsed)) + ")"));
}

}  // namespace holdfast::cli
