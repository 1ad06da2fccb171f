#include "queue/operations.hpp"

#include "queue/claiming.hpp"
#include "tasks/address.hpp"
#include "tasks/creation.hpp"
#include "tasks/operations.hpp"

namespace holdfast::queue {
namespace {

using runtime::Op;

Op<Task> create(QueueCall call, tasks::Creation creation) {
  auto request = creation.request(std::nullopt).value_or_throw();
  const auto outcome = co_await call.flow.ask(call.store->tasks->storage, std::move(request), call.stop);
  if (!outcome) co_return outcome.error();
  co_return creation.result(*outcome, std::nullopt);
}

/// What to claim, of these queues or of that of the call.
Result<Claim> claim_of(const QueueCall& call, const std::vector<std::string>& queues, const ClaimOptions& how,
                       std::size_t limit) {
  std::vector<std::string> owners;
  for (const auto& queue : queues) {
    auto owner = tasks::owner_of_queue(queue);
    if (!owner) return owner.error();
    owners.push_back(*std::move(owner));
  }
  if (owners.empty()) owners.push_back(call.owner);
  return Claim::of(call.store, std::move(owners), how, limit);
}

}  // namespace

Op<Task> perform(QueueCall call, operation::AddTask what) {
  const auto& store = *call.store->tasks;
  auto creation =
      tasks::Creation::prepare(call.owner, NewQueueTask(what.task), store.options, store.storage->now())
          .value_or_throw();
  auto creating = create(std::move(call), std::move(creation));
  co_return co_await std::move(creating);
}

Op<Task> perform(QueueCall call, operation::RetryTask what) {
  auto reading = tasks::perform(call.of_tasks(), operation::GetTask{{}, what.id});
  const auto failed = co_await std::move(reading);
  if (!failed) co_return failed.error();
  if (failed->status != TaskStatus::failed && failed->status != TaskStatus::cancelled) {
    co_return Error(ErrorCode::InvalidTransition, "the task " + what.id + " is " +
                                                      std::string(to_string(failed->status)) +
                                                      "; only failed and cancelled tasks can be retried")
        .between(to_string(failed->status), to_string(TaskStatus::working));
  }
  const auto& store = *call.store->tasks;
  auto creation =
      tasks::Creation::prepare_retry(*failed, store.options, store.storage->now()).value_or_throw();
  auto creating = create(std::move(call), std::move(creation));
  co_return co_await std::move(creating);
}

Op<std::optional<Job>> perform(QueueCall call, operation::ClaimNextTask what) {
  auto wanted = claim_of(call, what.queues, ClaimOptions(what.how), 1);
  if (!wanted) co_return wanted.error();
  auto claiming = claim(std::move(call.flow), *std::move(wanted), std::move(call.stop));
  auto jobs = co_await std::move(claiming);
  if (!jobs) co_return jobs.error();
  if (jobs->empty()) co_return std::nullopt;
  co_return std::optional<Job>(std::move(jobs->front()));
}

Op<std::vector<Job>> perform(QueueCall call, operation::ClaimNextTasks what) {
  auto wanted = claim_of(call, what.queues, ClaimOptions(what.how), what.limit);
  if (!wanted) co_return wanted.error();
  auto claiming = claim(std::move(call.flow), *std::move(wanted), std::move(call.stop));
  co_return co_await std::move(claiming);
}

Op<std::optional<Job>> perform(QueueCall call, operation::TryClaimTask what) {
  auto wanted = claim_of(call, {}, ClaimOptions(what.how), 1);
  if (!wanted) co_return wanted.error();
  auto claiming =
      claim_task(std::move(call.flow), *std::move(wanted), std::move(what.id), std::move(call.stop));
  co_return co_await std::move(claiming);
}

Op<QueueCounts> perform(QueueCall call, operation::CountTasks) {
  CountQueue request{.owner = call.owner};
  co_return co_await call.flow.ask(call.store->tasks->storage, std::move(request), call.stop);
}

Op<QueueCounts> perform(QueueCall call, operation::SetUpQueue what) {
  ConfigureQueue request{.owner = call.owner, .paused = what.paused, .max_leased = what.max_leased};
  co_return co_await call.flow.ask(call.store->tasks->storage, std::move(request), call.stop);
}

Op<QueuePage> perform(QueueCall call, operation::ListQueues what) {
  ListOwners request{.cursor = std::move(what.cursor), .limit = what.limit};
  auto page = co_await call.flow.ask(call.store->tasks->storage, std::move(request), call.stop);
  if (!page) co_return page.error();
  QueuePage queues{.queues = {}, .cursor = std::move(page->cursor)};
  for (const auto& stored : page->owners) {
    if (auto queue = tasks::queue_stored_as(stored)) queues.queues.push_back(*std::move(queue));
  }
  co_return std::move(queues);
}

}  // namespace holdfast::queue
