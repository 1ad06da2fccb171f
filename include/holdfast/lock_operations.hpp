#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>
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

/// A lock key in an operation: checked and normalised when it is made. An invalid one fails the operation
/// with InvalidArgument when that is carried out.
class Key {
 public:
  template <class Text>
    requires std::is_convertible_v<const Text&, LockKeyView>
  Key(const Text& text) : key_(LockKeyView(text).parse()) {}

  [[nodiscard]] LockKey value_or_throw() && { return std::move(key_).value_or_throw(); }

 private:
  Result<LockKey> key_;
};

struct HOLDFAST_EXPORT Lock {
  using Answer = Guard;
  Key key;
  LockOptions options = {};
  /// For policies on top of locks, as AcquireRequest::counter_lifetime.
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
};

struct HOLDFAST_EXPORT TryLock {
  using Answer = std::optional<Guard>;
  Key key;
  LockOptions options = {};
};

struct HOLDFAST_EXPORT Adopt {
  using Answer = std::optional<Guard>;
  Lease lease;
  LockOptions options = {};
};

struct HOLDFAST_EXPORT Acquire {
  using Answer = Lease;
  Key key;
  LockOptions options = {};
};

struct HOLDFAST_EXPORT Release {
  using Answer = bool;
  std::string lock_id;
};

struct HOLDFAST_EXPORT Extend {
  using Answer = std::optional<WallTime>;
  std::string lock_id;
  std::chrono::milliseconds ttl;
};

struct HOLDFAST_EXPORT IsLocked {
  using Answer = bool;
  Key key;
};

struct HOLDFAST_EXPORT GetByKey {
  using Answer = std::optional<LockInfo>;
  Key key;
};

struct HOLDFAST_EXPORT GetById {
  using Answer = std::optional<LockInfo>;
  std::string lock_id;
};

struct HOLDFAST_EXPORT GetByKeyRaw {
  using Answer = std::optional<LockRecord>;
  Key key;
};

struct HOLDFAST_EXPORT GetByIdRaw {
  using Answer = std::optional<LockRecord>;
  std::string lock_id;
};

struct HOLDFAST_EXPORT Owns {
  using Answer = bool;
  Key key;
  std::string lock_id;
};

struct HOLDFAST_EXPORT ListLocksRaw {
  using Answer = LockPage;
  ListRequest request;
};

struct HOLDFAST_EXPORT BreakLock {
  using Answer = std::optional<LockInfo>;
  Key key;
  std::string reason;
  /// Only the lock that is held with this fence; empty: whichever is held.
  std::optional<Fence> held_with = std::nullopt;
};

}  // namespace holdfast::operation
