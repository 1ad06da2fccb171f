#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "os/process.hpp"
#include "waiting/mark_file.hpp"
#include "waiting/wake_words.hpp"

namespace holdfast::waiting {

/// Which keys are waited for, so that an operator can count the waiters: those of this process or, with a
/// file, the processes that wait.
///
/// In a file a process marks a key by a lock on one byte (MarkFile): the key's hash selects a range, a random
/// number the byte in it. Another open of the file sees the locks and counts them. (A forked child shares its
/// parent's mark for as long as it lives and has not called exec.)
///
/// The kernel keeps the locks of a file in one list. So a process marks only its first `most_marks` keys; it
/// is not counted as a waiter of others.
class WaiterMarks {
 public:
  static constexpr std::size_t most_marks = 256;

  /// Without a file, counts the waiters of this process. With one, counts processes by their marks in it. It
  /// is opened when it is first needed; if the path leads to another file then, no mark is made and no waiter
  /// counted.
  explicit WaiterMarks(std::optional<MarkFile> file) : file_(std::move(file)) {}
  ~WaiterMarks();
  WaiterMarks(const WaiterMarks&) = delete;
  WaiterMarks& operator=(const WaiterMarks&) = delete;

  /// A waiter comes; it is not counted if that fails. No effect in a forked child, nor in `remove`.
  void add(WakeWords::Place place) noexcept;
  /// It goes.
  void remove(WakeWords::Place place) noexcept;
  /// Empty if the file cannot be used.
  [[nodiscard]] std::optional<std::uint32_t> count(WakeWords::Place place);

 private:
  struct Waiters {
    std::size_t count = 0;
    std::optional<std::uint64_t> marked_byte;
  };
  [[nodiscard]] std::optional<std::uint64_t> mark(WakeWords::Place place);

  const os::ProcessIdentity process_;
  const std::optional<MarkFile> file_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Waiters> waiters_;  ///< by the hash of the key
  std::size_t marks_ = 0;
  int marking_ = -1;   ///< has the locks
  int counting_ = -1;  ///< an open of its own: a lock does not conflict with others of the same open
};

}  // namespace holdfast::waiting
