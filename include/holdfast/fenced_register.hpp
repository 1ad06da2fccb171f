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

/// A named value of the user's own that refuses a write with an older fence than the last: what a lock
/// protects, without a task around it. Never expires; lives in the task store. Cheap to copy. Functions
/// may be called from any thread. Those without a Done block and throw holdfast::Error; the others are the
/// same without blocking, as those of Tasks.
class HOLDFAST_EXPORT FencedRegister {
 public:
  /// The name is at most 512 bytes of UTF-8: InvalidArgument otherwise.
  FencedRegister(std::shared_ptr<StorageBackend> storage, std::string_view name);

  struct Value {
    std::string text;
    std::uint64_t version = 0;
    FencingToken written_by;
  };
  /// Nothing if it was never written.
  [[nodiscard]] std::optional<Value> get(std::stop_token stop = {}) const;

  /// Writes the value, UTF-8 text. StaleFence if a higher fence of that lock has been seen, WrongLock if the
  /// register is guarded by another one. The first write decides by which.
  std::uint64_t put(std::string_view text, const FencingTokenView& token, std::stop_token stop = {}) const;
  std::uint64_t put(std::string_view text, const Guard& guard, std::stop_token stop = {}) const;

  /// Raises the fence without writing, so that older holders are shut out at once, and answers what is there.
  /// Nothing, and nothing raised, if it was never written.
  std::optional<Value> bind(const FencingTokenView& token, std::stop_token stop = {}) const;
  /// For operators: guarded by that lock from now on, whatever guarded it before. False if never written.
  bool rebind(const FencingTokenView& token, std::stop_token stop = {}) const;
  /// As Tasks::rebind_from. Returns what is there then; nothing if it was never written.
  std::optional<Value> rebind_from(std::string_view authority, const FencingTokenView& token,
                                   std::stop_token stop = {}) const;

  struct Page;
  /// The registers of a store by their names, a page at a time, for operators. `cursor`: empty for the first
  /// page, else that of the page before; BadCursor if it is none. `limit` is clamped to 1..max_record_page.
  [[nodiscard]] static Page list(const std::shared_ptr<StorageBackend>& storage, std::string_view cursor = {},
                                 std::size_t limit = 100, std::stop_token stop = {});

  void get(std::stop_token stop, Done<std::optional<Value>> done) const;
  void put(std::string_view text, const FencingTokenView& token, std::stop_token stop,
           Done<std::uint64_t> done) const;
  void put(std::string_view text, const Guard& guard, std::stop_token stop, Done<std::uint64_t> done) const;
  void bind(const FencingTokenView& token, std::stop_token stop, Done<std::optional<Value>> done) const;
  void rebind(const FencingTokenView& token, std::stop_token stop, Done<bool> done) const;
  void rebind_from(std::string_view authority, const FencingTokenView& token, std::stop_token stop,
                   Done<std::optional<Value>> done) const;

 private:
  friend class Holdfast;
  struct Place;
  explicit FencedRegister(std::shared_ptr<const Place> place) noexcept;
  std::shared_ptr<const Place> place_;
};

struct FencedRegister::Page {
  struct Entry {
    std::string name;
    Value value;
  };
  std::vector<Entry> registers;
  std::string cursor;             ///< empty on the last page
  std::vector<Error> unreadable;  ///< what is stored as a register and cannot be read; each names it
};

}  // namespace holdfast
