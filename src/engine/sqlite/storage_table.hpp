#pragma once

#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/record_decisions.hpp"
#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/output_table.hpp"
#include "engine/sqlite/queue_table.hpp"

namespace holdfast::sqlite {

/// The SQL of records: one function per statement, no decisions. Throws Internal for a row with invalid
/// values.
class StorageTable {
 public:
  explicit StorageTable(Connection& connection);

  /// A row, live or expired, and the clock the file is used under.
  struct Found {
    std::int64_t clock = 0;
    std::optional<core::RecordEntry> row;
  };
  using Find = Found (StorageTable::*)(const RecordKey& key) const;
  [[nodiscard]] Found find(const RecordKey& key) const;
  /// Without its data, which may be large.
  [[nodiscard]] Found find_head(const RecordKey& key) const;

  struct PageRequest {
    std::string_view owner;
    std::optional<ListPosition> after;
    ListOrder order = ListOrder::oldest_first;
    bool only_dead = false;
    WallTime now = {};
    std::size_t max_records = 0, max_bytes = 0;
  };
  /// The owner's rows that are live at `now`, in order, from one snapshot, and the clock the file is used
  /// under.
  struct Page {
    std::int64_t clock = 0;
    RecordPage page;
  };
  [[nodiscard]] Page page(const PageRequest& request) const;

  /// The first owners of rows, live or not, by name; after the given owner, if any.
  [[nodiscard]] std::vector<std::string> owners(const std::optional<std::string>& after,
                                                std::size_t limit) const;
  /// The number of the owner's rows, live or not.
  [[nodiscard]] std::size_t count(std::string_view owner) const;
  [[nodiscard]] std::int64_t clock() const;

  void insert(const RecordKey& key, const core::RecordEntry& row, std::string_view data) const;
  void update(const RecordKey& key, const core::Update& update, std::string_view data) const;
  void set_guard(const RecordKey& key, const std::optional<FencingToken>& token) const;
  void remove(const RecordKey& key) const;
  /// The number of the owner's rows that expired by then, counted up to `most`.
  [[nodiscard]] std::size_t count_expired(std::string_view owner, WallTime by, std::size_t most) const;
  /// Deletes rows that expired by then, at most `limit`, the oldest first; returns their number.
  [[nodiscard]] std::size_t remove_expired(std::string_view owner, WallTime by, std::size_t limit) const;
  /// Of all owners.
  [[nodiscard]] std::size_t remove_expired(WallTime by, std::size_t limit) const;
  /// The one that expired first, if any expired by then. Finding none is cheaper than by the above.
  [[nodiscard]] bool remove_first_expired(WallTime by) const;

  /// The SQL of queues, prepared when it is used first: most programs that open a file have none.
  [[nodiscard]] const QueueTable& queues() const {
    if (!queues_) queues_.emplace(connection_);
    return *queues_;
  }

  /// The SQL of output, prepared when it is used first.
  [[nodiscard]] const OutputTable& outputs() const {
    if (!outputs_) outputs_.emplace(connection_);
    return *outputs_;
  }

 private:
  [[nodiscard]] Found find_by(const Statement& statement, const RecordKey& key, bool with_data) const;

  Connection& connection_;
  Statement find_, find_head_, oldest_first_, newest_first_, oldest_dead_first_, newest_dead_first_, owners_,
      count_, count_expired_, clock_;
  Statement insert_, update_, set_guard_, remove_, remove_owners_expired_, remove_expired_,
      remove_first_expired_;
  mutable std::optional<QueueTable> queues_;
  mutable std::optional<OutputTable> outputs_;
};

}  // namespace holdfast::sqlite
