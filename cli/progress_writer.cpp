#include "progress_writer.hpp"

#include <csignal>

#include "assignment.hpp"
#include "json_text.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

std::string object_of(const std::map<std::string, std::string>& members) {
  JsonObject object;
  for (const auto& [name, value] : members) object.add(name, value);
  return object.json().str();
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
  const auto assignment = split_assignment(text);
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
  if (!takes_more_ || pending_bytes_ + text.size() > max_pending_bytes) return;
  pending_bytes_ += text.size();
  pending_.insert_or_assign(assignment->first, assignment->second);
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
    auto batch = std::exchange(pending_, {});
    const auto batch_bytes = std::exchange(pending_bytes_, 0);
    lock.unlock();
    const auto outcome = write_(object_of(batch));
    lock.lock();
    if (outcome == Outcome::no_more) {
      takes_more_ = false;
      return;
    }
    if (outcome == Outcome::again && !last) {
      pending_.merge(batch);  // what came meanwhile is newer, and stays
      pending_bytes_ += batch_bytes;
      changed_.wait_for(lock, std::chrono::seconds(1), [this] { return end_; });
    }
  }
}

}  // namespace holdfast::cli
