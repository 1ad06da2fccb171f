#pragma once

#include <holdfast/sqlite.hpp>

#include "engine/sqlite/clock.hpp"

namespace holdfast::sqlite {

/// make_sqlite_storage_backend on a given clock.
[[nodiscard]] Result<std::shared_ptr<StorageBackend>> open_storage_backend(const std::filesystem::path& file,
                                                                           const SqliteOptions& options,
                                                                           std::shared_ptr<Log> log,
                                                                           Clock clock);

}  // namespace holdfast::sqlite
