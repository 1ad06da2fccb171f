#include "rpc/listening_socket.hpp"

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

#include "output.hpp"
#include "system_error.hpp"

namespace holdfast::cli::rpc {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why, int error = 0) {
  throw Error(ErrorCode::InvalidArgument, "--listen " + quote(path) + ": " + why,
              error != 0 ? std::strerror(error) : "");
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty()) refuse(path, "is empty");
  if (path.size() >= sizeof address.sun_path) {
    refuse(path, "is longer than the " + std::to_string(sizeof address.sun_path - 1) +
                     " bytes that the system allows for a socket; use a shorter directory");
  }
  path.copy(address.sun_path, path.size());
  return address;
}

Descriptor stream_socket() {
  return Descriptor(
      checked(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "cannot make a socket"));
}

/// Of two that start at the same time on one path, both may find a dead socket there; without an order, the
/// second would remove what the first has just made. The directory itself is the lock, so nothing is left
/// behind. Held for a moment.
Descriptor locked_directory_of(const std::string& path) {
  auto directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) refuse(path, "its directory cannot be opened", errno);
  for (int attempt = 0; flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    constexpr int attempts = 500;
    if (errno != EWOULDBLOCK || attempt == attempts) refuse(path, "its directory cannot be locked", errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

/// Makes sure that nothing is at the path.
void clear_the_way(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse(path, "cannot be looked at", errno);
    return;
  }
  if (!S_ISSOCK(status.st_mode)) refuse(path, "exists and is no socket; name another path");
  const auto probe = stream_socket();
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN) {
    refuse(path, "somebody listens there already; use that, or name another path");
  }
  if (errno != ECONNREFUSED) refuse(path, "there is a socket that cannot be used", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) refuse(path, "a dead socket cannot be removed", errno);
}

}  // namespace

ListeningSocket::ListeningSocket(std::string path) : path_(std::move(path)) {
  const auto address = address_of(path_);
  const auto directory = locked_directory_of(path_);
  clear_the_way(path_, address);
  auto fd = stream_socket();
  // Linux gives the file the socket's own mode, so there is no moment in which others could connect.
  constexpr mode_t owners = S_IRUSR | S_IWUSR;
  checked(fchmod(fd.get(), owners), "cannot set the mode of a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse(path_, "cannot be made", errno);
  }
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  fd_ = std::move(fd);
  constexpr int backlog = 128;
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse(path_, "others could use it on this file system");
  // A umask may have taken from the owner too.
  if ((status.st_mode & owners) != owners &&
      fchmodat(AT_FDCWD, path_.c_str(), owners, AT_SYMLINK_NOFOLLOW) != 0) {
    refuse(path_, "its mode cannot be set", errno);
  }
  checked(listen(fd_.get(), backlog), "cannot listen");
}

ListeningSocket::~ListeningSocket() {
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

Descriptor ListeningSocket::accept() const noexcept {
  return Descriptor(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace holdfast::cli::rpc
