#pragma once

#include <filesystem>
#include <holdfast/change_feed.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <optional>
#include <string_view>

#include "os/file_trust.hpp"
#include "waiting/process_marks.hpp"
#include "waiting/waiter_marks.hpp"
#include "waiting/wake_listener.hpp"
#include "waiting/wake_queue.hpp"
#include "waiting/wake_words.hpp"

namespace holdfast::waiting {

/// Futex words on which waiters for a key sleep, in this process or (in a mapped file) in every process that
/// maps the same file. A key is hashed to a word and to one bit of that word's wake mask.
///
/// Protocol. A waiter reads the word, then tries to acquire the lock, then sleeps unless the word has
/// changed. A releaser makes the release visible, then changes the word, then wakes one sleeper of that mask.
/// So a release after the waiter's attempt always reaches it: the word changed after it was read. A sleeper
/// is counted before the kernel compares the word, and the releaser reads the count after it changed the
/// word; so a release that sees no sleepers needs no system call (a killed sleeper stays counted, which only
/// costs later releases that call). Two keys that
/// share word and mask can take each other's wake-up (1 in 32768), and a waiter can be killed between being
/// woken and trying; so callers also re-check after a while without a wake-up.
///
/// WakeListener implements waits without a thread. A release wakes one of them in each process, in addition
/// to one sleeper: only they know which of them waits longest, and none can starve the others.
class WakeTable : public std::enable_shared_from_this<WakeTable> {
 public:
  static std::shared_ptr<WakeTable> in_process();
  /// Maps the file, creating it for the users of the file it lies beside if missing. ServiceUnavailable,
  /// RateLimited (disk full) or AuthFailed if that fails; AuthFailed too if the file cannot be trusted: a
  /// user that can truncate a mapped file can kill every process that maps it (SIGBUS).
  static Result<std::shared_ptr<WakeTable>> in_file(const std::filesystem::path& file,
                                                    const os::FileTrust& beside);

  WakeTable(const WakeTable&) = delete;
  WakeTable& operator=(const WakeTable&) = delete;
  ~WakeTable();

  /// Where a key's waiters sleep. Processes that share a file must agree on it, so there it is Place::of. In
  /// one process any good hash of the key will do, if every call for this key uses it.
  using Place = WakeWords::Place;

  /// Wakes the sleeper of this key that has waited longest.
  void wake_one(std::string_view key) noexcept { wake_one(Place::of(key)); }
  void wake_one(Place place) noexcept;
  /// Wakes every sleeper of this key: for changes that concern all of them.
  void wake_all(std::string_view key) noexcept;
  /// Watches from now on. Whether changes concern one or all must match the calls of wake_one and wake_all.
  [[nodiscard]] std::unique_ptr<Watch> watch(std::string_view key, Wakes wakes) {
    return watch(Place::of(key), wakes);
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(Place place, Wakes wakes);
  /// How many watches of Wakes::one this key has, or, in a file, how many tables have one; empty if unknown.
  [[nodiscard]] std::optional<std::uint32_t> count_waiters(std::string_view key) {
    return count_waiters(Place::of(key));
  }
  [[nodiscard]] std::optional<std::uint32_t> count_waiters(Place place);
  /// Which processes of the file live; null without a file.
  [[nodiscard]] ProcessMarks* processes() noexcept { return processes_ ? &*processes_ : nullptr; }
  /// Follows the changes of all keys from now on. They are reported as Change::Kind::anything: a word does
  /// not know its keys.
  [[nodiscard]] std::unique_ptr<ChangeFeed> follow();

 private:
  class KeyWatch;
  class Feed;

  explicit WakeTable(std::shared_ptr<MappedWakeWords> words, std::optional<MarkFile> file = {});
  void wake(WakeWords::Place place, int count) const noexcept;
  void wake_sleepers(WakeWords::Place place, int count) const noexcept;

  const std::shared_ptr<MappedWakeWords> words_;
  std::shared_ptr<WakeListener> listener_;
  WaiterMarks marks_;
  std::optional<ProcessMarks> processes_;
};

}  // namespace holdfast::waiting
