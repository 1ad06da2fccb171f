#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/storage_backend.hpp>
#include <optional>

#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

// As in record_commands.hpp. Output is kept in fields of the record's hash: so it expires and is removed with
// the record, also by other software. An append may be sent twice: positions show what is there already.

[[nodiscard]] RoutedCommand append_command(const StorageLayout& layout, const AppendOutput& request, By by);
[[nodiscard]] Result<AppendOutcome> append_outcome(const redisReply& reply, const AppendOutput& request);

[[nodiscard]] RoutedCommand read_command(const StorageLayout& layout, const ReadOutput& request, By by);
[[nodiscard]] Result<std::optional<KeptOutput>> read_outcome(const redisReply& reply,
                                                             const ReadOutput& request);

}  // namespace holdfast::redis
