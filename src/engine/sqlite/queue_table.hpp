#pragma once

#include <chrono>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/queue_step_decisions.hpp"
#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {

/// The columns of a row of `queued`, for a select that joins it, and their number.
[[nodiscard]] std::string_view queue_columns();
inline constexpr int queue_column_count = 21;
/// Which of them has the time when a dead letter died.
inline constexpr int queue_died_column = 20;

/// The state in those columns, the first of which is number `first`; null if the join found no row. Throws
/// Internal for invalid values.
[[nodiscard]] std::shared_ptr<const core::QueueEntry> read_queue(const Connection& connection,
                                                                 const Statement::Run& run, int first);

/// A lease of a process that is marked.
struct MarkedLease {
  std::string task;
  std::uint64_t mark = 0;
};

/// The SQL of queues: one function per statement, no decisions.
class QueueTable {
 public:
  explicit QueueTable(Connection& connection);

  /// The clock the file is used under, and its fences.
  struct File {
    std::int64_t clock = 0;
    FenceSequence fences;
  };
  [[nodiscard]] File file() const;
  void set_last_fence(Fence fence) const;

  /// A queue's row; a default one if there is none.
  struct Row {
    core::QueueHead head;
    std::size_t delayed = 0, exhausted = 0, parked = 0;
  };
  [[nodiscard]] Row find(std::string_view queue) const;

  [[nodiscard]] std::optional<std::string> first_ready(std::string_view queue) const;
  [[nodiscard]] std::size_t count_expired(std::string_view queue, std::chrono::milliseconds by) const;
  [[nodiscard]] std::optional<std::string> first_expired(std::string_view queue,
                                                         std::chrono::milliseconds by) const;
  /// The leases with a mark, those that expire first before the others.
  [[nodiscard]] std::vector<MarkedLease> marked_leases(std::string_view queue, std::size_t most) const;
  [[nodiscard]] std::optional<std::string> first_due(std::string_view queue, WallTime by) const;
  [[nodiscard]] std::vector<std::string> exhausted(std::string_view queue, std::size_t most) const;
  [[nodiscard]] std::size_t leased_of(std::string_view queue, std::string_view limit_key,
                                      std::size_t most) const;
  [[nodiscard]] std::optional<std::string> first_parked(std::string_view queue,
                                                        std::string_view limit_key) const;
  [[nodiscard]] std::vector<std::string> dead(std::string_view queue, std::size_t most) const;
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_deadline(std::string_view queue) const;
  [[nodiscard]] std::optional<WallTime> next_due(std::string_view queue) const;
  /// When the first ready record became ready.
  [[nodiscard]] std::optional<WallTime> first_ready_since(std::string_view queue) const;

  /// For a record that was just inserted.
  void insert(const RecordKey& key, const core::QueueEntry& entry) const;
  /// `now`: on the clock of leases. `worker_mark`: as the column; empty: as it is.
  void update(const RecordKey& key, const core::QueueEntry& entry, std::chrono::milliseconds now,
              std::optional<std::uint64_t> worker_mark) const;
  void configure(std::string_view queue, bool paused, std::optional<std::size_t> max_leased) const;

 private:
  Statement file_, set_last_fence_, find_, first_ready_, first_expired_, count_expired_, marked_leases_,
      first_due_, exhausted_, leased_of_, first_parked_, dead_, next_deadline_, next_due_, ready_since_;
  Statement insert_, update_, configure_, drop_unused_;
};

}  // namespace holdfast::sqlite
