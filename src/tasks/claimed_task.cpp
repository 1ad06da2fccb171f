#include "tasks/claimed_task.hpp"

#include "sys/sleep.hpp"
#include "tasks/change_loop.hpp"

namespace holdfast {

using std::chrono::milliseconds;

ClaimedTask::ClaimedTask(Guard guard, const Tasks& fenced, Task task)
    : guard_(std::move(guard)),
      fenced_(fenced.for_incarnation(task.incarnation)),
      watched_(std::make_shared<Watched>()) {
  watched_->task = std::move(task);
  on_loss_.emplace(guard_.lost(), StopOnLoss{watched_});
  const bool is_watched = watcher_.try_post(
      [watched = watched_, tasks = fenced_, task = watched_->task] { watch(*watched, tasks, task); });
  if (!is_watched) {
    throw Error(ErrorCode::ServiceUnavailable,
                "there is no thread to watch over the claimed task; the system's limit is reached");
  }
}

ClaimedTask::~ClaimedTask() {
  if (watcher_.is_home()) watched_->unwatch.request_stop();
}

void ClaimedTask::watch(Watched& watched, Tasks tasks, const Task& claimed) {
  const auto stop = watched.unwatch.get_token();
  const auto is_over = [&](const Task& task) {
    return is_final(task.status) || !tasks::is_same_incarnation(claimed.incarnation, task.incarnation);
  };
  bool is_cancelled = false;
  for (;;) {
    try {
      const auto ended = tasks.wait(claimed.owner, claimed.id, no_time_limit, is_over, stop);
      is_cancelled = ended && ended->status == TaskStatus::cancelled &&
                     tasks::is_same_incarnation(claimed.incarnation, ended->incarnation);
      break;
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      if (error.code() == ErrorCode::NotFound) break;
    } catch (const std::exception&) {
      if (stop.stop_requested()) return;
    }
    // The store is away for the moment. Whether the lock is lost over that is the guard's to say.
    constexpr milliseconds try_again(500);
    sys::sleep_until(BootClock::now() + try_again, stop);
  }
  {
    const std::lock_guard lock(watched.mutex);
    watched.cancelled = is_cancelled;
    watched.over = true;
    if (watched.ending) return;  // it may be the worker's own doing; `end` will know
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

Task ClaimedTask::write(const std::function<Task(Tasks&)>& change) {
  if (!guard_) {
    throw Error(ErrorCode::InvalidArgument,
                "this claim has ended: its lock was released, and so was the task");
  }
  auto task = change(fenced_);
  // A record of other software gets its incarnation with our first write.
  fenced_ = fenced_.for_incarnation(task.incarnation);
  const std::lock_guard lock(watched_->mutex);
  watched_->task = task;
  return task;
}

Task ClaimedTask::end(const std::function<Task(Tasks&)>& change) {
  set_ending(true);
  std::optional<Task> task;
  try {
    task = write(change);
  } catch (...) {
    // What the watching thread kept silent about, taking it for our doing, was not. And a write that was
    // refused tells as much as that thread would.
    const bool over = set_ending(false);
    if (over || is_refusal(std::current_exception())) watched_->stop.request_stop();
    throw;
  }
  watched_->unwatch.request_stop();
  try {
    guard_.release();
  } catch (const Error&) {
    // The task has ended, which is what the caller wants to know. The lock ends with its lease.
  }
  return *task;
}

bool ClaimedTask::set_ending(bool ending) {
  const std::lock_guard lock(watched_->mutex);
  watched_->ending = ending;
  return watched_->over;
}

bool ClaimedTask::is_refusal(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::NotFound:
      case ErrorCode::InvalidTransition:
      case ErrorCode::StaleFence:
      case ErrorCode::WrongLock:
        return true;
      default:
        return false;
    }
  } catch (...) {
    return false;
  }
}

bool ClaimedTask::release() {
  watched_->unwatch.request_stop();
  return guard_.release();
}

}  // namespace holdfast
