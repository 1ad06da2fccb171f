#include "rpc/transport/unix_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <holdfast/error.hpp>
#include <thread>

namespace holdfast::rpc {
namespace {

using posix::checked;
using posix::Descriptor;

[[noreturn]] void refuse(const std::string& why, int error = 0) {
  throw Error(ErrorCode::InvalidArgument, why, error != 0 ? std::strerror(error) : "");
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty()) refuse("is empty");
  if (path.size() >= sizeof address.sun_path) {
    refuse("is longer than the " + std::to_string(sizeof address.sun_path - 1) +
           " bytes that the system allows for a socket path; use a shorter path");
  }
  path.copy(address.sun_path, path.size());
  return address;
}

Descriptor stream_socket() {
  return Descriptor(
      checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "cannot create a socket"));
}

/// Two servers that start at the same time on one path may both find a dead socket there; without an order,
/// the second would remove the socket that the first has just made. The directory itself is the lock, so no
/// lock file is left behind. Held for a moment.
Descriptor locked_directory_of(const std::string& path) {
  auto directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) refuse("its directory cannot be opened", errno);
  for (int attempt = 0; flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    constexpr int attempts = 500;
    if (errno != EWOULDBLOCK || attempt == attempts) refuse("its directory cannot be locked", errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

/// Removes a dead socket from the path.
void remove_dead_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse("cannot be inspected", errno);
    return;
  }
  if (!S_ISSOCK(status.st_mode)) refuse("exists and is not a socket; use another path");
  const auto probe = stream_socket();
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN) {
    refuse("another process already listens there; use that one, or another path");
  }
  if (errno != ECONNREFUSED) refuse("the existing socket cannot be used", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) refuse("the stale socket cannot be removed", errno);
}

}  // namespace

UnixSocket::UnixSocket(std::string path) : path_(std::move(path)) {
  const auto address = address_of(path_);
  const auto directory = locked_directory_of(path_);
  remove_dead_socket(path_, address);
  auto fd = stream_socket();
  // Linux gives the file the socket's own mode, so other users cannot connect at any moment.
  constexpr mode_t owners = S_IRUSR | S_IWUSR;
  checked(fchmod(fd.get(), owners), "cannot set the mode of a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse("cannot be created", errno);
  }
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  fd_ = std::move(fd);
  constexpr int backlog = 128;
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse("other users could access it on this file system");
  // A umask may have removed rights of the owner too.
  if ((status.st_mode & owners) != owners &&
      fchmodat(AT_FDCWD, path_.c_str(), owners, AT_SYMLINK_NOFOLLOW) != 0) {
    refuse("its mode cannot be set", errno);
  }
  checked(listen(fd_.get(), backlog), "cannot listen");
}

UnixSocket::~UnixSocket() {
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

Descriptor UnixSocket::accept() const noexcept {
  return Descriptor(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace holdfast::rpc
