#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_options.hpp>
#include <optional>
#include <string>

/// The operations of Locks as values, which own their arguments. `Locks::run` blocks until one is done,
/// `Locks::start` completes a callback, and AsyncLocks completes any token of Asio; each is a template over
/// these, so that an operation is described once. `Answer` is what it gives. See the functions of Locks for
/// what they do.
namespace holdfast::operation {

struct Lock {
  using Answer = Guard;
  std::string key;
  LockOptions options = {};
  /// For policies on top of locks, as AcquireRequest::counter_lifetime.
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
};

struct TryLock {
  using Answer = std::optional<Guard>;
  std::string key;
  LockOptions options = {};
};

struct Adopt {
  using Answer = std::optional<Guard>;
  detail::Owned<DetachedLockView> lock;
  LockOptions options = {};
};

struct Acquire {
  using Answer = DetachedLock;
  std::string key;
  LockOptions options = {};
};

struct Release {
  using Answer = bool;
  std::string lock_id;
};

struct Extend {
  using Answer = std::optional<std::int64_t>;
  std::string lock_id;
  std::chrono::milliseconds ttl;
};

struct IsLocked {
  using Answer = bool;
  std::string key;
};

struct GetByKey {
  using Answer = std::optional<LockInfo>;
  std::string key;
};

struct GetById {
  using Answer = std::optional<LockInfo>;
  std::string lock_id;
};

struct GetByKeyRaw {
  using Answer = std::optional<LockRecord>;
  std::string key;
};

struct GetByIdRaw {
  using Answer = std::optional<LockRecord>;
  std::string lock_id;
};

struct Owns {
  using Answer = bool;
  std::string key;
  std::string lock_id;
};

struct ListLocksRaw {
  using Answer = LockPage;
  ListRequest request;
};

struct BreakLock {
  using Answer = std::optional<LockInfo>;
  std::string key;
  std::string reason;
  /// Only the lock that is held with this fence; empty: whichever is held.
  std::optional<Fence> held_with = std::nullopt;
};

}  // namespace holdfast::operation
