#include "view/following.hpp"

#include <iterator>
#include <utility>

namespace holdfast::view {

Following::Following(std::unique_ptr<ChangeFeed> feed, std::function<void()> wake)
    : feed_(std::move(feed)), wake_(std::move(wake)) {}

Following::~Following() {
  stop_.request_stop();
  std::unique_lock guard(mutex_);
  ended_.wait(guard, [this] { return !waiting_; });
}

std::vector<Change> Following::take() {
  std::vector<Change> taken;
  bool listens = false;
  {
    const std::lock_guard guard(mutex_);
    taken = std::exchange(changes_, {});
    listens = std::exchange(waiting_, true);
  }
  if (!listens) {
    feed_->wait(never, stop_.get_token(),
                [this](Result<std::vector<Change>> changes) { hear(std::move(changes)); });
  }
  return taken;
}

void Following::hear(Result<std::vector<Change>> changes) noexcept {
  // The destructor may go on as soon as the mutex is free.
  const std::lock_guard guard(mutex_);
  if (changes) {
    std::move(changes->begin(), changes->end(), std::back_inserter(changes_));
  } else {
    changes_.push_back({.kind = Change::Kind::anything});
  }
  waiting_ = false;
  if (!stop_.stop_requested()) wake_();
  ended_.notify_all();
}

namespace {

std::string unescaped_name(std::string_view rest) {
  std::string name;
  while (!rest.empty()) {
    const bool is_colon = rest.starts_with("%3A");
    const bool is_escape = is_colon || rest.starts_with("%25");
    name += is_colon ? ':' : rest.front();  // of %25 the first character
    rest.remove_prefix(is_escape ? 3 : 1);
  }
  return name;
}

}  // namespace

TaskName task_name(std::string_view key) {
  const auto colon = key.find(':');
  return {.owner = unescaped_name(key.substr(0, colon)),
          .id = colon == std::string_view::npos ? "" : std::string(key.substr(colon + 1))};
}

std::optional<std::string> queue_name(std::string_view key) {
  // No owner is stored under such a name: docs/internals/queues.md.
  constexpr std::string_view of_queues = "%queue%25";
  if (!key.starts_with(of_queues)) return std::nullopt;
  const auto name = key.substr(of_queues.size());
  return unescaped_name(name.substr(0, name.find(':')));
}

}  // namespace holdfast::view
