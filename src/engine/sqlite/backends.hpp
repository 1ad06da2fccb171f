#pragma once

#include <filesystem>
#include <holdfast/doctor.hpp>
#include <holdfast/sqlite.hpp>
#include <memory>
#include <vector>

#include "engine/sqlite/clock.hpp"

namespace holdfast::sqlite {

/// make_sqlite_lock_backend on a given clock.
[[nodiscard]] Result<std::shared_ptr<LockBackend>> open_lock_backend(const std::filesystem::path& file,
                                                                     const SqliteOptions& options,
                                                                     std::shared_ptr<Log> log, Clock clock);

/// make_sqlite_storage_backend on a given clock.
[[nodiscard]] Result<std::shared_ptr<StorageBackend>> open_storage_backend(const std::filesystem::path& file,
                                                                           const SqliteOptions& options,
                                                                           std::shared_ptr<Log> log,
                                                                           Clock clock);

/// Examines a database file as `holdfast::examine` does. Creates nothing.
[[nodiscard]] Result<std::vector<Finding>> examine_file(const std::filesystem::path& file);

}  // namespace holdfast::sqlite
