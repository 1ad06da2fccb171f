#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <holdfast/result.hpp>

namespace holdfast::os {

/// Whose files beside a file may be taken for its own. Another user who can create files in the directory
/// could put a log of his own making there, or a file to be mapped that he then cuts short.
struct FileTrust {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0600;                   ///< permissions of the file
  bool anyone_can_write_there = false;  ///< in its directory

  [[nodiscard]] static Result<FileTrust> of(const std::filesystem::path& file);

  /// Pure. A regular file with one name, of the owner's or root's. Where the file's group shares it: of
  /// anyone's whose group and mode are the file's, unless anyone at all can create files there. Where every
  /// user may write the file itself: of anyone's.
  [[nodiscard]] bool trusts(const struct stat& beside) const noexcept;
};

}  // namespace holdfast::os
