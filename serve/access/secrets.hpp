#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace holdfast::serve {

/// Compares two secrets in a time that depends on their lengths only.
[[nodiscard]] bool equal_secrets(std::string_view left, std::string_view right) noexcept;
/// Returns 256 random bits of the kernel as 64 hex digits.
[[nodiscard]] std::string new_secret();

/// The sessions of browsers that have presented the token. A session has an id of its own, so the token
/// itself is in no cookie.
class Sessions {
 public:
  using Clock = std::chrono::steady_clock;
  /// From the login on, used or not.
  static constexpr std::chrono::hours lifetime{12};
  /// At the limit, the oldest one ends.
  static constexpr std::size_t limit = 256;

  /// Begins a session. `id` is a new secret.
  void add(std::string id, Clock::time_point now);
  [[nodiscard]] bool contains(std::string_view id, Clock::time_point now);
  void remove(std::string_view id);

 private:
  struct Session {
    std::string id;
    Clock::time_point until;
  };
  std::deque<Session> sessions_;  ///< the oldest first
};

}  // namespace holdfast::serve
