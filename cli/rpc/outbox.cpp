#include "rpc/outbox.hpp"

namespace holdfast::cli::rpc {

void Outbox::push(std::string_view line) {
  if (dropped_) return;
  waiting_.append(line).append("\n");
  changed_.notify();
}

void Outbox::finish() {
  finished_ = true;
  changed_.notify();
}

void Outbox::drop() {
  dropped_ = true;
  waiting_.clear();
  changed_.notify();
}

asio::awaitable<bool> Outbox::write_all() {
  while (!dropped_) {
    if (waiting_.empty()) {
      if (finished_) co_return true;
      co_await changed_.wait();
      continue;
    }
    being_written_.swap(waiting_);
    const bool written = co_await channel_.write(being_written_);
    being_written_.clear();
    changed_.notify();
    if (!written) break;
  }
  drop();
  co_return false;
}

}  // namespace holdfast::cli::rpc
