#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/redis/conn/stream.hpp"

namespace holdfast::redis {

/// A host name on its way to being addresses. Asking name servers blocks, so a thread of its own does it; one
/// that is given up on ends by itself, later.
class Resolution {
 public:
  /// ServiceUnavailable if the machine has no thread or descriptor left.
  [[nodiscard]] static Result<Resolution> start(const std::string& host, std::uint16_t port);

  /// Readable when it has ended.
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] bool ended() const;
  /// Requires ended().
  [[nodiscard]] Result<std::vector<Address>> take();

 private:
  struct State;
  explicit Resolution(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::redis
