#include "supervision/output_keeper.hpp"

#include <algorithm>
#include <holdfast/error.hpp>

#include "process/job_control.hpp"

namespace holdfast::cli {
namespace {

/// How long the outcome of a command waits for its output, and the end of this process for all.
constexpr std::chrono::milliseconds longest_end{500};
constexpr std::chrono::milliseconds longest_farewell{2000};

}  // namespace

void OutputKeeper::Log::write(std::size_t stream, std::string_view bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(keeper_.mutex_);
  if (is_refused_) return;
  auto& to = streams_[stream];
  to.pending += bytes;
  // Dropped here, it would be dropped there: behind it there is as much as is kept.
  if (to.pending.size() > keeper_.keep_) {
    const auto dropped = to.pending.size() - keeper_.keep_;
    to.pending.erase(0, dropped);
    to.at += dropped;
  }
  keeper_.changed_.notify_one();
}

OutputKeeper::OutputKeeper(std::size_t keep) : keep_(keep) {}

OutputKeeper::~OutputKeeper() {
  {
    const std::lock_guard lock(mutex_);
    give_up_at_ = BootClock::now() + longest_farewell;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<OutputKeeper::Log> OutputKeeper::begin(Append append) {
  auto log = std::make_shared<Log>(*this, std::move(append));
  const std::lock_guard lock(mutex_);
  logs_.push_back(log);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] {
      block_all_signals();
      keep_sending();
    });
  }
  return log;
}

void OutputKeeper::end(const std::shared_ptr<Log>& log) {
  std::unique_lock lock(mutex_);
  log->is_ended_ = true;
  log->next_ = {};
  changed_.notify_one();
  sent_.wait_for(lock, longest_end, [&] { return log->is_refused_ || !log->has_pending(); });
}

/// Each log in its turn, so that one that writes a lot does not delay the others.
std::shared_ptr<OutputKeeper::Log> OutputKeeper::next_log(BootTime now, BootTime& wait_until) {
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    const auto& log = logs_[(turn_ + i) % logs_.size()];
    if (!log->has_pending()) continue;
    if (log->next_ <= now) {
      turn_ = (turn_ + i + 1) % logs_.size();
      return log;
    }
    wait_until = std::min(wait_until, log->next_);
  }
  return nullptr;
}

void OutputKeeper::keep_sending() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool is_closing = give_up_at_ != never;
    std::erase_if(logs_, [&](const auto& log) {
      return log->is_refused_ || ((log->is_ended_ || is_closing) && !log->has_pending());
    });
    const auto now = BootClock::now();
    if (is_closing && (logs_.empty() || now >= give_up_at_)) return;
    auto wait_until = std::min(give_up_at_, now + std::chrono::hours(1));
    if (const auto log = next_log(now, wait_until)) {
      send(lock, *log);
      sent_.notify_all();
    } else {
      changed_.wait_for(lock, wait_until - now);
    }
  }
}

void OutputKeeper::send(std::unique_lock<std::mutex>& lock, Log& log) {
  std::array<std::string, 2> bytes;
  std::array<std::uint64_t, 2> at{};
  std::size_t room = most_at_once;
  bool is_all = log.is_ended_;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto& stream = log.streams_[i];
    // Half of the room at least for stderr, if it needs it.
    const auto others = i == 0 ? std::min(log.streams_[1].pending.size(), most_at_once / 2) : 0;
    bytes[i] = stream.pending.substr(0, room - others);
    at[i] = stream.at;
    room -= bytes[i].size();
    is_all = is_all && bytes[i].size() == stream.pending.size();
  }
  lock.unlock();
  enum class Sent : std::uint8_t { yes, no, refused } sent = Sent::yes;
  try {
    log.append_({.token = {.authority = {}, .lock_key = {}, .fence = Fence()},
                 .out = bytes[0],
                 .err = bytes[1],
                 .out_at = at[0],
                 .err_at = at[1],
                 .keep = keep_,
                 .is_complete = is_all});
  } catch (const Error& error) {
    sent = error.transient() ? Sent::no : Sent::refused;
  }
  lock.lock();
  log.next_ = BootClock::now() + (sent == Sent::no ? pause_after_error : pause);
  log.is_refused_ = sent == Sent::refused;
  if (sent != Sent::yes) return;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto& stream = log.streams_[i];
    const auto end = at[i] + bytes[i].size();
    if (end <= stream.at) continue;  // dropped meanwhile
    stream.pending.erase(0, end - stream.at);
    stream.at = end;
  }
  log.is_end_sent_ = is_all;
  // There is more than one request holds: the next one need not wait.
  if (log.is_ended_ || log.streams_[0].pending.size() + log.streams_[1].pending.size() >= most_at_once) {
    log.next_ = {};
  }
}

}  // namespace holdfast::cli
