#pragma once

#include <optional>

namespace holdfast::cli {

/// How many processes all commands have that may have to be stopped soon: a number that the keepers of one
/// user share. What a process has added to it disappears with that process, however it ends.
///
/// It is a System V semaphore, which the kernel keeps: no file, no directory and no disk is needed, and only
/// its user can change it. An IPC namespace (most containers) has its own. See docs/internals/keeper.md.
class StopCount {
 public:
  /// Prepares the semaphore, while there is no hurry.
  StopCount() noexcept;
  ~StopCount();
  StopCount(const StopCount&) = delete;
  StopCount& operator=(const StopCount&) = delete;

  /// Replaces what this object has added before.
  void set(unsigned processes) noexcept;
  /// Nothing if it is not known: the system has no such semaphores, they cannot be
  /// changed, or another user has taken its place.
  [[nodiscard]] std::optional<unsigned> total() noexcept;

 private:
  bool open() noexcept;
  bool add(int change) noexcept;

  int id_ = -1;
  unsigned own_ = 0;   ///< what set() was given
  unsigned mine_ = 0;  ///< how much of it is in the semaphore
  bool works_ = true;
};

}  // namespace holdfast::cli
