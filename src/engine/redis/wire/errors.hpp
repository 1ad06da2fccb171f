#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/error.hpp>
#include <string_view>

namespace holdfast::redis {

inline constexpr std::string_view is_in_cluster =
    "this Redis server is a member of a cluster; use redis+cluster://HOST";

/// The server's message, without the parts of the request that it may quote: a password, a lock id. Requires
/// is_error(reply).
[[nodiscard]] std::string_view server_text(const redisReply& reply) noexcept;

/// The Error for an error reply. Its cause is the `server_text`. Requires is_error(reply).
[[nodiscard]] Error error_of(const redisReply& reply);
/// The same; an error about a value's type names the key.
[[nodiscard]] Error error_of(const redisReply& reply, std::string_view key);

/// Whether the server refuses because it is a replica (READONLY, MASTERDOWN): the master at this address was
/// demoted, or the address is wrong.
[[nodiscard]] bool is_from_replica(const redisReply& reply) noexcept;

/// Whether the server refused before the first write: a script with this answer has changed nothing. The
/// conditions of these errors do not change while a script runs.
[[nodiscard]] bool refused_before_writing(const redisReply& reply) noexcept;

/// Whether the server lacks the script that EVALSHA named (a restart, SCRIPT FLUSH, a failover): sending the
/// same request as EVAL works, and loads the script.
/// The value at a key has another type than the command needs.
[[nodiscard]] bool is_wrong_type(const redisReply& reply) noexcept;
[[nodiscard]] bool is_noscript(const redisReply& reply) noexcept;

}  // namespace holdfast::redis
