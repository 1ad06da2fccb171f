#pragma once

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <string>
#include <vector>

#include "core/output_decisions.hpp"
#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// The SQL of the output that is kept beside records: one function per step, no decisions.
class OutputTable {
 public:
  explicit OutputTable(Connection& connection);

  /// Oldest first. Throws Internal for a row with invalid values.
  [[nodiscard]] std::vector<core::StoredRun> runs(const RecordKey& key) const;
  [[nodiscard]] std::string chunk(const RecordKey& key, std::uint64_t run, std::size_t stream,
                                  std::uint64_t number) const;
  /// Requires that the record is stored.
  void apply(const RecordKey& key, const core::OutputChange& change) const;

 private:
  Connection& connection_;
  Statement runs_, chunk_, put_run_, drop_runs_, drop_runs_chunks_, drop_chunks_, set_chunk_, append_chunk_;
};

}  // namespace holdfast::sqlite
