#pragma once

#include <chrono>
#include <holdfast/lock_backend.hpp>
#include <string>
#include <string_view>

#include "support/times.hpp"

/// Short forms of the contract's operations for tests: blocking, with sensible defaults. A transport
/// failure that a test did not expect throws.
namespace holdfast::test {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

LockKey key(std::string_view text);
Ttl ttl(milliseconds length);

/// Any request.
template <class Request>
Result<typename Request::Outcome> call(LockBackend& backend, Request request, std::stop_token stop = {}) {
  using Outcome = typename Request::Outcome;
  Slot<Outcome> slot;
  backend.submit(std::move(request), std::move(stop), Done<Outcome>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  return *std::move(slot.result);
}

Result<AcquireOutcome> try_acquire(LockBackend& backend, AcquireRequest request, std::stop_token stop = {});
Result<AcquireOutcome> try_acquire(LockBackend& backend, const LockId& id, std::string_view key,
                                   milliseconds length = 60s,
                                   std::shared_ptr<const LockHolder> holder = nullptr);
/// The grant, or nothing if refused.
std::optional<Granted> acquire(LockBackend& backend, const LockId& id, std::string_view key,
                               milliseconds length = 60s);
Result<ReleaseOutcome> try_release(LockBackend& backend, ReleaseRequest request, std::stop_token stop = {});
/// Empty: released.
std::optional<Absence> release(LockBackend& backend, const LockId& id, std::optional<std::string> key = {});
Result<ExtendOutcome> try_extend(LockBackend& backend, ExtendRequest request, std::stop_token stop = {});
std::variant<Extended, Absence> extend(LockBackend& backend, const LockId& id, std::optional<std::string> key,
                                       milliseconds length,
                                       std::optional<std::shared_ptr<const LockHolder>> new_holder = {});
bool is_locked(LockBackend& backend, std::string_view key);
std::optional<LockRecord> lookup(LockBackend& backend, std::string_view key);
std::optional<LockRecord> lookup(LockBackend& backend, const LockId& id);
Result<LockPage> list(LockBackend& backend, ListRequest request = {});
WaiterCounts count_waiters(LockBackend& backend, std::vector<LockKey> keys);
/// Null if the engine cannot wake waiters.
std::unique_ptr<Watch> watch_of(LockBackend& backend, const LockKey& key);
/// Whether the watch was woken by then.
bool wait_until(Watch& watch, BootTime deadline, std::stop_token stop = {});

}  // namespace holdfast::test
