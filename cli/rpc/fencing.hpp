#pragma once

#include <asio/awaitable.hpp>
#include <holdfast/storage_types.hpp>
#include <optional>

#include "rpc/method.hpp"

namespace holdfast::cli::rpc {

/// Under which lock a write is made, if the client says: by `lockId`, the id of a lock that this sidecar
/// granted or any other that is held, or by `fence` and `lockKey` (and `authority`, where the fence is
/// another store's). Throws Error(StaleFence) if the lock id holds nothing any more: what it guarded may be
/// somebody else's now.
[[nodiscard]] asio::awaitable<std::optional<FencingToken>> fencing_token(const Call& call);

}  // namespace holdfast::cli::rpc
