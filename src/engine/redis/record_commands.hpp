#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>

#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

// Each operation of the storage contract: builds its command and interprets its reply. An error reply, or one
// that the script cannot return, becomes an Error that carries the request's key.
//
// `id` identifies a change: copies that are resent after a lost answer carry the same id. 22 characters of
// base64url.

/// A record keeps the ids of this many of its last writes (parts/task_write.lua).
inline constexpr std::uint64_t remembered_writes = 8;

[[nodiscard]] RoutedCommand get_command(const StorageLayout& layout, const GetRecord& request, By by);
[[nodiscard]] Result<std::optional<StoredRecord>> get_outcome(const redisReply& reply, const RecordKey& key);

[[nodiscard]] RoutedCommand create_command(const StorageLayout& layout, const CreateRecord& request,
                                           const std::string& id, By by);
[[nodiscard]] Result<CreateOutcome> create_outcome(const redisReply& reply, const CreateRecord& request,
                                                   const std::string& id);
/// The server's time in an answer to create; empty for an error.
[[nodiscard]] std::optional<std::int64_t> server_time_of(const redisReply& reply);

[[nodiscard]] RoutedCommand put_command(const StorageLayout& layout, const PutRecord& request,
                                        const std::string& id, By by);
[[nodiscard]] Result<PutOutcome> put_outcome(const redisReply& reply, const PutRecord& request);

[[nodiscard]] RoutedCommand remove_command(const StorageLayout& layout, const RemoveRecord& request, By by);
[[nodiscard]] Result<RemoveOutcome> remove_outcome(const redisReply& reply, const RemoveRecord& request);

[[nodiscard]] RoutedCommand guard_command(const StorageLayout& layout, const BindRecord& request,
                                          const std::string& id, By by);
[[nodiscard]] Result<BindOutcome> guard_outcome(const redisReply& reply, const BindRecord& request);

[[nodiscard]] RoutedCommand rebind_command(const StorageLayout& layout, const RebindRecord& request, By by);
[[nodiscard]] Result<RebindOutcome> rebind_outcome(const redisReply& reply, const RebindRecord& request);

/// `request.prefix` without its colon is the owner.
[[nodiscard]] RoutedCommand list_command(const StorageLayout& layout, const ListRecords& request, By by);
[[nodiscard]] Result<RecordPage> list_outcome(const redisReply& reply, const ListRecords& request);

}  // namespace holdfast::redis
