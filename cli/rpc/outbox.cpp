#include "rpc/outbox.hpp"

namespace holdfast::cli::rpc {

void Outbox::push(std::string_view line, const std::vector<std::string>& lock_ids) {
  pushed_ += line.size() + 1;
  for (const auto& lock_id : lock_ids) unheard_.push_back({.end = pushed_, .lock_id = lock_id});
  if (dropped_) return;
  waiting_.append(line).append("\n");
  changed_.notify();
}

std::vector<std::string> Outbox::unheard() const {
  std::vector<std::string> lock_ids;
  lock_ids.reserve(unheard_.size());
  for (const auto& one : unheard_) lock_ids.push_back(one.lock_id);
  return lock_ids;
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
    if (already_ == being_written_.size()) {
      being_written_.clear();
      already_ = 0;
      being_written_.swap(waiting_);
    }
    if (being_written_.empty()) {
      if (finished_) co_return true;
      co_await changed_.wait();
      continue;
    }
    const auto bytes = co_await channel_.write(std::string_view(being_written_).substr(already_));
    if (!bytes) break;
    already_ += *bytes;
    written_ += *bytes;
    while (!unheard_.empty() && unheard_.front().end <= written_) unheard_.pop_front();
    changed_.notify();
  }
  being_written_.clear();
  already_ = 0;
  drop();
  co_return false;
}

}  // namespace holdfast::cli::rpc
