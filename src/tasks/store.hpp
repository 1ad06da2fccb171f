#pragma once

#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "core/await.hpp"

namespace holdfast {

/// What the copies of one Tasks share.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules)
      : storage(std::move(engine)), options(rules) {}

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
};

namespace tasks {

// The contract's operations, blocking.

inline Result<std::optional<StoredRecord>> get(StorageBackend& storage, GetRecord request,
                                               std::stop_token stop) {
  return core::await<std::optional<StoredRecord>>(
      storage, [&](auto done) { storage.get(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<CreateOutcome> create(StorageBackend& storage, CreateRecord request, std::stop_token stop) {
  return core::await<CreateOutcome>(
      storage, [&](auto done) { storage.create(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<PutOutcome> put(StorageBackend& storage, PutRecord request, std::stop_token stop) {
  return core::await<PutOutcome>(
      storage, [&](auto done) { storage.put(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<RemoveOutcome> remove(StorageBackend& storage, RemoveRecord request, std::stop_token stop) {
  return core::await<RemoveOutcome>(
      storage, [&](auto done) { storage.remove(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<GuardOutcome> guard(StorageBackend& storage, GuardRecord request, std::stop_token stop) {
  return core::await<GuardOutcome>(
      storage, [&](auto done) { storage.guard(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<RebindOutcome> rebind(StorageBackend& storage, RebindRecord request, std::stop_token stop) {
  return core::await<RebindOutcome>(
      storage, [&](auto done) { storage.rebind(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<RecordPage> list(StorageBackend& storage, ListRecords request, std::stop_token stop) {
  return core::await<RecordPage>(
      storage, [&](auto done) { storage.list(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<OwnerPage> list_owners(StorageBackend& storage, ListOwners request, std::stop_token stop) {
  return core::await<OwnerPage>(
      storage, [&](auto done) { storage.list_owners(std::move(request), std::move(stop), std::move(done)); });
}
inline Result<std::size_t> cleanup_expired(StorageBackend& storage, std::stop_token stop) {
  return core::await<std::size_t>(
      storage, [&](auto done) { storage.cleanup_expired({}, std::move(stop), std::move(done)); });
}

}  // namespace tasks
}  // namespace holdfast
