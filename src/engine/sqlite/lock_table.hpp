#pragma once

#include <holdfast/lock_types.hpp>
#include <optional>
#include <vector>

#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {

/// A row of the locks table, live or expired.
struct LockRow {
  LockRecord record;
  std::int64_t deadline_ms = 0;
  std::int64_t ttl_ms = 0;
  bool durable = false;
};

/// The SQL of locks: one function per statement, no decisions. Throws Internal for a row with invalid values.
class LockTable {
 public:
  explicit LockTable(Connection& connection);

  /// Everything an acquire depends on, read by one statement.
  struct View {
    std::int64_t clock = 0;
    FenceSequence fences;
    std::optional<LockRow> at_key;
    std::optional<LockRow> of_id;
  };
  [[nodiscard]] View view(const LockKey& key, const LockId& id) const;

  /// A row, and the clock its deadline runs on.
  struct Found {
    std::int64_t clock = 0;
    std::optional<LockRow> row;
  };
  [[nodiscard]] Found find(const LockKey& key) const;
  [[nodiscard]] Found find(const LockId& id) const;

  /// The rows after a key, in the order of their keys, that are live at `now_ms`.
  [[nodiscard]] std::vector<LockRecord> page(std::string_view after, std::int64_t now_ms,
                                             std::size_t limit) const;
  [[nodiscard]] std::int64_t clock() const;

  /// `holder`: the label in place of the record's; null: none.
  void insert(const LockRow& row, const LockHolder* holder) const;
  /// Deadline, ttl, expiry and durability of the row at that key.
  void restamp(const LockRow& row) const;
  /// The label of the row at that key; null: none.
  void set_holder(const LockKey& key, const LockHolder* holder) const;
  void remove(const LockKey& key) const;
  /// Deletes the expired rows among the given number of rows after an id, in the order of ids, and among as
  /// many first rows, which hardly any id precedes. Ids are random, so these are random rows.
  void remove_expired(const LockId& after, std::int64_t now_ms, std::size_t rows) const;
  void set_last_fence(Fence fence) const;

 private:
  Connection& connection_;
  Statement view_, find_key_, find_id_, page_, clock_, insert_, restamp_, set_holder_, remove_,
      remove_expired_, set_last_fence_;
};

}  // namespace holdfast::sqlite
