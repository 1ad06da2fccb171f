#pragma once

namespace holdfast::os {

/// An event that a thread can poll(2) for beside its sockets: readable from set() until clear().
class Event {
 public:
  /// Throws Error if the process or the machine has no descriptor left.
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void set() noexcept;
  void clear() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace holdfast::os
