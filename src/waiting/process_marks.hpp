#pragma once

#include <cstdint>
#include <mutex>

#include "waiting/mark_file.hpp"

namespace holdfast::waiting {

/// Which processes live, of those that have opened a store: each marks one byte of a file (MarkFile) and
/// stores its number with what ends with the process.
///
/// All answers err towards "lives": a file that cannot be used, or that is another than the one in which the
/// mark was made. A forked child shares its parent's mark for as long as it lives and has not called exec.
class ProcessMarks {
 public:
  explicit ProcessMarks(MarkFile file) : file_(std::move(file)) {}
  ~ProcessMarks();
  ProcessMarks(const ProcessMarks&) = delete;
  ProcessMarks& operator=(const ProcessMarks&) = delete;

  /// The mark of this object, made when it is first needed; 0 if that failed.
  [[nodiscard]] std::uint64_t own() noexcept;
  /// The descriptor that has the mark: it lives as long as any process has a copy. -1 without a mark.
  [[nodiscard]] int descriptor() noexcept;
  /// Whether a process has this mark. Not for 0.
  [[nodiscard]] bool lives(std::uint64_t mark) noexcept;

 private:
  /// The same for all marks in this file.
  [[nodiscard]] std::uint64_t first_byte() const noexcept;

  const MarkFile file_;
  std::mutex mutex_;
  std::uint64_t own_ = 0;
  int marking_ = -1;  ///< has the lock
  int looking_ = -1;  ///< an open of its own: a lock does not conflict with others of the same open
};

}  // namespace holdfast::waiting
