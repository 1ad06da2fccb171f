// The operations that change nothing.

#include "tasks/address.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/exhausted.hpp"
#include "tasks/list_loop.hpp"
#include "tasks/operations.hpp"
#include "tasks/refusals.hpp"
#include "tasks/wait_for_task.hpp"

namespace holdfast::tasks {

using runtime::Op;

Op<Task> perform(Call call, operation::GetTask what) {
  const auto task = call.address(what.owner, std::move(what.id));
  if (!task) co_return task.error();
  GetRecord request{.key = task->key};
  const auto stored = co_await call.ask(std::move(request));
  if (!stored) co_return stored.error();
  const auto record = record_of(*stored, task->id, task->owner);
  if (!record) co_return record.error();
  if (!is_same_incarnation(call.incarnation, (*stored)->incarnation)) co_return no_such_task(task->id);
  auto settling = settle(std::move(call), record->task(**stored));
  co_return co_await std::move(settling);
}

Op<TaskPage> perform(Call call, operation::ListTasksOfOwner what) {
  // The name is arbitrary: only the owner must be valid.
  const auto list = call.address(what.owner, "").value_or_throw();
  const ListTasks wanted = what.what;
  std::optional<WallTime> created_before;
  if (wanted.older_than > std::chrono::milliseconds(0)) {
    created_before = call.store->storage->now() - wanted.older_than + std::chrono::milliseconds(1);
  }
  ListLoop loop(list.owner, std::string(list.key.owner()), wanted, created_before);
  auto action = loop.start();
  while (auto* request = std::get_if<ListRecords>(&action)) {
    const auto page = co_await call.ask(std::move(*request));
    action = loop.resume(page);
  }
  auto page = std::get<ListLoop::Finished>(std::move(action)).result;
  if (!page) co_return page.error();
  for (auto& task : page->tasks) {
    const auto now = call.store->storage->now();
    if (!why_exhausted(task, now) && !may_have_died(task, now)) continue;
    auto settling = settle(call, task);
    auto settled = co_await std::move(settling);
    if (settled) task = *std::move(settled);
  }
  co_return std::move(page);
}

Op<OwnerPage> perform(Call call, operation::ListOwnersOfTasks what) {
  const ListTaskOwners wanted = what.what;
  ListOwners request{
      .cursor = std::string(wanted.cursor), .limit = wanted.limit, .deadline = wanted.deadline};
  auto page = co_await call.ask(std::move(request));
  if (!page) co_return page.error();
  std::vector<std::string> names;
  for (const auto& stored : page->owners) {
    if (auto owner = owner_stored_as(stored)) {
      names.push_back(*std::move(owner));
    } else if (stored != owner_of_registers && !queue_stored_as(stored)) {
      page->unreadable.push_back(stored);
    }
  }
  page->owners = std::move(names);
  co_return std::move(page);
}

Op<std::unique_ptr<ChangeFeed>> perform(Call call, operation::FollowAllTasks) {
  co_return co_await call.ask(FollowRecords{});
}

Op<std::optional<Json>> perform(Call call, operation::GetTaskResult what) {
  operation::GetTask get{std::move(what.owner), std::move(what.id)};
  auto task = co_await perform(std::move(call), std::move(get));
  if (!task) co_return task.error();
  if (!is_final(task->status)) {
    co_return Error(ErrorCode::NotReady, "the task " + task->id + " is " +
                                             std::string(to_string(task->status)) +
                                             " and has no result yet; wait until it ends");
  }
  if (task->result.is_null()) co_return std::nullopt;
  co_return std::move(task->result);
}

Op<std::optional<Task>> wait_until(Call call, std::string owner, std::string id,
                                   std::chrono::milliseconds timeout, Until until) {
  auto task = call.address(owner, id);
  if (!task) co_return task.error();
  const auto deadline = saturating_add(BootClock::now(), timeout);
  WaitForTask what{.flow = call.flow,
                   .store = call.store,
                   .key = std::move(task->key),
                   .get = [&call, &owner, &id] { return perform(call, operation::GetTask{owner, id}); },
                   .until = std::move(until),
                   .deadline = deadline,
                   .stop = call.stop};
  co_return co_await wait_for_task(std::move(what));
}

Op<std::optional<Task>> perform(Call call, operation::AwaitTask what) {
  Until until{.is_so = [](const Task& task) { return is_final(task.status); }};
  if (what.until) until = {.is_so = std::move(what.until), .is_user_code = true};
  return wait_until(std::move(call), std::move(what.owner), std::move(what.id), what.timeout,
                    std::move(until));
}

}  // namespace holdfast::tasks
