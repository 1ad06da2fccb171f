#include "os/event.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "os/errno_error.hpp"

namespace holdfast::os {

Event::Event() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw errno_error("cannot create an event descriptor");
}

Event::~Event() {
  close(fd_);
}

void Event::set() noexcept {
  eventfd_write(fd_, 1);
}

void Event::clear() noexcept {
  eventfd_t count = 0;
  eventfd_read(fd_, &count);
}

}  // namespace holdfast::os
