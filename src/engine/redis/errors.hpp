#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/error.hpp>
#include <string_view>

namespace holdfast::redis {

inline constexpr std::string_view cluster_is_not_supported =
    "this Redis server is a member of a cluster, which is not supported; use a single server";

/// What the server said, without what it may quote of the request: a password, a lock id. Requires
/// is_error(reply).
[[nodiscard]] std::string_view server_text(const redisReply& reply) noexcept;

/// The Error that an error reply stands for. Its cause is the `server_text`. Requires is_error(reply).
[[nodiscard]] Error error_of(const redisReply& reply);
/// The same; one about the kind of a value names the key.
[[nodiscard]] Error error_of(const redisReply& reply, std::string_view key);

/// Whether the server refuses because it is a replica (READONLY, MASTERDOWN): the one that its address stood
/// for has been demoted, or the wrong one was named.
[[nodiscard]] bool is_from_replica(const redisReply& reply) noexcept;

/// Whether the server refused before the first write: a script that is answered so has changed nothing. What
/// these errors depend on does not change while a script runs.
[[nodiscard]] bool refused_before_writing(const redisReply& reply) noexcept;

/// Whether the server does not have the script that EVALSHA named (a restart, SCRIPT FLUSH, a failover): the
/// same request as EVAL will do, and teaches it.
[[nodiscard]] bool is_noscript(const redisReply& reply) noexcept;

}  // namespace holdfast::redis
