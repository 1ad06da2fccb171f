#include "tasks/claimed_task.hpp"

#include "locks/operations.hpp"
#include "runtime/first_stop.hpp"
#include "tasks/address.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/operations.hpp"
#include "tasks/refusals.hpp"

namespace holdfast {

using runtime::Flow;
using runtime::Op;
using std::chrono::milliseconds;

ClaimedTask::ClaimedTask(Guard guard, std::shared_ptr<TaskStore> store, FencingToken fence, Task task)
    : store_(std::move(store)),
      fence_(std::move(fence)),
      watched_(std::make_shared<Watched>()),
      held_(LockStore::held(guard)),
      guard_(std::move(guard)) {
  watched_->task = std::move(task);
}

Claim ClaimedTask::start(Guard guard, std::shared_ptr<TaskStore> store, FencingToken fence, Task task) {
  auto self =
      std::make_shared<ClaimedTask>(std::move(guard), std::move(store), std::move(fence), std::move(task));
  const auto& watched = self->watched_;
  watched->on_loss.emplace(self->held_->lost(), Watched::StopOnLoss{watched});
  auto watching = self->call(Flow::completing(self->store_->threads), watched->unwatch.get_token());
  Op<Ok>::start(watch(std::move(watching), watched, self->task()),
                [watched, store = self->store_](const Result<Ok>& ended) {
                  // For example no thread for its timer: a worker that cannot be notified must not continue.
                  if (!ended) store->threads->user_code.post([watched] { stop_worker(*watched); });
                });
  return Claim(std::move(self));
}

Op<Ok> ClaimedTask::watch(tasks::Call call, std::shared_ptr<Watched> watched, Task claimed) {
  bool is_cancelled = false;
  bool is_gone = false;
  for (;;) {
    tasks::Until over{.is_so = [](const Task& task) { return is_final(task.status); }};
    const auto ended =
        co_await tasks::wait_until(call, claimed.owner, claimed.id, no_time_limit, std::move(over));
    if (call.stop.stop_requested()) co_return Ok{};
    if (ended) {
      is_cancelled = *ended && (*ended)->status == TaskStatus::cancelled;
      break;
    }
    // Also if another task has its id by now: the call names the incarnation.
    is_gone = ended.error().code() == ErrorCode::NotFound;
    if (is_gone) break;
    // The store is unreachable for now. The guard decides whether that loses the lock.
    constexpr milliseconds try_again(500);
    (void)co_await call.flow.sleep_until(BootClock::now() + try_again, call.stop);
  }
  {
    const std::lock_guard lock(watched->mutex);
    watched->cancelled = is_cancelled;
    watched->gone = watched->gone || is_gone;
    watched->over = true;
    if (watched->ending > 0) co_return Ok{};  // it may be the worker's own write; `end` will decide
  }
  co_await call.flow.leave_io_thread();
  stop_worker(*watched);
  co_return Ok{};
}

void ClaimedTask::stop_worker(Watched& watched) {
  {
    const std::lock_guard lock(watched.mutex);
    if (watched.released) return;
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

bool ClaimedTask::gone() const {
  const std::lock_guard lock(watched_->mutex);
  return watched_->gone;
}

tasks::Call ClaimedTask::call(Flow flow, std::stop_token stop) const {
  return {.flow = std::move(flow),
          .store = store_,
          .stop = std::move(stop),
          .fence = fence_,
          .incarnation = task().incarnation};
}

Op<Task> ClaimedTask::write(Flow flow, Self self, Write what, std::stop_token stop) {
  if (!self->held_->is_held()) {
    co_return Error(ErrorCode::InvalidArgument, "this claim has ended: the task's lock was released");
  }
  auto task = co_await what(self->call(std::move(flow), std::move(stop)), self->task());
  const std::lock_guard lock(self->watched_->mutex);
  if (!task) {
    if (task.error().code() == ErrorCode::NotFound) self->watched_->gone = true;
    co_return task.error();
  }
  // Of two concurrent writes the later one counts, whichever answer came first.
  if (self->watched_->task.version < task->version) self->watched_->task = *task;
  co_return std::move(task);
}

Op<Task> ClaimedTask::end(Flow flow, Self self, Write what, std::stop_token stop) {
  auto& watched = *self->watched_;
  {
    const std::lock_guard lock(watched.mutex);
    ++watched.ending;
  }
  auto task = co_await write(flow, self, std::move(what), stop);
  if (!task) {
    // The watching operation took the end for our own write and did not report it, but our write failed. A
    // refused write proves as much.
    bool stops = false;
    {
      const std::lock_guard lock(watched.mutex);
      stops = --watched.ending == 0 && (watched.over || tasks::ends_the_work(task.error()));
    }
    if (stops) {
      co_await flow.leave_io_thread();
      stop_worker(watched);
    }
    co_return task.error();
  }
  self->unwatch();
  // The caller only needs to know that the task has ended. If this release fails, the lock's lease expires.
  (void)co_await HeldLock::release(flow, self->held_, stop);
  co_return std::move(task);
}

Op<bool> ClaimedTask::release(Flow flow, Self self, std::stop_token stop) {
  self->unwatch();
  co_return co_await HeldLock::release(std::move(flow), self->held_, std::move(stop));
}

Op<Ok> ClaimedTask::wait_stopped(std::shared_ptr<Watched> watched, std::stop_token stop) {
  runtime::FirstStop first(watched->stop.get_token(), watched->unwatch.get_token(), std::move(stop));
  co_await first;
  if (watched->stop.stop_requested()) co_return Ok{};
  co_return Error(ErrorCode::Aborted, "the claim or the wait ended before the task was stopped");
}

void ClaimedTask::unwatch() noexcept {
  {
    const std::lock_guard lock(watched_->mutex);
    watched_->released = true;
  }
  watched_->unwatch.request_stop();
}

void ClaimedTask::dispose() noexcept {
  unwatch();
  const Guard last = std::move(guard_);
}

void ClaimedTask::dispose_in_background() noexcept {
  unwatch();
  guard_.release_in_background();
}

Op<Claim> tasks::claim(Call call, Locks locks, operation::ClaimTask what) {
  const auto& [owner, id, how] = what;
  const auto task = Address::of(owner, id, call.store->options.allow_anonymous);
  if (!task) co_return task.error();
  // Read first, so that the claim does not wait for the lock of a task that is absent or final.
  operation::GetTask get{owner, id};
  const auto now = co_await perform(call, std::move(get));
  if (!now) co_return now.error();
  if (is_final(now->status)) co_return is_over(id, now->status);
  // The lock belongs to the task: its fence counter is not needed after the task is gone.
  CounterLifetime as_the_task{.until = now->expires_at};
  operation::Lock wanted{.key = lock_key_of(task->key), .options = how, .counter_lifetime = as_the_task};
  auto locking = locks::perform(call.flow, LockStore::of(locks), std::move(wanted), call.stop);
  auto guard = co_await std::move(locking);
  if (!guard) co_return guard.error();
  // The claim means the task that was read. Another task may have got its id while this waited for the lock.
  call.incarnation = now->incarnation;
  auto fence = guard->token();
  // Raises the fence and reads in one step: from here on, earlier holders of the lock cannot write.
  operation::BindTask bind{owner, id, fence};
  auto claimed = co_await perform(call, std::move(bind));
  if (claimed && is_final(claimed->status)) claimed = is_over(id, claimed->status);
  if (!claimed) {
    // In a blocking flow the guard's destructor waits for the release.
    if (!call.flow.blocks()) guard->release_in_background();
    co_return claimed.error();
  }
  co_return ClaimedTask::start(*std::move(guard), call.store, std::move(fence), *std::move(claimed));
}

}  // namespace holdfast
