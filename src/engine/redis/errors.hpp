#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/error.hpp>

namespace holdfast::redis {

/// The Error that an error reply stands for. Its cause is the server's text, without what a server may quote
/// of the request. Requires is_error(reply).
[[nodiscard]] Error error_of(const redisReply& reply);

/// Whether the server does not have the script that EVALSHA named (a restart, SCRIPT FLUSH, a failover): the
/// same request as EVAL will do, and teaches it.
[[nodiscard]] bool is_noscript(const redisReply& reply) noexcept;

}  // namespace holdfast::redis
