#include "tasks/claimed_task.hpp"

#include "sys/sleep.hpp"

namespace holdfast {

using std::chrono::milliseconds;

ClaimedTask::ClaimedTask(Guard guard, Tasks fenced, Task task)
    : guard_(std::move(guard)), fenced_(std::move(fenced)), watched_(std::make_shared<Watched>()) {
  watched_->task = task;
  on_loss_.emplace(guard_.lost(), StopOnLoss{watched_});
  watcher_.post([watched = watched_, tasks = fenced_, owner = task.owner, id = task.id] {
    watch(*watched, tasks, owner, id);
  });
}

ClaimedTask::~ClaimedTask() {
  if (watcher_.is_home()) stop_watching();
}

void ClaimedTask::watch(Watched& watched, Tasks tasks, const std::string& owner, const std::string& id) {
  const auto stop = watched.unwatch.get_token();
  bool is_cancelled = false;
  while (!stop.stop_requested()) {
    try {
      const auto ended = tasks.wait(owner, id, no_time_limit, {}, stop);
      is_cancelled = ended && ended->status == TaskStatus::cancelled;
      break;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::NotFound) break;
      // The store is away for the moment. Whether the lock is lost over that is the guard's to say.
      constexpr milliseconds try_again(500);
      sys::sleep_until(BootClock::now() + try_again, stop);
    }
  }
  if (stop.stop_requested()) return;
  {
    const std::lock_guard lock(watched.mutex);
    if (watched.ending) return;
    watched.cancelled = is_cancelled;
  }
  watched.stop.request_stop();
}

Task ClaimedTask::task() const {
  const std::lock_guard lock(watched_->mutex);
  return watched_->task;
}

bool ClaimedTask::cancelled() const {
  const std::lock_guard lock(watched_->mutex);
  return watched_->cancelled;
}

Task ClaimedTask::write_and_remember(const std::function<Task(Tasks&)>& change) {
  auto task = change(fenced_);
  const std::lock_guard lock(watched_->mutex);
  watched_->task = task;
  return task;
}

Task ClaimedTask::write(const std::function<Task(Tasks&)>& change) {
  return write_and_remember(change);
}

Task ClaimedTask::end(const std::function<Task(Tasks&)>& change) {
  {
    const std::lock_guard lock(watched_->mutex);
    watched_->ending = true;
  }
  std::optional<Task> task;
  try {
    task = write_and_remember(change);
  } catch (const Error& error) {
    // Whoever was faster: the watching thread may have seen it and kept silent, taking it for our doing.
    const bool over = error.code() == ErrorCode::InvalidTransition || error.code() == ErrorCode::NotFound ||
                      error.code() == ErrorCode::StaleFence;
    if (over) watched_->stop.request_stop();
    const std::lock_guard lock(watched_->mutex);
    watched_->ending = false;
    throw;
  }
  stop_watching();
  try {
    guard_.release();
  } catch (const Error&) {
    // The task has ended, which is what the caller wants to know. The lock ends with its lease.
  }
  return *task;
}

bool ClaimedTask::release() {
  stop_watching();
  return guard_.release();
}

}  // namespace holdfast
