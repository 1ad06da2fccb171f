#pragma once

#include "engine/sqlite/file_checks.hpp"

namespace holdfast::sqlite {

/// Says that this process has a file open in SQLite, for as long as it lives.
///
/// Why anyone must know: a forked child inherits SQLite's bookkeeping of the locks on that file but not the
/// locks. A connection it opened would believe that the process holds them already and take none; then the
/// parent, closing last as far as the kernel knows, deletes the write-ahead log under the child, and what
/// the child writes is lost. So a child must not open a file that was open when it was forked.
class OpenFile {
 public:
  explicit OpenFile(FileIdentity file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Whether the file was open in SQLite when this process was forked.
  [[nodiscard]] static bool inherited(FileIdentity file);

 private:
  FileIdentity file_;
};

}  // namespace holdfast::sqlite
