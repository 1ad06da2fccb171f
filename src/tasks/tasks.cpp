#include <holdfast/tasks.hpp>

#include "core/utf8.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/claimed_task.hpp"
#include "tasks/creation.hpp"
#include "tasks/data.hpp"
#include "tasks/limits.hpp"
#include "tasks/list_loop.hpp"
#include "tasks/owner.hpp"
#include "tasks/refusals.hpp"
#include "tasks/store.hpp"
#include "tasks/wait_for_task.hpp"

namespace holdfast {
namespace {

using tasks::Change;
using tasks::ChangeLoop;
using tasks::ListLoop;
using tasks::TaskRecord;

/// A task of an owner, both checked.
struct Address {
  std::string owner;
  std::string id;
  RecordKey key;
};

Address address(const TaskStore& store, std::string_view owner, std::string_view id) {
  auto checked = tasks::checked_owner(owner, store.options.allow_anonymous).value_or_throw();
  auto key = RecordKey::of(tasks::stored_owner(checked), id).value_or_throw();
  return {.owner = std::move(checked), .id = std::string(id), .key = std::move(key)};
}

void require_fence(const TaskStore& store, const std::optional<FencingToken>& fence) {
  if (!store.options.require_fence || fence) return;
  throw Error(ErrorCode::WrongLock,
              "this store takes no change without a fence; write through with_fence, or claim the task");
}

Task change(TaskStore& store, const Address& task, Change what, const std::optional<FencingToken>& fence,
            const std::string& incarnation, const std::stop_token& stop) {
  require_fence(store, fence);
  auto& storage = *store.storage;
  ChangeLoop loop(task.id, task.owner, std::move(what), fence, incarnation);
  auto action = loop.start();
  for (;;) {
    if (auto* finished = std::get_if<ChangeLoop::Finished>(&action)) {
      return std::move(finished->result).value_or_throw();
    }
    if (auto* write = std::get_if<ChangeLoop::Write>(&action)) {
      auto data = tasks::record_data(std::move(write->data)).value_or_throw();
      PutRecord request{
          .key = task.key, .data = std::move(data), .expected = std::move(write->expected), .fence = fence};
      action = loop.resume(tasks::put(storage, std::move(request), stop));
    } else {
      action = loop.resume(tasks::get(storage, {.key = task.key}, stop), storage.now_ms());
    }
  }
}

Status transition(TaskRecord& record, const std::string& id, TaskStatus to,
                  const std::optional<std::string>& message) {
  if (is_final(record.status())) return tasks::is_over(id, record.status());
  if (!may_become(record.status(), to)) {
    return Error(ErrorCode::InvalidTransition,
                 "the task " + id + " is " + std::string(to_string(record.status())) + " already");
  }
  record.set_status(to, message);
  return Ok{};
}

void check_message(const std::optional<std::string>& message, const TaskOptions& options) {
  if (!message) return;
  if (!core::is_utf8(*message)) {
    throw Error(ErrorCode::InvalidArgument, "the status message is not valid UTF-8");
  }
  if (message->size() > options.max_string_bytes) {
    throw Error(ErrorCode::TooLarge,
                "the status message is longer than " + std::to_string(options.max_string_bytes) + " bytes");
  }
}

Change to_status(const std::string& id, TaskStatus status, std::optional<std::string> message) {
  return {.apply = [id, status, message = std::move(message)](TaskRecord& record) {
    return transition(record, id, status, message);
  }};
}

Change to_end_with_result(const std::string& id, TaskStatus status, Json result,
                          std::optional<std::string> message) {
  return {.apply = [id, status, result = std::move(result),
                    message = std::move(message)](TaskRecord& record) -> Status {
    if (auto moved = transition(record, id, status, message); !moved) return moved;
    record.set_result(result);
    return Ok{};
  }};
}

}  // namespace

Tasks::Tasks(std::shared_ptr<StorageBackend> storage, Locks locks, const TaskOptions& options)
    : store_(std::make_shared<TaskStore>(std::move(storage), options)), locks_(std::move(locks)) {}

StorageBackend& Tasks::storage() const noexcept {
  return *store_->storage;
}

Task Tasks::create(std::string_view owner, const NewTask& task, std::stop_token stop) {
  const auto& options = store_->options;
  const auto checked = tasks::checked_owner(owner, options.allow_anonymous).value_or_throw();
  const auto creation =
      tasks::Creation::prepare(checked, task, options, store_->storage->now_ms()).value_or_throw();
  auto request = creation.request(fence_).value_or_throw();
  const auto outcome = tasks::create(*store_->storage, std::move(request), std::move(stop)).value_or_throw();
  return creation.result(outcome, fence_).value_or_throw();
}

Task Tasks::get(std::string_view owner, std::string_view id, std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  const auto stored = tasks::get(*store_->storage, {.key = task.key}, std::move(stop)).value_or_throw();
  const auto record = tasks::record_of(stored, task.id, task.owner).value_or_throw();
  return record.task(stored->version, stored->incarnation, stored->guarded_by);
}

TaskPage Tasks::list(std::string_view owner, const ListTasks& what, std::stop_token stop) {
  const auto checked = tasks::checked_owner(owner, store_->options.allow_anonymous).value_or_throw();
  // Any name will do: it is the owner that must be valid.
  (void)RecordKey::of(tasks::stored_owner(checked), "").value_or_throw();
  ListLoop loop(checked, tasks::stored_owner(checked), what);
  auto action = loop.start();
  while (auto* request = std::get_if<ListRecords>(&action)) {
    action = loop.resume(tasks::list(*store_->storage, std::move(*request), stop));
  }
  return std::get<ListLoop::Finished>(std::move(action)).result.value_or_throw();
}

OwnerPage Tasks::owners(ListOwners what, std::stop_token stop) {
  auto page = tasks::list_owners(*store_->storage, std::move(what), std::move(stop)).value_or_throw();
  std::vector<std::string> names;
  for (const auto& stored : page.owners) {
    if (auto owner = tasks::owner_stored_as(stored)) names.push_back(*std::move(owner));
  }
  page.owners = std::move(names);
  return page;
}

Task Tasks::update_status(std::string_view owner, std::string_view id, TaskStatus status,
                          std::optional<std::string> message, std::stop_token stop) {
  check_message(message, store_->options);
  const auto task = address(*store_, owner, id);
  return change(*store_, task, to_status(task.id, status, std::move(message)), fence_, incarnation_, stop);
}

Task Tasks::set_variables(std::string_view owner, std::string_view id, const Json& changes,
                          std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  const auto checked = tasks::checked_variables(changes, store_->options).value_or_throw();
  return change(*store_, task, {.apply = [&](TaskRecord& record) -> Status {
    if (is_final(record.status())) return tasks::is_over(task.id, record.status());
    record.merge_variables(checked);
    return tasks::check_size(record.variables(), store_->options);
  }},
                fence_, incarnation_, stop);
}

Task Tasks::set_result(std::string_view owner, std::string_view id, const Json& result,
                       std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  (void)tasks::check_result(result).value_or_throw();
  return change(*store_, task,
                {.apply = [&](TaskRecord& record) -> Status {
                   if (is_final(record.status())) return tasks::is_over(task.id, record.status());
                   record.set_result(result);
                   return Ok{};
                 },
                 .still_meant = [](const TaskRecord& first,
                                   const TaskRecord& now) { return first.result() == now.result(); }},
                fence_, incarnation_, stop);
}

Task Tasks::complete_with_result(std::string_view owner, std::string_view id, const Json& result,
                                 std::optional<std::string> message, std::stop_token stop) {
  return end_with_result(owner, id, TaskStatus::completed, result, std::move(message), std::move(stop));
}

Task Tasks::fail_with_result(std::string_view owner, std::string_view id, const Json& result,
                             std::optional<std::string> message, std::stop_token stop) {
  return end_with_result(owner, id, TaskStatus::failed, result, std::move(message), std::move(stop));
}

Task Tasks::end_with_result(std::string_view owner, std::string_view id, TaskStatus status,
                            const Json& result, std::optional<std::string> message, std::stop_token stop) {
  check_message(message, store_->options);
  const auto task = address(*store_, owner, id);
  (void)tasks::check_result(result).value_or_throw();
  return change(*store_, task, to_end_with_result(task.id, status, result, std::move(message)), fence_,
                incarnation_, stop);
}

Task Tasks::fail(std::string_view owner, std::string_view id, std::optional<std::string> message,
                 std::stop_token stop) {
  return update_status(owner, id, TaskStatus::failed, std::move(message), std::move(stop));
}

Task Tasks::cancel(std::string_view owner, std::string_view id, std::optional<std::string> message,
                   std::stop_token stop) {
  check_message(message, store_->options);
  const auto task = address(*store_, owner, id);
  if (store_->options.require_fence) {
    throw Error(ErrorCode::WrongLock,
                "this store takes no change without a fence, and cancel has none; move the task to cancelled "
                "with update_status, under its lock");
  }
  return change(*store_, task, to_status(task.id, TaskStatus::cancelled, std::move(message)), std::nullopt,
                {}, stop);
}

/// Of the record that is there now, by its incarnation: should the request have to be repeated after a lost
/// answer, it must not remove a successor. One that cannot be read has none, and is removed as it is.
bool Tasks::remove(std::string_view owner, std::string_view id, std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  require_fence(*store_, fence_);
  auto& storage = *store_->storage;
  for (int attempt = 0; attempt < ChangeLoop::max_attempts; ++attempt) {
    const auto there = tasks::get(storage, {.key = task.key}, stop);
    if (!there && there.error().code() != ErrorCode::Internal) throw there.error();
    if (there && !*there) return false;
    if (there && !tasks::is_same_incarnation(incarnation_, (*there)->incarnation)) return false;
    RemoveRecord request{.key = task.key, .fence = fence_};
    if (there) {
      request.expected = ExpectedVersion{.version = (*there)->version, .incarnation = (*there)->incarnation};
    }
    const auto outcome = tasks::remove(storage, std::move(request), stop).value_or_throw();
    tasks::throw_if_refused(outcome, "the task " + task.id);
    if (!std::holds_alternative<VersionConflict>(outcome)) return std::holds_alternative<Removed>(outcome);
  }
  throw Error(ErrorCode::ConcurrentChange, "others kept changing the task " + task.id + "; try again");
}

std::optional<Json> Tasks::get_result(std::string_view owner, std::string_view id, std::stop_token stop) {
  auto task = get(owner, id, std::move(stop));
  if (!is_final(task.status)) {
    throw Error(ErrorCode::NotReady, "the task " + task.id + " is " + std::string(to_string(task.status)) +
                                         " and has no result yet; wait for it");
  }
  if (task.result.is_null()) return std::nullopt;
  return std::move(task.result);
}

std::optional<Task> Tasks::wait(std::string_view owner, std::string_view id,
                                std::chrono::milliseconds timeout, std::function<bool(const Task&)> until,
                                std::stop_token stop) {
  if (!until) until = [](const Task& task) { return is_final(task.status); };
  const auto task = address(*store_, owner, id);
  return tasks::wait_for_task(
      *store_->storage, task.key, [&] { return get(owner, id, stop); }, until,
      saturating_add(BootClock::now(), timeout), stop);
}

Tasks Tasks::with_fence(const Guard& guard) const {
  return with_fence({.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()});
}

Tasks Tasks::with_fence(FencingToken token) const {
  Tasks fenced = *this;
  fenced.fence_ = std::move(token);
  return fenced;
}

Tasks Tasks::for_incarnation(std::string incarnation) const {
  Tasks same = *this;
  same.incarnation_ = std::move(incarnation);
  return same;
}

Task Tasks::bind(std::string_view owner, std::string_view id, const FencingToken& token,
                 std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  const auto outcome =
      tasks::guard(*store_->storage, {.key = task.key, .fence = token}, std::move(stop)).value_or_throw();
  tasks::throw_if_refused(outcome, "the task " + task.id);
  const auto* stored = std::get_if<StoredRecord>(&outcome);
  if (stored == nullptr) throw tasks::no_such_task(task.id);
  const auto record = tasks::record_of(*stored, task.id, task.owner).value_or_throw();
  return record.task(stored->version, stored->incarnation, stored->guarded_by);
}

Task Tasks::rebind(std::string_view owner, std::string_view id, const std::optional<FencingToken>& token,
                   std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  const auto outcome =
      tasks::rebind(*store_->storage, {.key = task.key, .fence = token}, std::move(stop)).value_or_throw();
  const auto* stored = std::get_if<StoredRecord>(&outcome);
  if (stored == nullptr) throw tasks::no_such_task(task.id);
  const auto record = tasks::record_of(*stored, task.id, task.owner).value_or_throw();
  return record.task(stored->version, stored->incarnation, stored->guarded_by);
}

std::string Tasks::lock_key(std::string_view owner, std::string_view id) {
  const auto named = tasks::checked_owner(owner, true).value_or_throw();
  return tasks::lock_key_of(RecordKey::of(tasks::stored_owner(named), id).value_or_throw());
}

std::size_t Tasks::cleanup_expired(std::stop_token stop) {
  return tasks::cleanup_expired(*store_->storage, std::move(stop)).value_or_throw();
}

Claim Tasks::claim(std::string_view owner, std::string_view id, const LockOptions& how,
                   std::stop_token stop) {
  const auto task = address(*store_, owner, id);
  // Before the lock, which one may have to wait for, is taken for a task that is not there or is over.
  if (const auto now = get(owner, id, stop); is_final(now.status)) throw tasks::is_over(task.id, now.status);
  Guard guard = locks_.lock(tasks::lock_key_of(task.key), how, stop);
  const Tasks fenced = with_fence(guard);
  // Raises the fence and reads in one step: whoever held the lock before writes no more from here on.
  auto claimed = bind(owner, id, *fenced.fence(), std::move(stop));
  if (is_final(claimed.status)) throw tasks::is_over(task.id, claimed.status);
  return Claim(std::make_unique<ClaimedTask>(std::move(guard), fenced, std::move(claimed)));
}

}  // namespace holdfast
