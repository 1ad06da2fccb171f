#include "progress_writer.hpp"

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

#include "assignment.hpp"
#include "json_text.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

constexpr std::size_t max_pending_bytes = std::size_t{8} * 1024 * 1024;
/// How often one batch is divided and tried again, so that a command whose variables are all refused does not
/// keep the store busy, nor its own end waiting.
constexpr int max_writes_of_a_batch = 50;

std::size_t bytes_of(const std::pair<const std::string, std::string>& variable) noexcept {
  return variable.first.size() + variable.second.size();
}

}  // namespace

ProgressWriter::ProgressWriter(std::function<Outcome(const std::string&)> write,
                               std::function<void(const std::string&)> complain)
    : write_(std::move(write)), complain_(std::move(complain)), thread_([this] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        keep_writing();
      }) {}

ProgressWriter::~ProgressWriter() {
  finish();
}

void ProgressWriter::line(std::string_view text) {
  auto assignment = split_assignment(text);
  const bool good = assignment && Json::parse(assignment->second) && Json::string(assignment->first);
  const std::lock_guard lock(mutex_);
  if (!good) {
    if (!complained_) {
      complain_("descriptor 3: " + quote(text.substr(0, 100)) +
                " is passed over, as is every line that is not NAME=JSON (progress=0.5, phase=\"upload\")");
    }
    complained_ = true;
    return;
  }
  if (!takes_more_) return;
  auto& [name, value] = *assignment;
  const auto old = pending_.find(name);
  const auto freed = old == pending_.end() ? 0 : bytes_of(*old);
  const auto added = name.size() + value.size();
  if (added > freed && pending_bytes_ - freed + added > max_pending_bytes) return;
  pending_bytes_ += added - freed;
  pending_.insert_or_assign(std::move(name), std::move(value));
  changed_.notify_one();
}

void ProgressWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ProgressWriter::keep_writing() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return end_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const bool last = end_;
    const auto batch = std::exchange(pending_, {});
    pending_bytes_ = 0;
    lock.unlock();
    auto written = write_what_is_taken(batch);
    lock.lock();
    if (written.outcome == Outcome::no_more) {
      takes_more_ = false;
      return;
    }
    if (!last) {
      for (auto& variable : written.rest) {
        const auto bytes = bytes_of(variable);
        // What came meanwhile is newer, and stays.
        if (pending_.insert(std::move(variable)).second) pending_bytes_ += bytes;
      }
    }
    const auto rest = written.outcome == Outcome::again ? std::chrono::seconds(1) : written.writes * pause;
    changed_.wait_for(lock, rest, [this] { return end_; });
  }
}

/// One variable that is refused must not take the others with it: what is refused together is divided, and
/// each half tried for itself.
ProgressWriter::Written ProgressWriter::write_what_is_taken(const Variables& batch) {
  const std::vector<std::pair<std::string_view, std::string_view>> all(batch.begin(), batch.end());
  std::vector<std::span<const std::pair<std::string_view, std::string_view>>> parts{all};
  Written written;
  while (!parts.empty() && written.writes < max_writes_of_a_batch) {
    const auto part = parts.back();
    JsonObject object;
    for (const auto& [name, value] : part) object.add(name, value);
    written.outcome = write_(object.json().str());
    ++written.writes;
    if (written.outcome == Outcome::no_more) return written;
    if (written.outcome == Outcome::again) break;
    parts.pop_back();
    if (written.outcome == Outcome::dropped && part.size() > 1) {
      parts.push_back(part.subspan(part.size() / 2));
      parts.push_back(part.first(part.size() / 2));
    }
  }
  if (written.outcome == Outcome::again) {
    for (const auto& part : parts) written.rest.insert(part.begin(), part.end());
  }
  return written;
}

}  // namespace holdfast::cli
