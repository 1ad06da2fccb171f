#pragma once

#include <asio/cancellation_signal.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli::rpc {

/// One request that is being carried out.
struct Running {
  std::string id = {};  ///< as comparable_id gives it; empty for a notification
  bool waits = false;   ///< for something that others decide
  asio::cancellation_signal cancellation = {};
  /// A lock that it has taken, and that nobody knows of before its answer. Empty if it has not.
  std::string lock_id = {};
};

/// The requests of one client that have not been answered yet.
class InFlight {
 public:
  [[nodiscard]] std::shared_ptr<Running> add(std::string id, bool waits);
  void remove(const std::shared_ptr<Running>& running);

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
  /// Those that do not wait.
  [[nodiscard]] std::size_t running() const noexcept { return all_.size() - waiting_; }

  /// False if there is none with this id. One that has got what it asked for is answered with that.
  bool cancel(std::string_view id);
  /// What can end by itself is left to do so: a change that is on its way is better finished.
  void cancel_waiting();

 private:
  std::vector<std::shared_ptr<Running>> all_;
  std::size_t waiting_ = 0;
};

}  // namespace holdfast::cli::rpc
