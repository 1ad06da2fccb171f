#pragma once

#include <sys/types.h>

#include <cstdint>
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

/// Refuses files beside the database that another user may have put there (sys::FileTrust): SQLite would take
/// them for its own and with them whatever they say. Not -wake, which its user checks.
[[nodiscard]] Status check_neighbours(const std::filesystem::path& file);

/// Who else can put files beside the database, or replace it.
enum class Exposure : std::uint8_t {
  none,
  to_group,   ///< the directory's group, though the file is not theirs
  to_sticky,  ///< anyone, but what is there stays its owner's
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

/// The name of a file system type (statfs' f_type) on which SQLite's locks or shared memory do not reach
/// every process that can see the file; nothing for one that is fine.
[[nodiscard]] std::optional<std::string_view> unsafe_file_system(std::uint64_t type) noexcept;

/// Whether a path is one of the mount points in the text of /proc/self/mountinfo.
[[nodiscard]] bool is_listed_mount_point(std::string_view mountinfo, std::string_view path);

}  // namespace holdfast::sqlite
