#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <holdfast/result.hpp>
#include <optional>
#include <string>

namespace holdfast::sqlite {

/// Users of one machine share its locks if they share this directory's group.
inline constexpr const char* system_group = "holdfast";

/// Why a directory cannot hold the locks of a whole machine, and what to do about it; empty if it can. It
/// must belong to root, so that no user can replace the file, and new files there must get its group. Pure.
[[nodiscard]] std::optional<std::string> objection_to_directory(const std::filesystem::path& directory,
                                                                const struct stat& info);

/// The same for the file there, if the directory's group is to share it.
[[nodiscard]] std::optional<std::string> objection_to_file(const std::filesystem::path& file,
                                                           const struct stat& info,
                                                           const struct stat& directory);

/// The commands, for root, that create a directory shared by a group.
[[nodiscard]] std::string how_to_share(const std::filesystem::path& directory);

/// Implements prepare_system_sqlite_file(), for a file of any name.
[[nodiscard]] Status prepare_shared_file(const std::filesystem::path& file);

/// Returns the error that prepare_shared_file would return, without changing anything. The file itself may be
/// missing.
[[nodiscard]] Status check_shared_file(const std::filesystem::path& file);

}  // namespace holdfast::sqlite
