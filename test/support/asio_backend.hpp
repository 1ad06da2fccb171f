#pragma once

#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>

namespace holdfast::test {

/// The same engine, every operation of which goes through holdfast::async_call: its answer comes to a handler
/// on the thread of an io_context, and a stop request to it through the handler's cancellation slot. So what
/// holds for an engine must hold for the adapter.
std::shared_ptr<LockBackend> through_asio(std::shared_ptr<LockBackend> engine);
std::shared_ptr<StorageBackend> through_asio(std::shared_ptr<StorageBackend> engine);

}  // namespace holdfast::test
