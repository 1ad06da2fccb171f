#include "rpc/in_flight.hpp"

#include <algorithm>

namespace holdfast::cli::rpc {

std::shared_ptr<Running> InFlight::add(std::string id, bool waits) {
  auto running = std::make_shared<Running>();
  running->id = std::move(id);
  running->waits = waits;
  all_.push_back(running);
  if (waits) ++waiting_;
  return running;
}

void InFlight::remove(const std::shared_ptr<Running>& running) {
  const auto found = std::ranges::find(all_, running);
  if (found == all_.end()) return;
  if (running->waits) --waiting_;
  *found = std::move(all_.back());
  all_.pop_back();
}

bool InFlight::cancel(std::string_view id) {
  bool found = false;
  // A copy: what is cancelled may end at once, and is removed then.
  for (const auto& running : std::vector(all_)) {
    if (running->id != id) continue;
    found = true;
    running->cancellation.emit(asio::cancellation_type::terminal);
  }
  return found;
}

void InFlight::cancel_waiting() {
  for (const auto& running : std::vector(all_)) {
    if (running->waits) running->cancellation.emit(asio::cancellation_type::terminal);
  }
}

}  // namespace holdfast::cli::rpc
