#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::rpc {

/// A listening Unix socket at a path, mode 0600 from its creation on, removed at the end if it is still ours.
class UnixSocket {
 public:
  /// Replaces a socket without a listener. Throws Error(InvalidArgument), whose message does not name the
  /// path, if the path is invalid, is not a socket, or has a listener.
  explicit UnixSocket(std::string path);
  ~UnixSocket();
  UnixSocket(const UnixSocket&) = delete;
  UnixSocket& operator=(const UnixSocket&) = delete;

  /// Readable when a client waits to be accepted.
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The next client, without waiting; empty if there is none. errno tells why.
  [[nodiscard]] posix::Descriptor accept() const noexcept;

 private:
  std::string path_;
  posix::Descriptor fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace holdfast::rpc
