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

/// The file's one true name, so that all processes agree on the names derived from it (-wal, -shm, -wake):
/// absolute and without symbolic links. The file itself may be missing, its directory not. Refuses a link
/// that another user may have put there, to lead this process to a file of its own.
[[nodiscard]] Result<std::filesystem::path> resolve(const std::filesystem::path& file);

/// Refuses a file that is missing though its -wal or -shm is there: it was moved or removed while a process
/// had it open, or after one was killed. A new one would be another store, with fences that begin again,
/// beside holders that do not know yet.
[[nodiscard]] Status check_not_taken_away(const std::filesystem::path& file);

/// Creates the file, empty and 0600, unless it exists or was taken away. `file` is resolved.
[[nodiscard]] Status create_if_missing(const std::filesystem::path& file);

/// Refuses what could give two processes different ideas of one file: anything but a regular file, a mount
/// point, several hard links, a file system that other machines share. Also what we may not write to.
[[nodiscard]] Status check_usable(const std::filesystem::path& file);
/// The same of a file that was found under that name, whatever the name leads to by now.
class PinnedFile;
[[nodiscard]] Status check_usable(const std::filesystem::path& file, const PinnedFile& found);

/// Refuses files beside the database that another user may have put there (os::FileTrust): SQLite would take
/// them, with all their content, for its own. Not -wake, which its user checks.
[[nodiscard]] Status check_neighbours(const std::filesystem::path& file);

/// Who else can put files beside the database, or replace it.
enum class Exposure : std::uint8_t {
  none,
  to_group,   ///< the directory's group, though the file is not theirs
  to_sticky,  ///< every user, but an existing file stays its owner's
  to_everyone,
};
[[nodiscard]] Exposure exposure_of(const std::filesystem::path& file);

/// Whether something is mounted at this very path: a file can be mounted over a file.
[[nodiscard]] Result<bool> is_mount_point(const std::filesystem::path& file);

/// Which file a path leads to.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
/// Nothing if the path leads nowhere, or cannot be followed; errno says which.
[[nodiscard]] std::optional<FileIdentity> identity_of(const char* path) noexcept;

/// What a path led to once. What is judged of it holds, whatever the path leads to later: its inode's number
/// is not given to another meanwhile. SQLite's locks do not depend on its descriptor (O_PATH).
class PinnedFile {
 public:
  /// Follows no symbolic link in the last place: that is what is pinned then.
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
  /// Of a symbolic link.
  [[nodiscard]] Result<std::filesystem::path> link_target() const;

 private:
  PinnedFile(int fd, const struct stat& info) : fd_(fd), info_(info) {}
  int fd_;
  struct stat info_;
};

/// The name of a file system type (statfs' f_type) on which SQLite's locks or shared memory do not reach
/// every process that can see the file; nothing for one that is fine.
[[nodiscard]] std::optional<std::string_view> unsafe_file_system(std::uint64_t type) noexcept;

/// Whether a path is one of the mount points in the text of /proc/self/mountinfo.
[[nodiscard]] bool is_listed_mount_point(std::string_view mountinfo, std::string_view path);

/// Records, while it lives, that this process has a file open in SQLite.
///
/// A forked child inherits SQLite's list of the locks on that file but not the locks. A connection that it
/// opened would find the locks in the list and take none; then the parent, closing last as far as the kernel
/// knows, deletes the write-ahead log under the child, and what the child writes is lost. So a child must not
/// open a file that was open when it was forked.
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
