#pragma once

#include <holdfast/sqlite.hpp>

#include "engine/sqlite/clock.hpp"

namespace holdfast::sqlite {

/// make_sqlite_lock_backend on a given clock.
[[nodiscard]] Result<std::shared_ptr<LockBackend>> open_lock_backend(const std::filesystem::path& file,
                                                                     const SqliteOptions& options,
                                                                     std::shared_ptr<Log> log, Clock clock);

}  // namespace holdfast::sqlite
