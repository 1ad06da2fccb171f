#include "task/variable_writer.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "arguments/values.hpp"
#include "process/job_control.hpp"
#include "rpc/json/text.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

constexpr std::size_t max_pending_bytes = std::size_t{8} * 1024 * 1024;
/// Limits how often one batch is divided, so that a command whose variables are all refused neither keeps the
/// store busy nor delays its own end.
constexpr int max_writes_of_a_batch = 50;

std::size_t bytes_of(const std::pair<const std::string, std::string>& variable) noexcept {
  return variable.first.size() + variable.second.size();
}

}  // namespace

VariableWriter::VariableWriter(std::function<Outcome(const std::string&)> write,
                               std::function<void(const std::string&)> complain)
    : write_(std::move(write)), complain_(std::move(complain)), thread_([this] {
        block_all_signals();
        keep_writing();
      }) {}

VariableWriter::~VariableWriter() {
  finish();
}

void VariableWriter::line(std::string_view text) {
  auto assignment = split_assignment(text);
  const bool good = assignment && Json::parse(assignment->second) && Json::string(assignment->first);
  const std::lock_guard lock(mutex_);
  if (!good) {
    if (!complained_) {
      complain_("descriptor 3: " + quote(text.substr(0, 100)) +
                " was ignored; lines must be NAME=JSON (progress=0.5, phase=\"upload\")");
    }
    complained_ = true;
    return;
  }
  if (closed_) return;
  auto& [name, value] = *assignment;
  const auto old = pending_.find(name);
  const auto freed = old == pending_.end() ? 0 : bytes_of(*old);
  const auto added = name.size() + value.size();
  if (added > freed && pending_bytes_ - freed + added > max_pending_bytes) return;
  pending_bytes_ += added - freed;
  pending_.insert_or_assign(std::move(name), std::move(value));
  changed_.notify_one();
}

void VariableWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void VariableWriter::keep_writing() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return end_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const bool last = end_;
    const auto batch = std::exchange(pending_, {});
    pending_bytes_ = 0;
    lock.unlock();
    auto written = write_in_parts(batch);
    lock.lock();
    if (written.outcome == Outcome::closed) {
      closed_ = true;
      return;
    }
    if (!last) {
      for (auto& variable : written.rest) {
        const auto bytes = bytes_of(variable);
        // A value that came meanwhile is newer, and stays.
        if (pending_.insert(std::move(variable)).second) pending_bytes_ += bytes;
      }
    }
    const auto rest = written.outcome == Outcome::retry ? std::chrono::seconds(1) : written.writes * pause;
    changed_.wait_for(lock, rest, [this] { return end_; });
  }
}

/// One refused variable must not discard the others: a refused part is divided, and each half is written
/// alone.
VariableWriter::Written VariableWriter::write_in_parts(const Variables& batch) {
  const std::vector<std::pair<std::string_view, std::string_view>> all(batch.begin(), batch.end());
  std::vector<std::span<const std::pair<std::string_view, std::string_view>>> parts{all};
  Written written;
  while (!parts.empty() && written.writes < max_writes_of_a_batch) {
    const auto part = parts.back();
    rpc::JsonObject object;
    for (const auto& [name, value] : part) object.add(name, value);
    written.outcome = write_(object.json().str());
    ++written.writes;
    if (written.outcome == Outcome::closed) return written;
    if (written.outcome == Outcome::retry) break;
    parts.pop_back();
    if (written.outcome == Outcome::refused && part.size() > 1) {
      parts.push_back(part.subspan(part.size() / 2));
      parts.push_back(part.first(part.size() / 2));
    }
  }
  if (written.outcome == Outcome::retry) {
    for (const auto& part : parts) written.rest.insert(part.begin(), part.end());
  }
  return written;
}

}  // namespace holdfast::cli
