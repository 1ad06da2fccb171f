#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <holdfast/result.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace holdfast::sqlite {

// None of these functions opens the database file: closing any descriptor of it would drop the locks that
// SQLite holds on it for the whole process.

/// The file's canonical name, so that all processes derive the same names from it (-wal, -shm, -wake):
/// absolute and without symbolic links. The file itself may be missing, its directory must exist. Refuses a
/// link that another user may have put there to redirect this process.
[[nodiscard]] Result<std::filesystem::path> resolve(const std::filesystem::path& file);

/// Refuses a missing file whose -wal or -shm exists: it was moved or removed while a process had it open, or
/// after one was killed. A new file would be another store with restarted fences, while holders of the old
/// one may still be unaware.
[[nodiscard]] Status check_not_taken_away(const std::filesystem::path& file);

/// Creates the file, empty and 0600, unless it exists or was moved or removed. `file` is resolved.
[[nodiscard]] Status create_if_missing(const std::filesystem::path& file);

/// Refuses files that two processes could see differently: anything but a regular file, a mount point,
/// several hard links, a file system that other machines share. Refuses files without write permission too.
[[nodiscard]] Status check_usable(const std::filesystem::path& file);
/// The same for a file that was found under that name, whatever the name leads to by now.
class PinnedFile;
[[nodiscard]] Status check_usable(const std::filesystem::path& file, const PinnedFile& found);

/// Refuses side files that another user may have put there (os::FileTrust): SQLite would trust their content.
/// The -wake file is not checked here; WakeTable checks it.
[[nodiscard]] Status check_neighbours(const std::filesystem::path& file);

/// Which other users can put files beside the database, or replace it.
enum class Exposure : std::uint8_t {
  none,
  to_group,   ///< the directory's group, though it does not share the file
  to_sticky,  ///< every user, but only its owner can replace a file
  to_everyone,
};
[[nodiscard]] Exposure exposure_of(const std::filesystem::path& file);

/// Whether this exact path is a mount point: a file can be mounted over a file.
[[nodiscard]] Result<bool> is_mount_point(const std::filesystem::path& file);

/// Identifies the file that a path leads to.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
/// Empty if the path leads nowhere or cannot be followed; errno distinguishes these.
[[nodiscard]] std::optional<FileIdentity> identity_of(const char* path) noexcept;

/// The file that a path led to at one time. Checks of it stay valid, whatever the path leads to later: its
/// inode number is not reused meanwhile. Its descriptor (O_PATH) does not affect SQLite's locks.
class PinnedFile {
 public:
  /// Does not follow a symbolic link in the last component: the link itself is pinned then.
  [[nodiscard]] static Result<PinnedFile> at(const std::filesystem::path& path);
  ~PinnedFile();
  PinnedFile(PinnedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), info_(other.info_) {}
  PinnedFile& operator=(PinnedFile&&) = delete;

  [[nodiscard]] const struct stat& info() const noexcept { return info_; }
  [[nodiscard]] FileIdentity identity() const noexcept {
    return {.device = info_.st_dev, .inode = info_.st_ino};
  }
  /// Whether the path, and not a link there, leads to it now.
  [[nodiscard]] bool is_at(const char* path) const noexcept;
  /// The target of a symbolic link.
  [[nodiscard]] Result<std::filesystem::path> link_target() const;

 private:
  PinnedFile(int fd, const struct stat& info) : fd_(fd), info_(info) {}
  int fd_;
  struct stat info_;
};

/// The name of a file system type (statfs' f_type) on which SQLite's locks or shared memory do not reach
/// every process that can see the file; empty for a safe one.
[[nodiscard]] std::optional<std::string_view> unsafe_file_system(std::uint64_t type) noexcept;

/// Whether a path is one of the mount points in the text of /proc/self/mountinfo.
[[nodiscard]] bool is_listed_mount_point(std::string_view mountinfo, std::string_view path);

/// Records, while it lives, that this process has a file open in SQLite.
///
/// A forked child inherits SQLite's list of the locks on that file but not the locks. A connection opened by
/// the child would find the locks in the list and not acquire them. Then the parent, the last user as far as
/// the kernel knows, deletes the write-ahead log on close, and the child's writes are lost. So a child must
/// not open a file that was open when it was forked.
class OpenFile {
 public:
  explicit OpenFile(FileIdentity file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Whether the file was open in SQLite when this process was forked.
  [[nodiscard]] static bool inherited(FileIdentity file);

 private:
  FileIdentity file_;
};

}  // namespace holdfast::sqlite
