#pragma once

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace holdfast::waiting {

/// A file on whose bytes processes hold locks, far behind its end, as signs that they live: nothing is
/// written, and the kernel drops a lock with its process, however that ends. A lock belongs to an open of the
/// file, and so to all processes that have a copy of the descriptor.
struct MarkFile {
  std::filesystem::path path;
  std::uint64_t device, inode;

  /// Opens the file once more; -1 if that fails, or if the path leads to another file now.
  [[nodiscard]] int open() const noexcept;
};

/// Locks one byte. Returns false with errno if that fails: EAGAIN or EACCES if another open has it.
[[nodiscard]] bool lock_byte(int fd, std::uint64_t byte) noexcept;
void unlock_byte(int fd, std::uint64_t byte) noexcept;

/// The first byte of a lock that another open has in a range.
struct FoundLock {
  bool is_known = false;  ///< false: the kernel did not answer
  std::optional<std::uint64_t> byte;
};
[[nodiscard]] FoundLock find_lock(int fd, std::uint64_t from, std::uint64_t count) noexcept;

}  // namespace holdfast::waiting
