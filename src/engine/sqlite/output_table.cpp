#include "engine/sqlite/output_table.hpp"

#include <array>

namespace holdfast::sqlite {
namespace {

using OutputBlob = Statement::Blob;

/// ?1 is the owner and ?2 the task, as in every statement here.
std::string of_record(std::string_view before, std::string_view after) {
  return std::string(before) + "(SELECT record FROM records WHERE owner = ?1 AND task = ?2)" +
         std::string(after);
}

std::int64_t number(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value);
}

}  // namespace

OutputTable::OutputTable(Connection& connection)
    : connection_(connection),
      runs_(connection,
            of_record("SELECT run, writer, fence, attempt, complete, out_begin, out_end, err_begin, err_end"
                      " FROM output_runs WHERE record = ",
                      " ORDER BY run")),
      chunk_(connection, of_record("SELECT bytes FROM output_chunks WHERE record = ",
                                   " AND run = ?3 AND stream = ?4 AND chunk = ?5")),
      put_run_(connection,
               of_record("INSERT OR REPLACE INTO output_runs (record, run, writer, fence, attempt, complete,"
                         " out_begin, out_end, err_begin, err_end) VALUES (",
                         ", ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")),
      drop_runs_(connection, of_record("DELETE FROM output_runs WHERE record = ", " AND run <= ?3")),
      drop_runs_chunks_(connection, of_record("DELETE FROM output_chunks WHERE record = ", " AND run <= ?3")),
      drop_chunks_(connection, of_record("DELETE FROM output_chunks WHERE record = ",
                                         " AND run = ?3 AND stream = ?4 AND chunk >= ?5 AND chunk < ?6")),
      set_chunk_(
          connection,
          of_record("INSERT OR REPLACE INTO output_chunks (record, run, stream, chunk, bytes) VALUES (",
                    ", ?3, ?4, ?5, ?6)")),
      append_chunk_(connection,
                    of_record("UPDATE output_chunks SET bytes = CAST(bytes || ?6 AS BLOB) WHERE record = ",
                              " AND run = ?3 AND stream = ?4 AND chunk = ?5")) {}

std::vector<core::StoredRun> OutputTable::runs(const RecordKey& key) const {
  enum Column : std::uint8_t {
    run_column,
    writer_column,
    fence_column,
    attempt_column,
    complete_column,
    ranges_column
  };
  std::vector<core::StoredRun> found;
  for (auto run = runs_.run(OutputBlob{key.owner()}, OutputBlob{key.task()}); run.next();) {
    const auto fence = Fence::of(static_cast<std::uint64_t>(run.integer(fence_column)));
    if (!fence) throw damaged(connection_, "the output of a record has an invalid fence");
    core::StoredRun stored{.run = {.number = static_cast<std::uint64_t>(run.integer(run_column)),
                                   .fence = *fence,
                                   .attempt = static_cast<std::uint32_t>(run.integer(attempt_column)),
                                   .is_complete = run.integer(complete_column) != 0},
                           .writer = std::string(run.bytes(writer_column))};
    int column = ranges_column;
    for (auto& range : stored.run.streams) {
      range.begin = static_cast<std::uint64_t>(run.integer(column++));
      range.end = static_cast<std::uint64_t>(run.integer(column++));
    }
    found.push_back(std::move(stored));
  }
  return found;
}

std::string OutputTable::chunk(const RecordKey& key, std::uint64_t run, std::size_t stream,
                               std::uint64_t number_of_chunk) const {
  auto found = chunk_.run(OutputBlob{key.owner()}, OutputBlob{key.task()}, number(run), number(stream),
                          number(number_of_chunk));
  if (!found.next()) throw damaged(connection_, "a part of the output of a record is missing");
  return std::string(found.bytes(0));
}

void OutputTable::apply(const RecordKey& key, const core::OutputChange& change) const {
  const OutputBlob owner{key.owner()};
  const OutputBlob task{key.task()};
  if (change.drop_runs > 0) {
    drop_runs_.execute(owner, task, number(change.drop_runs));
    drop_runs_chunks_.execute(owner, task, number(change.drop_runs));
  }
  const auto& run = change.run.run;
  put_run_.execute(owner, task, number(run.number), OutputBlob{change.run.writer}, number(run.fence.value()),
                   number(run.attempt), number(run.is_complete ? 1 : 0), number(run.streams[0].begin),
                   number(run.streams[0].end), number(run.streams[1].begin), number(run.streams[1].end));
  for (std::size_t stream = 0; stream < output_streams; ++stream) {
    const auto& changed = change.streams[stream];
    if (changed.drop_from < changed.drop_to) {
      drop_chunks_.execute(owner, task, number(run.number), number(stream), number(changed.drop_from),
                           number(changed.drop_to));
    }
    for (const auto& write : changed.writes) {
      (write.appends ? append_chunk_ : set_chunk_)
          .execute(owner, task, number(run.number), number(stream), number(write.chunk),
                   OutputBlob{write.bytes});
    }
  }
}

}  // namespace holdfast::sqlite
