#pragma once

#include <sys/types.h>

#include <filesystem>
#include <holdfast/result.hpp>
#include <optional>
#include <string_view>

namespace holdfast::sqlite {

/// None of these functions opens the database file: closing any descriptor of it would drop the locks that
/// SQLite holds on it for the whole process.

/// The file's one true name, so that all processes agree on the names derived from it (-wal, -shm, -wake):
/// absolute and without symbolic links. The file itself may be missing, its directory not.
[[nodiscard]] Result<std::filesystem::path> resolve(const std::filesystem::path& file);

/// Creates the file, empty and 0600, unless it exists. `file` is resolved.
[[nodiscard]] Status create_if_missing(const std::filesystem::path& file);

/// Refuses what could give two processes different ideas of one file: anything but a regular file, a mount
/// point, several hard links, a file system that other machines share. Also what we may not write to.
[[nodiscard]] Status check_usable(const std::filesystem::path& file);

/// Which file a path leads to.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
/// Nothing if the path leads nowhere.
[[nodiscard]] std::optional<FileIdentity> identity_of(const char* path) noexcept;

/// The name of a file system type (statfs' f_type) on which SQLite's locks or shared memory do not reach
/// every process that can see the file; nothing for one that is fine.
[[nodiscard]] std::optional<std::string_view> unsafe_file_system(std::uint64_t type) noexcept;

/// Whether a path is one of the mount points in the text of /proc/self/mountinfo.
[[nodiscard]] bool is_listed_mount_point(std::string_view mountinfo, std::string_view path);

}  // namespace holdfast::sqlite
