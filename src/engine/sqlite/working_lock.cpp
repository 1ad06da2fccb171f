#include "engine/sqlite/working_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "sys/errno_error.hpp"

namespace holdfast::sqlite {
namespace {

/// Far behind what any log grows to.
struct flock one_byte(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t{1} << 60;
  lock.l_len = 1;
  return lock;
}

}  // namespace

WorkingLock::WorkingLock(const std::string& log_file)
    : file_(log_file), fd_(::open(log_file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (fd_ < 0) throw sys::errno_error("cannot open " + file_);
}

WorkingLock::~WorkingLock() {
  ::close(fd_);
}

bool WorkingLock::set(short type) const {
  const auto lock = one_byte(type);
  if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw sys::errno_error("cannot lock " + file_);
}

bool WorkingLock::share() {
  return set(F_RDLCK);
}

bool WorkingLock::exclude() {
  return set(F_WRLCK);
}

void WorkingLock::leave() noexcept {
  const auto lock = one_byte(F_UNLCK);
  ::fcntl(fd_, F_OFD_SETLK, &lock);
}

WorkingLock::Others WorkingLock::others() const {
  auto lock = one_byte(F_WRLCK);
  if (::fcntl(fd_, F_OFD_GETLK, &lock) != 0) throw sys::errno_error("cannot look at the locks of " + file_);
  if (lock.l_type == F_UNLCK) return Others::none;
  return lock.l_type == F_RDLCK ? Others::share : Others::exclude;
}

}  // namespace holdfast::sqlite
