#include "waiting/mark_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace holdfast::waiting {
namespace {

struct flock bytes(short kind, std::uint64_t from, std::uint64_t count) noexcept {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(from);
  lock.l_len = static_cast<off_t>(count);
  return lock;
}

}  // namespace

int MarkFile::open() const noexcept {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat found{};
  if (::fstat(fd, &found) == 0 && found.st_dev == device && found.st_ino == inode) return fd;
  ::close(fd);
  return -1;
}

bool lock_byte(int fd, std::uint64_t byte) noexcept {
  auto lock = bytes(F_WRLCK, byte, 1);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void unlock_byte(int fd, std::uint64_t byte) noexcept {
  auto unlock = bytes(F_UNLCK, byte, 1);
  ::fcntl(fd, F_OFD_SETLK, &unlock);
}

FoundLock find_lock(int fd, std::uint64_t from, std::uint64_t count) noexcept {
  auto other = bytes(F_WRLCK, from, count);
  if (::fcntl(fd, F_OFD_GETLK, &other) != 0) return {};
  if (other.l_type == F_UNLCK) return {.is_known = true, .byte = std::nullopt};
  return {.is_known = true, .byte = static_cast<std::uint64_t>(other.l_start)};
}

}  // namespace holdfast::waiting
