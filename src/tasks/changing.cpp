// The operations that change tasks.

#include "core/utf8.hpp"
#include "tasks/address.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/change_turns.hpp"
#include "tasks/creation.hpp"
#include "tasks/limits.hpp"
#include "tasks/operations.hpp"
#include "tasks/refusals.hpp"

namespace holdfast::tasks {
namespace {

using runtime::Op;

Address address(const Call& call, const std::string& owner, std::string id) {
  return call.address(owner, std::move(id)).value_or_throw();
}

void require_fence(const Call& call) {
  if (!call.store->options.require_fence || call.fence) return;
  throw Error(ErrorCode::WrongLock,
              "this store requires a fence for every change; claim the task, or pass a fence");
}

/// If the first one of the line gets no answer, the others do not wait for its time limit, one after another.
constexpr std::chrono::seconds longest_pause_of_line(2);

/// Until it is this place's turn, the line has not moved for a while, or a stop is requested.
Op<Ok> wait_for_turn(runtime::Flow flow, const ChangeTurns::Place& place, std::stop_token stop) {
  auto turn = place.turn();
  const std::stop_callback interrupt(stop, [turn]() mutable { turn.request_stop(); });
  while (!turn.stop_requested()) {
    const auto before = place.departures();
    const auto until = BootClock::now() + longest_pause_of_line;
    (void)co_await flow.sleep_until(until, turn.get_token());
    if (place.departures() == before) break;
  }
  co_return Ok{};
}

Op<Task> change(Call call, Address task, Change what) {
  require_fence(call);
  ChangeLoop loop(task.id, task.owner, std::move(what), call.fence, call.incarnation);
  const auto store = call.store;
  const auto line = task.key.str();
  std::optional<ChangeTurns::Place> place;
  bool has_lost = false;
  auto action = loop.start();
  for (;;) {
    if (auto* finished = std::get_if<ChangeLoop::Finished>(&action)) co_return std::move(finished->result);
    if (auto* write = std::get_if<ChangeLoop::Write>(&action)) {
      PutRecord request{.key = task.key,
                        .data = std::move(write->data),
                        .expected = std::move(write->expected),
                        .fence = call.fence,
                        .leaves_queue = write->leaves_queue};
      if (write->is_dead) request.max_dead = call.store->max_dead;
      const auto outcome = co_await call.ask(std::move(request));
      action = loop.resume(outcome);
      has_lost = true;  // unless it has finished
    } else {
      // In a forked child the mutex of the lines may be locked forever.
      if (!place && (has_lost || (store->threads->in_own_process() && store->changes.has_line(line)))) {
        place.emplace(store->changes, line);
        auto waiting = wait_for_turn(call.flow, *place, call.stop);
        (void)co_await std::move(waiting);
      }
      GetRecord request{.key = task.key};
      const auto stored = co_await call.ask(std::move(request));
      action = loop.resume(stored, call.store->storage->now());
    }
  }
}

Status transition(TaskRecord& record, const std::string& id, TaskStatus to,
                  const std::optional<std::string>& message) {
  if (is_final(record.status())) return is_over(id, record.status(), to);
  if (!may_become(record.status(), to)) {
    return Error(ErrorCode::InvalidTransition,
                 "the task " + id + " is " + std::string(to_string(record.status())) + " already")
        .between(to_string(record.status()), to_string(to));
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

/// The record that a bind or rebind returned, as a task.
template <class Outcome>
Result<Task> task_of(const Outcome& outcome, const Address& task) {
  const auto* stored = std::get_if<StoredRecord>(&outcome);
  if (stored == nullptr) return no_such_task(task.id);
  const auto record = record_of(*stored, task.id, task.owner);
  if (!record) return record.error();
  return record->task(*stored);
}

}  // namespace

Op<Task> perform(Call call, operation::CreateTask what) {
  const auto& options = call.store->options;
  const auto checked = checked_owner(what.owner, options.allow_anonymous).value_or_throw();
  const auto creation =
      Creation::prepare(checked, what.task, options, call.store->storage->now()).value_or_throw();
  auto request = creation.request(call.fence).value_or_throw();
  const auto outcome = co_await call.ask(std::move(request));
  if (!outcome) co_return outcome.error();
  co_return creation.result(*outcome, call.fence);
}

Op<Task> perform(Call call, operation::UpdateTaskStatus what) {
  check_message(what.message, call.store->options);
  auto task = address(call, what.owner, std::move(what.id));
  auto edit = to_status(task.id, what.status, std::move(what.message));
  co_return co_await change(std::move(call), std::move(task), std::move(edit));
}

Op<Task> perform(Call call, operation::SetTaskVariables what) {
  auto task = address(call, what.owner, std::move(what.id));
  Change edit{.apply = [id = task.id,
                        checked = checked_variables(what.changes, call.store->options).value_or_throw(),
                        store = call.store](TaskRecord& record) -> Status {
    if (is_final(record.status())) return is_over(id, record.status());
    record.merge_variables(checked);
    return check_size(record.variables(), store->options);
  }};
  co_return co_await change(std::move(call), std::move(task), std::move(edit));
}

Op<Task> perform(Call call, operation::SetTaskResult what) {
  auto task = address(call, what.owner, std::move(what.id));
  (void)check_result(what.result).value_or_throw();
  Change edit{.apply = [id = task.id, result = std::move(what.result)](TaskRecord& record) -> Status {
                if (is_final(record.status())) return is_over(id, record.status());
                record.set_result(result);
                return Ok{};
              },
              .still_meant = [](const TaskRecord& first,
                                const TaskRecord& now) { return first.result() == now.result(); }};
  co_return co_await change(std::move(call), std::move(task), std::move(edit));
}

Op<Task> perform(Call call, operation::EndTask what) {
  check_message(what.message, call.store->options);
  auto task = address(call, what.owner, std::move(what.id));
  (void)check_result(what.result).value_or_throw();
  Change edit{.apply = [id = task.id, status = what.status, result = std::move(what.result),
                        message = std::move(what.message)](TaskRecord& record) -> Status {
    if (auto moved = transition(record, id, status, message); !moved) return moved;
    record.set_result(result);
    return Ok{};
  }};
  co_return co_await change(std::move(call), std::move(task), std::move(edit));
}

Op<Task> perform(Call call, operation::CancelTask what) {
  check_message(what.message, call.store->options);
  auto task = address(call, what.owner, std::move(what.id));
  if (call.store->options.require_fence) {
    co_return Error(ErrorCode::WrongLock,
                    "this store requires a fence for every change, and cancel carries none; set the status "
                    "to cancelled with a fence");
  }
  auto edit = to_status(task.id, TaskStatus::cancelled, std::move(what.message));
  call.fence.reset();
  co_return co_await change(std::move(call), std::move(task), std::move(edit));
}

/// Removes the current record by its incarnation: if the request is resent after a lost answer, it must not
/// remove a successor. An unreadable record has no incarnation and is removed without it.
Op<bool> perform(Call call, operation::RemoveTask what) {
  const auto task = address(call, what.owner, std::move(what.id));
  require_fence(call);
  for (int attempt = 0; attempt < ChangeLoop::max_attempts; ++attempt) {
    GetRecord get{.key = task.key};
    const auto there = co_await call.ask(std::move(get));
    const bool is_unreadable = !there && there.error().code() == ErrorCode::Internal;
    if (!there && (!is_unreadable || !what.incarnation.empty())) co_return there.error();
    if (there && !*there) co_return false;
    if (there && !is_same_incarnation(call.incarnation, (*there)->incarnation)) co_return false;
    if (there && !is_same_incarnation(what.incarnation, (*there)->incarnation)) co_return false;
    RemoveRecord request{.key = task.key, .fence = call.fence};
    if (there) {
      request.expected = ExpectedVersion{.version = (*there)->version, .incarnation = (*there)->incarnation};
    }
    const auto outcome = co_await call.ask(std::move(request));
    if (!outcome) co_return outcome.error();
    throw_if_refused(*outcome, "the task " + task.id);
    if (!std::holds_alternative<VersionConflict>(*outcome)) {
      co_return std::holds_alternative<Removed>(*outcome);
    }
  }
  co_return Error(ErrorCode::ConcurrentChange, "other clients kept changing the task " + task.id + "; retry");
}

Op<Task> perform(Call call, operation::BindTask what) {
  const auto task = address(call, what.owner, std::move(what.id));
  BindRecord request{
      .key = task.key, .fence = std::move(what.token), .incarnation = lasting_incarnation(call.incarnation)};
  const auto outcome = co_await call.ask(std::move(request));
  if (!outcome) co_return outcome.error();
  throw_if_refused(*outcome, "the task " + task.id);
  co_return task_of(*outcome, task);
}

Op<Task> perform(Call call, operation::RebindTask what) {
  const auto task = address(call, what.owner, std::move(what.id));
  RebindRecord request{
      .key = task.key, .fence = std::move(what.token), .from_authority = std::move(what.from_authority)};
  const auto outcome = co_await call.ask(std::move(request));
  if (!outcome) co_return outcome.error();
  co_return task_of(*outcome, task);
}

Op<std::size_t> perform(Call call, operation::CleanUpTasks) {
  co_return co_await call.ask(CleanupRecords{});
}

}  // namespace holdfast::tasks
