#include "engine/sqlite/file_checks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "os/errno_error.hpp"
#include "os/file_trust.hpp"
#include "os/process.hpp"

namespace holdfast::sqlite {
namespace {

namespace fs = std::filesystem;

/// SQLite's unix VFS rejects longer names, including the suffix of a side file.
constexpr std::size_t longest_path = 500;

Error unusable(const fs::path& file, const std::string& why_and_what_to_do) {
  return {ErrorCode::ServiceUnavailable, "cannot use " + file.string() + ": " + why_and_what_to_do};
}

Result<fs::path> canonical(const fs::path& path, const std::string& if_missing) {
  std::error_code failed;
  auto real = fs::canonical(path, failed);
  if (!failed) return real;
  if (failed == std::errc::no_such_file_or_directory) return unusable(path, if_missing);
  errno = failed.value();
  return os::errno_error("cannot use " + path.string());
}

/// Undoes mountinfo's \ooo escapes of blanks and backslashes.
std::string unescaped(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size()) {
      const auto digit = [&](std::size_t at) { return field[at] - '0'; };
      text += static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3));
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

struct OpenEntry {
  FileIdentity file;
  os::ProcessIdentity opened_in;
};

struct Registry {
  std::mutex mutex;
  std::vector<OpenEntry> entries;
};

/// Never destroyed: backends in static storage may be destroyed later.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

/// Like the kernel's protected_symlinks, but for every directory that others can write to, not only sticky
/// ones. A link with several names is refused: another user may have hard-linked root's link.
bool may_be_followed(const struct stat& link, const struct stat& directory) {
  if ((directory.st_mode & (S_IWGRP | S_IWOTH)) == 0) return true;
  const bool is_trusted = link.st_uid == ::geteuid() || link.st_uid == 0 || link.st_uid == directory.st_uid;
  return is_trusted && link.st_nlink == 1;
}

/// The target of a link at the time of its check: another user may replace the link at any moment.
Result<fs::path> followed(const fs::path& path, const fs::path& directory) {
  const auto link = PinnedFile::at(path);
  if (!link) return link.error();
  if (!S_ISLNK(link->info().st_mode)) return path;
  struct stat where{};
  if (::stat(directory.c_str(), &where) != 0) return os::errno_error("cannot inspect " + directory.string());
  if (!may_be_followed(link->info(), where)) {
    return unusable(path,
                    "it is a symbolic link of uid " + std::to_string(link->info().st_uid) +
                        " in a directory that other users can write to; use the path of the file itself");
  }
  auto target = link->link_target();
  if (!target) return target;
  std::error_code failed;
  *target = directory / *target;  // an absolute one stays as it is
  if (!fs::exists(*target, failed)) {
    return unusable(path, "it is a broken symbolic link; create its target, or remove it");
  }
  return target;
}

Result<fs::path> resolve_links(const fs::path& file, int links_left) {
  if (file.empty()) return Error(ErrorCode::InvalidArgument, "the path of the database file is empty");
  if (!file.has_filename()) return unusable(file, "it is a directory; use a file in it");
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  auto real_directory = canonical(directory, "this directory does not exist; create it with mode 0700");
  if (!real_directory) return real_directory;

  fs::path real = *real_directory / file.filename();
  std::error_code failed;
  if (fs::is_symlink(real, failed)) {
    if (links_left == 0) return unusable(real, "too many symbolic links; use the path of the file itself");
    auto target = followed(real, *real_directory);
    if (!target) return target;
    if (*target != real) return resolve_links(*target, links_left - 1);
  }
  if (real.native().size() > longest_path) {
    return unusable(real, "the path is longer than " + std::to_string(longest_path) +
                              " bytes, more than SQLite can open; use a shorter path");
  }
  return real;
}

}  // namespace

Result<fs::path> resolve(const fs::path& file) {
  constexpr int most_links = 40;  // as the kernel's
  return resolve_links(file, most_links);
}

Status check_not_taken_away(const fs::path& file) {
  const auto is_missing = [](const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) != 0 && errno == ENOENT;
  };
  if (!is_missing(file.string())) return Ok{};
  for (const char* suffix : {"-wal", "-shm"}) {
    const std::string beside = file.string() + suffix;
    // A process that is creating the file makes its side files after it: then the file exists now.
    if (is_missing(beside) || !is_missing(file.string())) continue;
    return unusable(file, "it is missing, but " + beside +
                              " exists: the database was moved or removed while in use. Restore it; or stop "
                              "all processes that use it, then remove " +
                              file.string() + "-wal, -shm and -wake");
  }
  return Ok{};
}

Status create_if_missing(const fs::path& file) {
  if (auto taken = check_not_taken_away(file); !taken) return taken;
  // mknod, not open: see the header.
  if (::mknod(file.c_str(), S_IFREG | S_IRUSR | S_IWUSR, 0) == 0 || errno == EEXIST) return Ok{};
  return os::errno_error("cannot create " + file.string() +
                         "; check the owner and mode of its directory, or use another file");
}

Status check_usable(const fs::path& file) {
  const auto found = PinnedFile::at(file);
  return found ? check_usable(file, *found) : found.error();
}

Status check_usable(const fs::path& file, const PinnedFile& found) {
  const auto& info = found.info();
  if (S_ISDIR(info.st_mode)) return unusable(file, "it is a directory; use a file in it");
  if (!S_ISREG(info.st_mode)) return unusable(file, "it is not a regular file; use another path");
  if (info.st_nlink > 1) {
    return unusable(file, "it has " + std::to_string(info.st_nlink) +
                              " hard links, and processes that use different names would not see each "
                              "other's locks; keep one name");
  }
  const auto mount_point = is_mount_point(file);
  if (!mount_point) return mount_point.error();
  if (*mount_point) {
    return unusable(file,
                    "the file itself is a mount point, and processes that use the hidden file would not see "
                    "the same locks; mount its directory instead");
  }
  struct statfs system{};
  if (::statfs(file.c_str(), &system) != 0) return os::errno_error("cannot inspect " + file.string());
  if (const auto name = unsafe_file_system(static_cast<std::uint64_t>(system.f_type))) {
    return unusable(file, "it is on " + std::string(*name) +
                              ", where file locks and shared memory do not work between all processes; use a "
                              "local file system");
  }
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    return os::errno_error("cannot read and write " + file.string() + "; check its owner and mode");
  }
  const fs::path directory = file.parent_path();
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return os::errno_error("cannot create files next to " + file.string() +
                           ", which SQLite requires; check the owner and mode of its directory");
  }
  return Ok{};
}

Status check_neighbours(const fs::path& file) {
  const auto trust = os::FileTrust::of(file);
  if (!trust) return trust.error();
  if (trust->anyone_can_write_there && trust->owner != ::geteuid() && trust->owner != 0 &&
      (trust->mode & (S_IWGRP | S_IWOTH)) == 0) {
    return unusable(file,
                    "it belongs to another user, and every user can create files in its directory; use a "
                    "directory that only you can write to");
  }
  for (const char* suffix : {"-wal", "-shm", "-journal"}) {
    const std::string beside = file.string() + suffix;
    struct stat info{};
    if (::lstat(beside.c_str(), &info) != 0) {
      if (errno == ENOENT) continue;
      return os::errno_error("cannot inspect " + beside);
    }
    // Removed between the lookups of its name and its inode, like the -journal of a process that is creating
    // the file.
    if (info.st_nlink == 0) continue;
    if (!trust->trusts(info)) {
      return unusable(file, beside +
                                " belongs to another user, or is not a regular file, and SQLite would trust "
                                "it. Remove it, and use a directory that other users cannot write to");
    }
  }
  return Ok{};
}

Exposure exposure_of(const fs::path& file) {
  struct stat info{}, directory{};
  if (::stat(file.parent_path().c_str(), &directory) != 0) return Exposure::none;
  if (::stat(file.c_str(), &info) != 0) info.st_mode = 0600;
  if ((directory.st_mode & S_IWOTH) != 0 && (info.st_mode & S_IWOTH) == 0) {
    return (directory.st_mode & S_ISVTX) != 0 ? Exposure::to_sticky : Exposure::to_everyone;
  }
  const bool groups = (directory.st_mode & S_IWGRP) != 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return groups ? Exposure::to_group : Exposure::none;
}

Result<bool> is_mount_point(const fs::path& file) {
  struct statx info{};
  if (::statx(AT_FDCWD, file.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &info) != 0) {
    return os::errno_error("cannot inspect " + file.string());
  }
  if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  std::ifstream mounts("/proc/self/mountinfo");  // a kernel before 5.8
  if (!mounts) return unusable(file, "cannot check whether it is a mount point; mount /proc");
  const std::string text(std::istreambuf_iterator<char>(mounts), {});
  return is_listed_mount_point(text, file.string());
}

Result<PinnedFile> PinnedFile::at(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return os::errno_error("cannot inspect " + path.string());
  PinnedFile pinned(fd, {});
  if (::fstat(fd, &pinned.info_) != 0) return os::errno_error("cannot inspect " + path.string());
  return pinned;
}

PinnedFile::~PinnedFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool PinnedFile::is_at(const char* path) const noexcept {
  struct stat now{};
  return ::lstat(path, &now) == 0 && now.st_dev == info_.st_dev && now.st_ino == info_.st_ino;
}

Result<fs::path> PinnedFile::link_target() const {
  std::string text(PATH_MAX, '\0');
  const auto length = ::readlinkat(fd_, "", text.data(), text.size());
  if (length < 0) return os::errno_error("cannot read a symbolic link");
  text.resize(static_cast<std::size_t>(length));
  return fs::path(text);
}

std::optional<FileIdentity> identity_of(const char* path) noexcept {
  // Not stat(): this is called for the log between a write and its sync. A kernel since 6.13 gives a file
  // whose times were asked for new ones at its next write, and the sync then writes them too: it cost half as
  // much again.
  struct statx info{};
  if (::statx(AT_FDCWD, path, 0, STATX_INO, &info) != 0) return std::nullopt;
  return FileIdentity{.device = makedev(info.stx_dev_major, info.stx_dev_minor), .inode = info.stx_ino};
}

std::optional<std::string_view> unsafe_file_system(std::uint64_t type) noexcept {
  // Numbers from linux/magic.h and the file systems' own sources; not all are in every kernel's headers.
  static constexpr auto unsafe = std::to_array<std::pair<std::uint32_t, std::string_view>>({
      {0x6969, "NFS"},
      {0x517B, "SMB"},
      {0xFE534D42, "SMB2"},
      {0xFF534D42, "CIFS"},
      {0x564C, "NCP"},
      {0x01021997, "9p"},
      {0x65735546, "FUSE"},  // sshfs, virtiofs, GlusterFS and many more
      {0x00C36400, "Ceph"},
      {0x5346414F, "AFS"},
      {0x6B414653, "AFS"},
      {0x73757245, "Coda"},
      {0x0BD00BD0, "Lustre"},
      {0x01161970, "GFS2"},
      {0x7461636F, "OCFS2"},
      {0x47504653, "GPFS"},
      {0x19830326, "BeeGFS"},
      {0xAAD7AAEA, "PanFS"},
      {0x20030528, "OrangeFS"},
      {0x61636673, "ACFS"},
      {0x786F4256, "a VirtualBox shared folder"},
      {0xBACBACBC, "a VMware shared folder"},
      {0x7C7C6673, "a Parallels shared folder"},
  });
  // f_type is a signed word on some machines; the numbers are 32 bits wide.
  const auto number = static_cast<std::uint32_t>(type);
  const auto found = std::ranges::find(unsafe, number, &std::pair<std::uint32_t, std::string_view>::first);
  if (found == unsafe.end()) return std::nullopt;
  return found->second;
}

bool is_listed_mount_point(std::string_view mountinfo, std::string_view path) {
  constexpr int mount_point_field = 4;
  while (!mountinfo.empty()) {
    std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(mountinfo.size(), line.size() + 1));
    for (int field = 0; field < mount_point_field; ++field) {
      line.remove_prefix(std::min(line.size(), std::min(line.find(' '), line.size()) + 1));
    }
    if (unescaped(line.substr(0, line.find(' '))) == path) return true;
  }
  return false;
}

OpenFile::OpenFile(FileIdentity file) : file_(file) {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  entries.push_back({.file = file, .opened_in = {}});
}

OpenFile::~OpenFile() {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  const auto mine = std::ranges::find_if(
      entries, [&](const OpenEntry& entry) { return entry.file == file_ && entry.opened_in.is_current(); });
  if (mine != entries.end()) entries.erase(mine);
}

bool OpenFile::inherited(FileIdentity file) {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(
      entries, [&](const OpenEntry& entry) { return entry.file == file && !entry.opened_in.is_current(); });
}

}  // namespace holdfast::sqlite
