#include "os/file_trust.hpp"

#include "os/errno_error.hpp"

namespace holdfast::os {

Result<FileTrust> FileTrust::of(const std::filesystem::path& file) {
  struct stat info{}, directory{};
  if (::lstat(file.c_str(), &info) != 0) return errno_error("cannot inspect " + file.string());
  if (!S_ISREG(info.st_mode)) {  // the mode of a link would trust everyone
    return Error(ErrorCode::ServiceUnavailable, file.string() + " is not a regular file");
  }
  const auto parent = file.parent_path();
  if (::stat(parent.c_str(), &directory) != 0) return errno_error("cannot inspect " + parent.string());
  return FileTrust{.owner = info.st_uid,
                   .group = info.st_gid,
                   .mode = info.st_mode & 0777U,
                   .anyone_can_write_there = (directory.st_mode & S_IWOTH) != 0};
}

bool FileTrust::trusts(const struct stat& beside) const noexcept {
  if (!S_ISREG(beside.st_mode) || beside.st_nlink != 1) return false;
  if (beside.st_uid == owner || beside.st_uid == 0) return true;
  if ((mode & S_IWOTH) != 0) return true;
  const bool is_the_groups = beside.st_gid == group && (beside.st_mode & 0777U) == mode;
  return (mode & S_IWGRP) != 0 && is_the_groups && !anyone_can_write_there;
}

}  // namespace holdfast::os
