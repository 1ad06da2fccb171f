#pragma once

#include <string>

namespace holdfast::cli {

/// What a lock is called in messages: by its key, or, if it is a task's own, by that task. Whoever typed an
/// id knows nothing of the key that belongs to it.
struct Subject {
  [[nodiscard]] static Subject lock(const std::string& key);
  /// `key`: of the task's own lock.
  [[nodiscard]] static Subject task(const std::string& id, const std::string& key);

  std::string key;
  /// "k" is waited for, or the task "x".
  std::string name;
  /// The lock "k" is lost, or the task "x".
  std::string noun;
  /// A command runs under the lock "k", or as the task "x".
  std::string running;
  /// Why it was not acquired.
  std::string taken;
  /// Why it is not waited for: whoever waits for us holds it.
  std::string nested;
};

}  // namespace holdfast::cli
