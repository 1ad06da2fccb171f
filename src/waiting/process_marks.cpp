#include "waiting/process_marks.hpp"

#include <unistd.h>

#include "os/random.hpp"

namespace holdfast::waiting {
namespace {

/// Behind the ranges of WaiterMarks: sixteen bits of the file's inode, then a random number. So a mark that
/// was made in another file, because this one was deleted and created again, is recognised.
constexpr std::uint64_t first_mark = std::uint64_t{1} << 62U;
constexpr unsigned number_bits = 32;
constexpr std::uint64_t numbers = std::uint64_t{1} << number_bits;
constexpr std::uint64_t inode_mask = 0xFFFF;
constexpr int most_mark_attempts = 4;

}  // namespace

ProcessMarks::~ProcessMarks() {
  if (marking_ >= 0) ::close(marking_);
  if (looking_ >= 0) ::close(looking_);
}

std::uint64_t ProcessMarks::first_byte() const noexcept {
  return first_mark + ((file_.inode & inode_mask) << number_bits);
}

std::uint64_t ProcessMarks::own() noexcept {
  const std::lock_guard lock(mutex_);
  if (own_ != 0) return own_;
  if (marking_ < 0) marking_ = file_.open();
  for (int i = 0; marking_ >= 0 && i < most_mark_attempts; ++i) {
    const auto byte = first_byte() + os::jitter_bits() % numbers;
    if (lock_byte(marking_, byte)) return own_ = byte;
  }
  return 0;
}

int ProcessMarks::descriptor() noexcept {
  return own() != 0 ? marking_ : -1;
}

bool ProcessMarks::lives(std::uint64_t mark) noexcept {
  const std::lock_guard lock(mutex_);
  if (mark == own_ || mark < first_byte() || mark - first_byte() >= numbers) return true;
  if (looking_ < 0) looking_ = file_.open();
  if (looking_ < 0) return true;
  const auto found = find_lock(looking_, mark, 1);
  return !found.is_known || found.byte.has_value();
}

}  // namespace holdfast::waiting
