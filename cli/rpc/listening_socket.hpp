#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "descriptor.hpp"

namespace holdfast::cli::rpc {

/// A Unix socket at a path, mode 0600 from its first moment, removed at the end if it is still ours.
class ListeningSocket {
 public:
  /// Takes the place of a socket that nobody listens on any more. Throws Error(InvalidArgument) if the path
  /// cannot be one, is something else's, or somebody listens there.
  explicit ListeningSocket(std::string path);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  /// To wait for: readable when a client has come.
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The next client, without waiting; empty if there is none. errno says why.
  [[nodiscard]] Descriptor accept() const noexcept;

 private:
  std::string path_;
  Descriptor fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace holdfast::cli::rpc
