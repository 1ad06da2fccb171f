#include "engine/sqlite/queue_table.hpp"

#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

namespace holdfast::sqlite {
namespace {

using QueueBlob = Statement::Blob;
using std::chrono::milliseconds;

/// In the order of queue_columns().
enum QueueColumn : std::uint8_t {
  place_column,
  priority_column,
  sequence_column,
  due_column,
  fails_column,
  deadline_column,
  lease_expires_column,
  attempt_deadline_column,
  claimed_column,
  attempts_column,
  deaths_column,
  max_attempts_column,
  not_before_column,
  max_age_column,
  attempt_limit_column,
  retention_column,
  worker_column,
  failed_retention_column,
  limit_key_column,
  key_limit_column,
  died_column,
};
static_assert(died_column == queue_died_column && died_column + 1 == queue_column_count);

constexpr const char* insert_queued =
    "INSERT INTO queued (record, queue, name, place, priority, sequence, due_at_ms, fails_at_ms,"
    " lease_deadline_ms, lease_ms, lease_expires_at_ms, attempt_deadline_ms, claimed_at_ms, attempts, deaths,"
    " max_attempts, not_before_ms, max_age_ms, attempt_limit_ms, retention_ms, worker, failed_retention_ms,"
    " limit_key, key_limit, died_at_ms)"
    " SELECT record, owner, task, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, 0, ?8, ?9, ?10, ?11, ?12, x'', ?13,"
    " ?14, ?15, 0"
    " FROM records WHERE owner = ?1 AND task = ?2";
constexpr const char* update_queued =
    "UPDATE queued SET place = ?3, sequence = ?4, due_at_ms = ?5, lease_deadline_ms = ?6, lease_ms = ?7,"
    " lease_expires_at_ms = ?8, attempt_deadline_ms = ?9, claimed_at_ms = ?10, attempts = ?11, deaths = ?12,"
    " worker = ?13, died_at_ms = ?14, worker_mark = ifnull(?15, worker_mark)"
    " WHERE record = (SELECT record FROM records WHERE owner = ?1 AND task = ?2)";
constexpr const char* upsert_settings =
    "INSERT INTO queues (queue, paused, max_leased) VALUES (?1, ?2, ?3)"
    " ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, max_leased = excluded.max_leased";
constexpr const char* delete_unused =
    "DELETE FROM queues WHERE queue = ?1 AND paused = 0 AND max_leased IS NULL AND delayed = 0 AND ready = 0"
    " AND leased = 0 AND exhausted = 0 AND parked = 0 AND dead = 0";

std::int64_t number_of(QueuePlace place) {
  switch (place) {
    case QueuePlace::delayed:
      return 0;
    case QueuePlace::ready:
      return 1;
    case QueuePlace::leased:
      return 2;
    case QueuePlace::exhausted:
      return 3;
    case QueuePlace::finished:
      break;
    case QueuePlace::parked:
      return 5;
    case QueuePlace::dead:
      return 6;
  }
  return 4;
}

}  // namespace

std::string_view queue_columns() {
  return ", place, priority, sequence, due_at_ms, fails_at_ms, lease_deadline_ms, lease_expires_at_ms,"
         " attempt_deadline_ms, claimed_at_ms, attempts, deaths, max_attempts, not_before_ms, max_age_ms,"
         " attempt_limit_ms, retention_ms, worker, failed_retention_ms, limit_key, key_limit, died_at_ms";
}

std::shared_ptr<const core::QueueEntry> read_queue(const Connection& connection, const Statement::Run& run,
                                                   int first) {
  constexpr std::array places = {QueuePlace::delayed,   QueuePlace::ready,    QueuePlace::leased,
                                 QueuePlace::exhausted, QueuePlace::finished, QueuePlace::parked,
                                 QueuePlace::dead};
  if (run.is_null(first + place_column)) return nullptr;
  const auto integer = [&](QueueColumn column) { return run.integer(first + column); };
  const auto count = [&](QueueColumn column) {
    const auto value = integer(column);
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
      throw damaged(connection, "a queued record has an invalid number");
    }
    return static_cast<std::uint32_t>(value);
  };
  const auto place = integer(place_column);
  if (place < 0 || place >= std::ssize(places) || integer(sequence_column) < 0) {
    throw damaged(connection, "a queued record has an invalid place");
  }
  auto entry = std::make_shared<core::QueueEntry>();
  auto& state = entry->state;
  state.terms = {.priority = static_cast<std::int32_t>(integer(priority_column)),
                 .not_before = std::nullopt,
                 .max_attempts = count(max_attempts_column),
                 .max_age = milliseconds(integer(max_age_column)),
                 .attempt_limit = milliseconds(integer(attempt_limit_column)),
                 .retention = milliseconds(integer(retention_column)),
                 .failed_retention = milliseconds(integer(failed_retention_column)),
                 .limit_key = {},
                 .limit = count(key_limit_column)};
  if (!run.is_null(first + limit_key_column)) state.terms.limit_key = run.bytes(first + limit_key_column);
  if (!run.is_null(first + not_before_column)) state.terms.not_before = run.time(first + not_before_column);
  state.place = places[static_cast<std::size_t>(place)];
  state.attempts = count(attempts_column);
  state.deaths = count(deaths_column);
  state.due_at = run.time(first + due_column);
  state.fails_at = run.time(first + fails_column);
  state.worker = run.bytes(first + worker_column);
  state.claimed_at = run.time(first + claimed_column);
  state.lease_expires_at = run.time(first + lease_expires_column);
  entry->sequence = static_cast<std::uint64_t>(integer(sequence_column));
  entry->lease_deadline = milliseconds(integer(deadline_column));
  entry->attempt_deadline = milliseconds(integer(attempt_deadline_column));
  entry->died_at = run.time(first + died_column);
  return entry;
}

QueueTable::QueueTable(Connection& connection)
    : file_(connection, "SELECT clock, fence_last, fence_reserved, fence_in_file FROM meta JOIN closing"),
      set_last_fence_(connection, "UPDATE meta SET fence_last = ?1"),
      find_(connection,
            "SELECT sequence, paused, max_leased, delayed, ready, leased, exhausted, parked, dead FROM queues"
            " WHERE queue = ?1"),
      first_ready_(connection,
                   "SELECT name FROM queued WHERE queue = ?1 AND place = 1"
                   " ORDER BY priority DESC, sequence LIMIT 1"),
      first_expired_(connection,
                     "SELECT name FROM queued WHERE queue = ?1 AND place = 2 AND lease_deadline_ms <= ?2"
                     " ORDER BY lease_deadline_ms, name LIMIT 1"),
      count_expired_(
          connection,
          "SELECT count(*) FROM queued WHERE queue = ?1 AND place = 2 AND lease_deadline_ms <= ?2"),
      marked_leases_(
          connection,
          "SELECT name, worker_mark FROM queued WHERE queue = ?1 AND place = 2 AND worker_mark <> 0"
          " ORDER BY lease_deadline_ms, name LIMIT ?2"),
      first_due_(connection,
                 "SELECT name FROM queued WHERE queue = ?1 AND place = 0 AND due_at_ms <= ?2"
                 " ORDER BY due_at_ms, name LIMIT 1"),
      exhausted_(connection,
                 "SELECT name FROM queued WHERE queue = ?1 AND place = 3 ORDER BY sequence LIMIT ?2"),
      leased_of_(
          connection,
          "SELECT count(*) FROM (SELECT 1 FROM queued WHERE queue = ?1 AND limit_key = ?2 AND place = 2"
          " LIMIT ?3)"),
      first_parked_(connection,
                    "SELECT name FROM queued WHERE queue = ?1 AND limit_key = ?2 AND place = 5"
                    " ORDER BY priority DESC, sequence LIMIT 1"),
      dead_(connection,
            "SELECT name FROM queued WHERE queue = ?1 AND place = 6 ORDER BY died_at_ms, name LIMIT ?2"),
      next_deadline_(connection,
                     "SELECT lease_deadline_ms FROM queued WHERE queue = ?1 AND place = 2"
                     " ORDER BY lease_deadline_ms LIMIT 1"),
      next_due_(connection,
                "SELECT due_at_ms FROM queued WHERE queue = ?1 AND place = 0 ORDER BY due_at_ms LIMIT 1"),
      ready_since_(connection,
                   "SELECT due_at_ms FROM queued WHERE queue = ?1 AND place = 1"
                   " ORDER BY priority DESC, sequence LIMIT 1"),
      insert_(connection, insert_queued),
      update_(connection, update_queued),
      configure_(connection, upsert_settings),
      drop_unused_(connection, delete_unused) {}

QueueTable::File QueueTable::file() const {
  auto run = file_.run();
  run.only_row("meta");
  return {.clock = run.integer(0),
          .fences = {.last = static_cast<std::uint64_t>(run.integer(1)),
                     .reserved = static_cast<std::uint64_t>(run.integer(2)),
                     .in_file = static_cast<std::uint64_t>(run.integer(3))}};
}

void QueueTable::set_last_fence(Fence fence) const {
  set_last_fence_.execute(static_cast<std::int64_t>(fence.value()));
}

QueueTable::Row QueueTable::find(std::string_view queue) const {
  auto run = find_.run(QueueBlob{queue});
  Row row;
  if (!run.next()) return row;
  const auto count = [&run](int column) { return static_cast<std::size_t>(run.integer(column)); };
  row.head = {.paused = run.integer(1) != 0,
              .max_leased = run.is_null(2) ? std::nullopt : std::optional(count(2)),
              .ready = count(4),
              .leased = count(5),
              .dead = count(8),
              .next_sequence = static_cast<std::uint64_t>(run.integer(0)) + 1};
  row.delayed = count(3);
  row.exhausted = count(6);
  row.parked = count(7);
  return row;
}

std::optional<std::string> QueueTable::first_ready(std::string_view queue) const {
  auto run = first_ready_.run(QueueBlob{queue});
  return run.next() ? std::optional(std::string(run.bytes(0))) : std::nullopt;
}
std::size_t QueueTable::count_expired(std::string_view queue, milliseconds by) const {
  auto run = count_expired_.run(QueueBlob{queue}, std::int64_t{by.count()});
  run.only_row("queued");
  return static_cast<std::size_t>(run.integer(0));
}
std::optional<std::string> QueueTable::first_expired(std::string_view queue, milliseconds by) const {
  auto run = first_expired_.run(QueueBlob{queue}, std::int64_t{by.count()});
  return run.next() ? std::optional(std::string(run.bytes(0))) : std::nullopt;
}
std::vector<MarkedLease> QueueTable::marked_leases(std::string_view queue, std::size_t most) const {
  std::vector<MarkedLease> leases;
  for (auto run = marked_leases_.run(QueueBlob{queue}, static_cast<std::int64_t>(most)); run.next();) {
    leases.push_back({std::string(run.bytes(0)), static_cast<std::uint64_t>(run.integer(1))});
  }
  return leases;
}
std::optional<std::string> QueueTable::first_due(std::string_view queue, WallTime by) const {
  auto run = first_due_.run(QueueBlob{queue}, by);
  return run.next() ? std::optional(std::string(run.bytes(0))) : std::nullopt;
}
std::vector<std::string> QueueTable::exhausted(std::string_view queue, std::size_t most) const {
  std::vector<std::string> names;
  for (auto run = exhausted_.run(QueueBlob{queue}, static_cast<std::int64_t>(most)); run.next();) {
    names.emplace_back(run.bytes(0));
  }
  return names;
}
std::size_t QueueTable::leased_of(std::string_view queue, std::string_view limit_key,
                                  std::size_t most) const {
  auto run = leased_of_.run(QueueBlob{queue}, QueueBlob{limit_key}, static_cast<std::int64_t>(most));
  run.only_row("queued");
  return static_cast<std::size_t>(run.integer(0));
}
std::optional<std::string> QueueTable::first_parked(std::string_view queue,
                                                    std::string_view limit_key) const {
  auto run = first_parked_.run(QueueBlob{queue}, QueueBlob{limit_key});
  return run.next() ? std::optional(std::string(run.bytes(0))) : std::nullopt;
}
std::vector<std::string> QueueTable::dead(std::string_view queue, std::size_t most) const {
  std::vector<std::string> names;
  for (auto run = dead_.run(QueueBlob{queue}, static_cast<std::int64_t>(most)); run.next();) {
    names.emplace_back(run.bytes(0));
  }
  return names;
}
std::optional<milliseconds> QueueTable::next_deadline(std::string_view queue) const {
  auto run = next_deadline_.run(QueueBlob{queue});
  return run.next() ? std::optional(milliseconds(run.integer(0))) : std::nullopt;
}
std::optional<WallTime> QueueTable::next_due(std::string_view queue) const {
  auto run = next_due_.run(QueueBlob{queue});
  return run.next() ? std::optional(run.time(0)) : std::nullopt;
}
std::optional<WallTime> QueueTable::first_ready_since(std::string_view queue) const {
  auto run = ready_since_.run(QueueBlob{queue});
  return run.next() ? std::optional(run.time(0)) : std::nullopt;
}

void QueueTable::insert(const RecordKey& key, const core::QueueEntry& entry) const {
  const auto& state = entry.state;
  const auto& terms = state.terms;
  insert_.execute(QueueBlob{key.owner()}, QueueBlob{key.task()}, number_of(state.place),
                  std::int64_t{terms.priority}, static_cast<std::int64_t>(entry.sequence), state.due_at,
                  state.fails_at, std::int64_t{terms.max_attempts}, terms.not_before,
                  std::int64_t{terms.max_age.count()}, std::int64_t{terms.attempt_limit.count()},
                  std::int64_t{terms.retention.count()}, std::int64_t{terms.failed_retention.count()},
                  terms.limit_key.empty() ? std::nullopt : std::optional(QueueBlob{terms.limit_key}),
                  std::int64_t{terms.limit});
}

void QueueTable::update(const RecordKey& key, const core::QueueEntry& entry, milliseconds now,
                        std::optional<std::uint64_t> worker_mark) const {
  const auto& state = entry.state;
  const auto lease = state.place == QueuePlace::leased ? entry.lease_deadline - now : milliseconds::zero();
  update_.execute(
      QueueBlob{key.owner()}, QueueBlob{key.task()}, number_of(state.place),
      static_cast<std::int64_t>(entry.sequence), state.due_at, std::int64_t{entry.lease_deadline.count()},
      std::int64_t{lease.count()}, state.lease_expires_at, std::int64_t{entry.attempt_deadline.count()},
      state.claimed_at, std::int64_t{state.attempts}, std::int64_t{state.deaths}, QueueBlob{state.worker},
      entry.died_at, worker_mark ? std::optional(static_cast<std::int64_t>(*worker_mark)) : std::nullopt);
}

void QueueTable::configure(std::string_view queue, bool paused, std::optional<std::size_t> max_leased) const {
  const auto most = max_leased ? std::optional(static_cast<std::int64_t>(*max_leased)) : std::nullopt;
  configure_.execute(QueueBlob{queue}, std::int64_t{paused}, most);
  drop_unused_.execute(QueueBlob{queue});
}

}  // namespace holdfast::sqlite
