#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <holdfast/result.hpp>

namespace holdfast::os {

/// Decides which files beside a database file can be trusted. Another user with write access to the directory
/// could put a forged log there, or a file to be mapped that is truncated later.
struct FileTrust {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0600;                   ///< permissions of the file
  bool anyone_can_write_there = false;  ///< in its directory

  [[nodiscard]] static Result<FileTrust> of(const std::filesystem::path& file);

  /// Pure. Trusts a regular file with one name, owned by the file's owner or root. If the file's group shares
  /// it: any owner's file with the same group and mode, unless every user can create files in the directory.
  /// If every user may write the file itself: any owner's file.
  [[nodiscard]] bool trusts(const struct stat& beside) const noexcept;
};

}  // namespace holdfast::os
