#pragma once

#include <holdfast/lock_backend.hpp>

#include "core/await.hpp"

namespace holdfast::locks {

using core::await;

inline Result<AcquireOutcome> acquire(LockBackend& backend, AcquireRequest request,
                                      std::stop_token stop = {}) {
  return await<AcquireOutcome>(
      backend, [&](auto done) { backend.acquire(std::move(request), std::move(stop), std::move(done)); });
}

inline Result<ReleaseOutcome> release(LockBackend& backend, ReleaseRequest request,
                                      std::stop_token stop = {}) {
  return await<ReleaseOutcome>(
      backend, [&](auto done) { backend.release(std::move(request), std::move(stop), std::move(done)); });
}

inline Result<ExtendOutcome> extend(LockBackend& backend, ExtendRequest request, std::stop_token stop = {}) {
  return await<ExtendOutcome>(
      backend, [&](auto done) { backend.extend(std::move(request), std::move(stop), std::move(done)); });
}

inline Result<std::optional<LockRecord>> lookup(LockBackend& backend, LookupRequest request,
                                                std::stop_token stop = {}) {
  return await<std::optional<LockRecord>>(
      backend, [&](auto done) { backend.lookup(std::move(request), std::move(stop), std::move(done)); });
}

}  // namespace holdfast::locks
