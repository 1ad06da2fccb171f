#pragma once

#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// A named text that refuses a write with a lower fence than the highest it has seen: data that a lock
/// protects, without a task. It never expires; it is in the same store as the tasks.
/// Holdfast::fenced_register() returns one.
///
/// @code
/// auto guard = hf.locks().lock("leader");
/// auto state = hf.fenced_register("leader-state");
/// state.put("epoch 7", guard);
/// const auto value = state.get();  // value->text, value->written_by.fence
/// @endcode
///
/// *Copies and threads.* Cheap to copy; copies share everything. All functions may be called from any thread.
/// Those without a Done block and throw holdfast::Error; the others complete `done` once with the same
/// result, inline or on a thread of the library. Text arguments need to be valid only until the call returns.
///
/// *Errors.* Those of the engine, as in Tasks; Internal if the stored record is not a valid register. Unknown
/// outcome, cancellation and fork: as in Tasks. *Cost:* each call is one atomic request to the engine.
class HOLDFAST_EXPORT FencedRegister {
 public:
  /// Names a register in `storage`; no I/O. The name is 1 to 512 bytes of UTF-8: otherwise throws
  /// InvalidArgument.
  FencedRegister(std::shared_ptr<StorageBackend> storage, std::string_view name);

  /// The value of a register.
  struct Value {
    /// The text that was written.
    std::string text;
    /// 1 after the first write, and one more with each write.
    std::uint64_t version = 0;
    /// The lock that guards the register, with the highest fence seen: that of the last write, or of a later
    /// bind or rebind.
    FencingToken written_by;
  };
  /// Returns the value; empty if the register was never written.
  [[nodiscard]] std::optional<Value> get(std::stop_token stop = {}) const;

  /// Writes `text`, which must be UTF-8 (InvalidArgument), and returns the new version. The first write binds
  /// the register to the token's lock. Throws StaleFence if a higher fence of that lock has been seen,
  /// WrongLock if the register is bound to another lock.
  std::uint64_t put(std::string_view text, const FencingTokenView& token, std::stop_token stop = {}) const;
  /// Does the same with the fence of `guard`. Throws InvalidArgument if the guard is empty.
  std::uint64_t put(std::string_view text, const Guard& guard, std::stop_token stop = {}) const;

  /// Raises the fence without writing, so that older holders are refused at once, and returns the value.
  /// Returns empty, and raises nothing, if the register was never written. Throws StaleFence and WrongLock as
  /// put().
  std::optional<Value> bind(const FencingTokenView& token, std::stop_token stop = {}) const;
  /// Binds the register to this lock, whatever lock guarded it before; for operators. Returns false if it was
  /// never written.
  bool rebind(const FencingTokenView& token, std::stop_token stop = {}) const;
  /// Does the same, but only if a lock of this authority guards the register, in one atomic step, as
  /// Tasks::rebind_from. Returns the value after that; empty if it was never written.
  std::optional<Value> rebind_from(std::string_view authority, const FencingTokenView& token,
                                   std::stop_token stop = {}) const;

  struct Page;
  /// Lists the registers of a store in the order of their names, one page at a time; for operators. `cursor`
  /// is empty for the first page, else Page::cursor of the page before; otherwise throws BadCursor. `limit`
  /// is clamped to 1..max_record_page.
  [[nodiscard]] static Page list(const std::shared_ptr<StorageBackend>& storage, std::string_view cursor = {},
                                 std::size_t limit = 100, std::stop_token stop = {});

  /// Starts get() and completes `done` with its result.
  void get(std::stop_token stop, Done<std::optional<Value>> done) const;
  /// Starts put() and completes `done` with its result.
  void put(std::string_view text, const FencingTokenView& token, std::stop_token stop,
           Done<std::uint64_t> done) const;
  /// Starts put() and completes `done` with its result. The guard needs to live only until the call returns.
  void put(std::string_view text, const Guard& guard, std::stop_token stop, Done<std::uint64_t> done) const;
  /// Starts bind() and completes `done` with its result.
  void bind(const FencingTokenView& token, std::stop_token stop, Done<std::optional<Value>> done) const;
  /// Starts rebind() and completes `done` with its result.
  void rebind(const FencingTokenView& token, std::stop_token stop, Done<bool> done) const;
  /// Starts rebind_from() and completes `done` with its result.
  void rebind_from(std::string_view authority, const FencingTokenView& token, std::stop_token stop,
                   Done<std::optional<Value>> done) const;

 private:
  friend class Holdfast;
  struct Place;
  explicit FencedRegister(std::shared_ptr<const Place> place) noexcept;
  std::shared_ptr<const Place> place_;
};

/// One page of the registers of a store.
struct FencedRegister::Page {
  /// One register.
  struct Entry {
    /// Its name.
    std::string name;
    /// Its value.
    Value value;
  };
  /// In the order of their names, byte by byte.
  std::vector<Entry> registers;
  /// The cursor of the next page; empty on the last one.
  std::string cursor;
  /// Records that are stored as registers and cannot be read; `key()` of each error is the name.
  std::vector<Error> unreadable;
};

}  // namespace holdfast
