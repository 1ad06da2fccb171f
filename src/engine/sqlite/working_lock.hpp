#pragma once

#include <cstdint>
#include <string>

namespace holdfast::sqlite {

/// Says to the other processes on this kernel that this one works on a file under the clock the file has now.
///
/// It is a lock on one byte of the -wal file, which is there as long as anyone has the database open and on
/// which SQLite itself holds no locks. It belongs to the open file (F_OFD_SETLK), so that two connections of
/// one process are two, and ends with it. In a forked child that runs no other program it lives on: that only
/// says for longer what is true, that the file is in use on this kernel.
class WorkingLock {
 public:
  /// Throws holdfast::Error if the file cannot be opened.
  explicit WorkingLock(const std::string& log_file);
  ~WorkingLock();
  WorkingLock(const WorkingLock&) = delete;
  WorkingLock& operator=(const WorkingLock&) = delete;

  /// As many as wish at once. False while another excludes us.
  [[nodiscard]] bool share();
  /// False if another shares or excludes.
  [[nodiscard]] bool exclude();
  void leave() noexcept;

  enum class Others : std::uint8_t { none, share, exclude };
  [[nodiscard]] Others others() const;

 private:
  [[nodiscard]] bool set(short type) const;

  std::string file_;
  int fd_;
};

}  // namespace holdfast::sqlite
