#include "engine/sqlite/storage_table.hpp"

#include <string>

#include "core/queue_decisions.hpp"
#include "engine/sqlite/queue_table.hpp"

namespace holdfast::sqlite {
namespace {

/// The first columns of every select; `length(data)` is known without reading the data.
constexpr std::string_view head_columns =
    "SELECT meta.clock, task, created_at_ms, expires_at_ms, version, incarnation, origin, fence, "
    "fence_authority, fence_key, length(data)";
enum Column : std::uint8_t {
  clock_column,
  task_column,
  created_column,
  expires_column,
  version_column,
  incarnation_column,
  origin_column,
  fence_column,
  authority_column,
  lock_key_column,
  length_column,
  queue_column,  ///< the first of them
  data_column = queue_column + queue_column_count,
};

constexpr std::string_view join_queued = " LEFT JOIN queued ON queued.record = records.record";

std::string select_one(std::string_view more_columns) {
  return std::string(head_columns) + std::string(queue_columns()) + std::string(more_columns) +
         " FROM meta LEFT JOIN records ON owner = ?1 AND task = ?2" + std::string(join_queued);
}

/// `meta` is one row by its key, so the index gives the order without a sort.
std::string select_records(std::string_view comparison, std::string_view direction) {
  return std::string(head_columns) + std::string(queue_columns()) + ", data FROM meta CROSS JOIN records" +
         std::string(join_queued) + " WHERE meta.one = 1 AND owner = ?1" + " AND (created_at_ms, task) " +
         std::string(comparison) +
         " (?2, ?3) AND (expires_at_ms IS NULL OR expires_at_ms > ?4) ORDER BY created_at_ms " +
         std::string(direction) + ", task " + std::string(direction);
}

std::string select_dead(std::string_view comparison, std::string_view direction) {
  return std::string(head_columns) + std::string(queue_columns()) +
         ", data FROM meta CROSS JOIN queued CROSS JOIN records ON records.record = queued.record"
         " WHERE meta.one = 1 AND queue = ?1 AND place = 6 AND (died_at_ms, name) " +
         std::string(comparison) +
         " (?2, ?3) AND (expires_at_ms IS NULL OR expires_at_ms > ?4) ORDER BY died_at_ms " +
         std::string(direction) + ", name " + std::string(direction);
}

constexpr const char* insert_record =
    "INSERT INTO records (owner, task, created_at_ms, expires_at_ms, version, incarnation, origin, fence,"
    " fence_authority, fence_key, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
constexpr const char* update_record =
    "UPDATE records SET expires_at_ms = ?3, version = ?4, fence = ?5, fence_authority = ?6, fence_key = ?7,"
    " data = ?8 WHERE owner = ?1 AND task = ?2";
constexpr const char* update_guard =
    "UPDATE records SET fence = ?3, fence_authority = ?4, fence_key = ?5 WHERE owner = ?1 AND task = ?2";
constexpr const char* count_owners_expired =
    "SELECT count(*) FROM"
    " (SELECT 1 FROM records WHERE owner = ?1 AND expires_at_ms <= ?2 LIMIT ?3)";
constexpr const char* delete_owners_expired =
    "DELETE FROM records WHERE record IN (SELECT record FROM records"
    " WHERE owner = ?1 AND expires_at_ms <= ?2 ORDER BY expires_at_ms LIMIT ?3)";
constexpr const char* delete_expired =
    "DELETE FROM records WHERE record IN"
    " (SELECT record FROM records WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT ?2)";

/// A single row needs no table of those that are found.
constexpr const char* delete_first_expired =
    "DELETE FROM records WHERE record ="
    " (SELECT record FROM records WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT 1)";

using Blob = Statement::Blob;

/// The three columns of a guard.
struct Guard {
  std::optional<std::int64_t> fence;
  std::optional<Blob> authority, lock_key;
};
Guard columns_of(const std::optional<FencingToken>& token) {
  if (!token) return {};
  return {.fence = static_cast<std::int64_t>(token->fence.value()),
          .authority = Blob{token->authority},
          .lock_key = Blob{token->lock_key}};
}

std::optional<FencingToken> read_guard(const Connection& connection, const Statement::Run& run) {
  const bool guarded = !run.is_null(fence_column);
  if (guarded == run.is_null(authority_column) || guarded == run.is_null(lock_key_column)) {
    throw damaged(connection, "a record has an incomplete lock binding");
  }
  if (!guarded) return std::nullopt;
  const auto fence = Fence::of(static_cast<std::uint64_t>(run.integer(fence_column)));
  if (!fence) throw damaged(connection, "a record has an invalid fence");
  return FencingToken{.authority = std::string(run.bytes(authority_column)),
                      .lock_key = std::string(run.bytes(lock_key_column)),
                      .fence = *fence};
}

/// The run's current row, without its data; empty if the join found none.
std::optional<core::RecordEntry> read_head(const Connection& connection, const Statement::Run& run) {
  if (run.is_null(task_column)) return std::nullopt;
  core::RecordEntry row{.record = {.data = {},
                                   .version = static_cast<std::uint64_t>(run.integer(version_column)),
                                   .incarnation = std::string(run.bytes(incarnation_column)),
                                   .bound_to = read_guard(connection, run),
                                   .origin = std::string(run.bytes(origin_column))},
                        .created_at = run.time(created_column),
                        .expires_at = {}};
  if (!run.is_null(expires_column)) row.expires_at = run.time(expires_column);
  if (run.integer(version_column) < 1 || row.record.incarnation.empty()) {
    throw damaged(connection, "invalid row in the records table");
  }
  if (auto queue = read_queue(connection, run, queue_column)) {
    row.record.queue = std::shared_ptr<const QueueState>(queue, &queue->state);
    row.queue = std::move(queue);
  }
  return row;
}

}  // namespace

StorageTable::StorageTable(Connection& connection)
    : connection_(connection),
      find_(connection, select_one(", data")),
      find_head_(connection, select_one("")),
      oldest_first_(connection, select_records(">", "ASC")),
      newest_first_(connection, select_records("<", "DESC")),
      oldest_dead_first_(connection, select_dead(">", "ASC")),
      newest_dead_first_(connection, select_dead("<", "DESC")),
      owners_(connection, "SELECT owner FROM owners WHERE owner > ?1 ORDER BY owner LIMIT ?2"),
      count_(connection, "SELECT records FROM owners WHERE owner = ?1"),
      count_expired_(connection, count_owners_expired),
      clock_(connection, "SELECT clock FROM meta"),
      insert_(connection, insert_record),
      update_(connection, update_record),
      set_guard_(connection, update_guard),
      remove_(connection, "DELETE FROM records WHERE owner = ?1 AND task = ?2"),
      remove_owners_expired_(connection, delete_owners_expired),
      remove_expired_(connection, delete_expired),
      remove_first_expired_(connection, delete_first_expired) {}

StorageTable::Found StorageTable::find_by(const Statement& statement, const RecordKey& key,
                                          bool with_data) const {
  auto run = statement.run(Blob{key.owner()}, Blob{key.task()});
  run.only_row("meta");
  Found found{.clock = run.integer(clock_column), .row = read_head(connection_, run)};
  if (found.row && with_data) found.row->record.data = run.bytes(data_column);
  return found;
}

StorageTable::Found StorageTable::find(const RecordKey& key) const {
  return find_by(find_, key, true);
}
StorageTable::Found StorageTable::find_head(const RecordKey& key) const {
  return find_by(find_head_, key, false);
}

StorageTable::Page StorageTable::page(const PageRequest& request) const {
  const bool ascending = request.order == ListOrder::oldest_first;
  // No record is before the first or after the second: times are those of RFC 3339.
  const auto beginning = ascending ? WallTime::min() : WallTime::max();
  const auto after = request.after.value_or(ListPosition{.created_at = beginning, .task = {}});
  Page result;
  auto& [clock, page] = result;
  std::size_t bytes = 0;
  const int order_column = request.only_dead ? queue_column + queue_died_column : int{created_column};
  const auto& of_all = ascending ? oldest_first_ : newest_first_;
  const auto& of_dead = ascending ? oldest_dead_first_ : newest_dead_first_;
  auto run = (request.only_dead ? of_dead : of_all)
                 .run(Blob{request.owner}, after.created_at, Blob{after.task}, request.now);
  std::optional<ListPosition> last;
  while (run.next()) {
    clock = run.integer(clock_column);
    bytes += static_cast<std::size_t>(run.integer(length_column));
    const auto listed = page.records.size() + page.unreadable.size();
    if (listed == request.max_records || (listed > 0 && bytes > request.max_bytes)) {
      page.next = last;
      break;
    }
    last = ListPosition{.created_at = run.time(order_column), .task = std::string(run.bytes(task_column))};
    try {
      auto key = RecordKey::of(request.owner, last->task).value_or_throw();
      auto row = read_head(connection_, run).value();
      row.record.data = run.bytes(data_column);
      page.records.push_back(
          {.key = std::move(key), .record = std::move(row.record), .created_at = last->created_at});
    } catch (const Error& why) {
      page.unreadable.push_back({.task = last->task, .why = why, .follows = page.records.size()});
    }
  }
  if (!last) clock = this->clock();
  return result;
}

std::vector<std::string> StorageTable::owners(const std::optional<std::string>& after,
                                              std::size_t limit) const {
  const auto most = static_cast<std::int64_t>(limit);
  std::vector<std::string> owners;
  // An owner may be the empty blob, and no blob is below that; but every text is below every blob.
  for (auto run = after ? owners_.run(Blob{*after}, most) : owners_.run(std::string_view(""), most);
       run.next();) {
    owners.emplace_back(run.bytes(0));
  }
  return owners;
}

std::size_t StorageTable::count(std::string_view owner) const {
  auto run = count_.run(Blob{owner});
  return run.next() ? static_cast<std::size_t>(run.integer(0)) : 0;
}

std::size_t StorageTable::count_expired(std::string_view owner, WallTime by, std::size_t most) const {
  auto run = count_expired_.run(Blob{owner}, by, static_cast<std::int64_t>(most));
  return run.next() ? static_cast<std::size_t>(run.integer(0)) : 0;
}

std::int64_t StorageTable::clock() const {
  auto run = clock_.run();
  run.only_row("meta");
  return run.integer(0);
}

void StorageTable::insert(const RecordKey& key, const core::RecordEntry& row, std::string_view data) const {
  const auto guard = columns_of(row.record.bound_to);
  insert_.execute(Blob{key.owner()}, Blob{key.task()}, row.created_at, row.expires_at,
                  static_cast<std::int64_t>(row.record.version), std::string_view(row.record.incarnation),
                  Blob{row.record.origin}, guard.fence, guard.authority, guard.lock_key, Blob{data});
}

void StorageTable::update(const RecordKey& key, const core::Update& update, std::string_view data) const {
  const auto guard = columns_of(update.bound_to);
  update_.execute(Blob{key.owner()}, Blob{key.task()}, update.expires_at,
                  static_cast<std::int64_t>(update.version), guard.fence, guard.authority, guard.lock_key,
                  Blob{data});
}

void StorageTable::set_guard(const RecordKey& key, const std::optional<FencingToken>& token) const {
  const auto guard = columns_of(token);
  set_guard_.execute(Blob{key.owner()}, Blob{key.task()}, guard.fence, guard.authority, guard.lock_key);
}

void StorageTable::remove(const RecordKey& key) const {
  remove_.execute(Blob{key.owner()}, Blob{key.task()});
}

std::size_t StorageTable::remove_expired(std::string_view owner, WallTime by, std::size_t limit) const {
  remove_owners_expired_.execute(Blob{owner}, by, static_cast<std::int64_t>(limit));
  return static_cast<std::size_t>(sqlite3_changes(connection_.handle()));
}

std::size_t StorageTable::remove_expired(WallTime by, std::size_t limit) const {
  remove_expired_.execute(by, static_cast<std::int64_t>(limit));
  return static_cast<std::size_t>(sqlite3_changes(connection_.handle()));
}

bool StorageTable::remove_first_expired(WallTime by) const {
  remove_first_expired_.execute(by);
  return sqlite3_changes(connection_.handle()) > 0;
}

}  // namespace holdfast::sqlite
