#include "engine/sqlite/file_locations.hpp"

#include <fcntl.h>
#include <grp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <holdfast/sqlite.hpp>
#include <vector>

#include "os/errno_error.hpp"

namespace holdfast::sqlite {
namespace {

namespace fs = std::filesystem;

constexpr mode_t shared_file_mode = 0660;
constexpr mode_t shared_directory_mode = S_ISGID | 0770;
constexpr std::size_t longest_group_entry = std::size_t{64} * 1024;

Error unusable_store(const fs::path& where, const std::string& why,
                     ErrorCode code = ErrorCode::ServiceUnavailable) {
  return {code, "cannot use the store of this machine: " + where.string() + " " + why};
}

std::optional<gid_t> group_called(const char* name) {
  std::vector<char> text(longest_group_entry);
  struct group entry{}, *found = nullptr;
  if (::getgrnam_r(name, &entry, text.data(), text.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return entry.gr_gid;
}

std::string name_of_group(gid_t group) {
  std::vector<char> text(longest_group_entry);
  struct group entry{}, *found = nullptr;
  if (::getgrgid_r(group, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return std::to_string(group);
  }
  return entry.gr_name;
}

bool is_shared(const struct stat& directory) noexcept {
  return (directory.st_mode & S_IWGRP) != 0;
}

/// EEXIST, without changing `to`, if `to` exists.
int rename_unless_taken(const fs::path& from, const fs::path& to) noexcept {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL) return errno;
  // For a file system without RENAME_NOREPLACE. Ours may replace an empty directory; a file has two names for
  // a moment.
  struct stat info{};
  if (::lstat(from.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  return ::link(from.c_str(), to.c_str()) == 0 && ::unlink(from.c_str()) == 0 ? 0 : errno;
}

/// Gets its final name only after owner, group and mode are set: another process may open it at any moment.
/// All three are set by descriptor: by name, a user with write access there could make root change any file.
template <class Make>
Status put_in_place(const fs::path& target, gid_t group, mode_t mode, const Make& make) {
  std::string name = target.string() + "-XXXXXX";
  const int fd = make(name.data());
  if (fd < 0) return os::errno_error("cannot create " + target.string());
  const bool is_ready = ::fchown(fd, static_cast<uid_t>(-1), group) == 0 && ::fchmod(fd, mode) == 0;
  const int failed = is_ready ? 0 : errno;
  ::close(fd);
  const int taken = failed != 0 ? failed : rename_unless_taken(name, target);
  if (taken == 0) return Ok{};
  static_cast<void>(std::remove(name.c_str()));
  if (taken == EEXIST || taken == ENOTEMPTY) return Ok{};
  errno = taken;
  return os::errno_error("cannot create " + target.string());
}

Status make_directory(const fs::path& directory) {
  const auto group = group_called(system_group);
  return put_in_place(directory, group.value_or(0), group ? shared_directory_mode : 0700, [](char* name) {
    return ::mkdtemp(name) == nullptr ? -1 : ::open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  });
}

Status check_access(const fs::path& directory, const struct stat& info) {
  if (::faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0) return Ok{};
  if (errno != EACCES) return os::errno_error("cannot access " + directory.string());
  if (!is_shared(info)) {
    return unusable_store(directory, "is for root only. To share it, as root: " + how_to_share(directory),
                          ErrorCode::AuthFailed);
  }
  const auto group = name_of_group(info.st_gid);
  return unusable_store(directory,
                        "is for members of the group " + group +
                            ", and this process is not in it. As root: usermod -aG " + group +
                            " USER, then log in again",
                        ErrorCode::AuthFailed);
}

}  // namespace

std::string how_to_share(const fs::path& directory) {
  const std::string group = system_group;
  return "groupadd -f --system " + group + " && install -d -o root -g " + group + " -m 2770 " +
         directory.string() + " && usermod -aG " + group + " USER";
}

std::optional<std::string> objection_to_directory(const fs::path& directory, const struct stat& info) {
  const auto name = directory.string();
  if (!S_ISDIR(info.st_mode))
    return "is not a directory. Move it away, then as root: " + how_to_share(directory);
  if (info.st_uid != 0) {
    return "belongs to uid " + std::to_string(info.st_uid) +
           ", who could replace the locks of all users. As root: chown root " + name;
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return "is writable for every user, who could replace its files. As root: chmod o-w " + name;
  }
  if (is_shared(info) && (info.st_mode & S_ISGID) == 0) {
    return "is writable for its group, but new files in it would not belong to that group. As root: chmod "
           "g+s " +
           name;
  }
  return std::nullopt;
}

std::optional<std::string> objection_to_file(const fs::path& file, const struct stat& info,
                                             const struct stat& directory) {
  if (!S_ISREG(info.st_mode)) return "is not a regular file; move it away";
  if (!is_shared(directory)) return std::nullopt;
  if (info.st_gid == directory.st_gid && (info.st_mode & 0777U) == shared_file_mode) return std::nullopt;
  const auto name = file.string();
  return "is not shared with the group of its directory (it was not created through the URL system:). As "
         "root: "
         "chgrp " +
         name_of_group(directory.st_gid) + " " + name + "* && chmod 660 " + name + "*";
}

Status check_shared_file(const fs::path& file) {
  const auto directory = file.parent_path();
  struct stat info{}, found{};
  if (::lstat(directory.c_str(), &info) != 0) {
    if (errno != ENOENT) return os::errno_error("cannot inspect " + directory.string());
    return unusable_store(directory, "does not exist. As root: " + how_to_share(directory));
  }
  if (const auto objection = objection_to_directory(directory, info))
    return unusable_store(directory, *objection);
  if (const auto accessible = check_access(directory, info); !accessible) return accessible;
  if (::lstat(file.c_str(), &found) != 0) {
    if (errno == ENOENT) return Ok{};
    return os::errno_error("cannot inspect " + file.string());
  }
  if (const auto objection = objection_to_file(file, found, info)) return unusable_store(file, *objection);
  return Ok{};
}

Status prepare_shared_file(const fs::path& file) {
  const auto directory = file.parent_path();
  struct stat info{};
  if (::geteuid() == 0 && ::lstat(directory.c_str(), &info) != 0 && errno == ENOENT) {
    if (const auto made = make_directory(directory); !made) return made;
  }
  if (const auto usable = check_shared_file(file); !usable) return usable;
  if (::lstat(file.c_str(), &info) == 0) return Ok{};
  if (::lstat(directory.c_str(), &info) != 0) return os::errno_error("cannot inspect " + directory.string());
  const auto made = put_in_place(file, info.st_gid, is_shared(info) ? shared_file_mode : 0600,
                                 [](char* name) { return ::mkostemp(name, O_CLOEXEC); });
  return made ? check_shared_file(file) : made;  // another process may have created it first
}

}  // namespace holdfast::sqlite

namespace holdfast {
namespace {

/// Empty unless absolute: the XDG specification requires relative paths to be ignored.
std::filesystem::path absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);
  std::filesystem::path path(value == nullptr ? "" : value);
  return path.is_absolute() ? path : std::filesystem::path();
}

}  // namespace

Result<std::filesystem::path> default_sqlite_file() {
  auto state = absolute_path_in("XDG_STATE_HOME");
  if (state.empty()) {
    const auto home = absolute_path_in("HOME");
    if (home.empty()) {
      return Error(ErrorCode::InvalidArgument,
                   "no default database file: neither XDG_STATE_HOME nor HOME is an absolute path. Set one "
                   "of them, or use sqlite:PATH");
    }
    state = home / ".local" / "state";
  }
  return state / "holdfast" / "holdfast.db";
}

Result<std::filesystem::path> prepare_system_sqlite_file() {
  std::filesystem::path file(system_sqlite_file);
  if (const auto ready = sqlite::prepare_shared_file(file); !ready) return ready.error();
  return file;
}

}  // namespace holdfast
