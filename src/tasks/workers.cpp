// Who works on ordinary tasks: the holders of the locks that they are bound to.

#include "locks/lock_store.hpp"
#include "tasks/operations.hpp"

namespace holdfast::tasks {

using runtime::Op;

bool is_lock_of(const FencingToken& token, const Locks& locks) {
  const bool same_store = locks.capabilities().authority_per_key || token.authority == locks.authority();
  return same_store && LockKey::parse(token.lock_key);
}

Op<std::optional<Claim>> try_claim(Call call, Locks locks, operation::TryClaimOrdinaryTask what) {
  LockOptions how = what.how;
  how.wait = std::chrono::milliseconds(0);
  how.retries = std::nullopt;
  operation::ClaimTask once{std::move(what.owner), std::move(what.id), how};
  auto claiming = claim(std::move(call), std::move(locks), std::move(once));
  auto claimed = co_await std::move(claiming);
  if (claimed) co_return std::optional<Claim>(*std::move(claimed));
  if (claimed.error().code() == ErrorCode::AcquisitionTimeout) co_return std::nullopt;
  co_return claimed.error();
}

Op<TaskPage> list(Call call, Locks locks, operation::ListTasksOfOwner what) {
  const bool unclaimed = ListTasks(what.what).unclaimed;
  auto listing = perform(call, std::move(what));
  auto page = co_await std::move(listing);
  if (!page || !unclaimed) co_return std::move(page);
  // A claim binds its task, so one that was never bound has no worker. (A claim on its way has the lock
  // already, for the time of one request.)
  std::vector<Task> free;
  for (auto& task : page->tasks) {
    if (task.bound_to && !is_lock_of(*task.bound_to, locks)) continue;
    if (task.bound_to) {
      IsLockedRequest request{.key = LockKey::parse(task.bound_to->lock_key).value_or_throw()};
      const auto is_locked =
          co_await call.flow.ask(LockStore::of(locks)->backend, std::move(request), call.stop);
      if (!is_locked) co_return is_locked.error();
      if (*is_locked) continue;
    }
    free.push_back(std::move(task));
  }
  page->tasks = std::move(free);
  co_return std::move(page);
}

}  // namespace holdfast::tasks
