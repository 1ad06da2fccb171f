// Every operation twice: run by the thread that called, or started. What they do is in operations.hpp.

#include <holdfast/tasks.hpp>

#include "locks/runtime.hpp"
#include "tasks/operations.hpp"
#include "tasks/owner.hpp"

namespace holdfast {

using detail::owned;
using flow::Flow;
using flow::Op;
using std::string;
using tasks::run;
using tasks::start;

namespace {

tasks::Until or_final(std::function<bool(const Task&)> until) {
  if (until) return {.is_so = std::move(until), .is_user_code = true};
  return {.is_so = [](const Task& task) { return is_final(task.status); }};
}

}  // namespace

Tasks::Tasks(std::shared_ptr<StorageBackend> storage, Locks locks, const TaskOptions& options)
    : store_(std::make_shared<TaskStore>(std::move(storage), options, LockRuntime::of(locks)->observer)),
      locks_(std::move(locks)) {}

StorageBackend& Tasks::storage() const noexcept {
  return *store_->storage;
}

tasks::Call Tasks::call(Flow flow, std::stop_token stop) const {
  return {.flow = std::move(flow),
          .store = store_,
          .stop = std::move(stop),
          .fence = fence_,
          .incarnation = incarnation_};
}
tasks::Call Tasks::blocking(std::stop_token stop) const {
  return call(Flow::blocking(), std::move(stop));
}
tasks::Call Tasks::completing(std::stop_token stop) const {
  return call(store_->completing(), std::move(stop));
}

Task Tasks::create(std::string_view owner, const NewTask& task, std::stop_token stop) {
  return run(tasks::create(blocking(std::move(stop)), string(owner), owned(task)));
}
void Tasks::create(std::string_view owner, const NewTask& task, std::stop_token stop, Done<Task> done) {
  start(*store_->background, tasks::create(completing(std::move(stop)), string(owner), owned(task)),
        std::move(done));
}

Task Tasks::get(std::string_view owner, std::string_view id, std::stop_token stop) {
  return run(tasks::get(blocking(std::move(stop)), string(owner), string(id)));
}
void Tasks::get(std::string_view owner, std::string_view id, std::stop_token stop, Done<Task> done) {
  start(*store_->background, tasks::get(completing(std::move(stop)), string(owner), string(id)),
        std::move(done));
}

TaskPage Tasks::list(std::string_view owner, const ListTasks& what, std::stop_token stop) {
  return run(tasks::list(blocking(std::move(stop)), string(owner), owned(what)));
}
void Tasks::list(std::string_view owner, const ListTasks& what, std::stop_token stop, Done<TaskPage> done) {
  start(*store_->background, tasks::list(completing(std::move(stop)), string(owner), owned(what)),
        std::move(done));
}

OwnerPage Tasks::owners(const ListTaskOwners& what, std::stop_token stop) {
  return run(tasks::owners(blocking(std::move(stop)), owned(what)));
}
void Tasks::owners(const ListTaskOwners& what, std::stop_token stop, Done<OwnerPage> done) {
  start(*store_->background, tasks::owners(completing(std::move(stop)), owned(what)), std::move(done));
}

Task Tasks::update_status(std::string_view owner, std::string_view id, TaskStatus status,
                          std::optional<std::string_view> message, std::stop_token stop) {
  return run(
      tasks::update_status(blocking(std::move(stop)), string(owner), string(id), status, owned(message)));
}
void Tasks::update_status(std::string_view owner, std::string_view id, TaskStatus status,
                          std::optional<std::string_view> message, std::stop_token stop, Done<Task> done) {
  start(*store_->background,
        tasks::update_status(completing(std::move(stop)), string(owner), string(id), status, owned(message)),
        std::move(done));
}

Task Tasks::set_variables(std::string_view owner, std::string_view id, JsonView changes,
                          std::stop_token stop) {
  return run(tasks::set_variables(blocking(std::move(stop)), string(owner), string(id), owned(changes)));
}
void Tasks::set_variables(std::string_view owner, std::string_view id, JsonView changes, std::stop_token stop,
                          Done<Task> done) {
  start(*store_->background,
        tasks::set_variables(completing(std::move(stop)), string(owner), string(id), owned(changes)),
        std::move(done));
}

Task Tasks::set_result(std::string_view owner, std::string_view id, JsonView result, std::stop_token stop) {
  return run(tasks::set_result(blocking(std::move(stop)), string(owner), string(id), owned(result)));
}
void Tasks::set_result(std::string_view owner, std::string_view id, JsonView result, std::stop_token stop,
                       Done<Task> done) {
  start(*store_->background,
        tasks::set_result(completing(std::move(stop)), string(owner), string(id), owned(result)),
        std::move(done));
}

Task Tasks::complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                                 std::optional<std::string_view> message, std::stop_token stop) {
  return run(tasks::end_with_result(blocking(std::move(stop)), string(owner), string(id),
                                    TaskStatus::completed, owned(result), owned(message)));
}
void Tasks::complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                                 std::optional<std::string_view> message, std::stop_token stop,
                                 Done<Task> done) {
  start(*store_->background,
        tasks::end_with_result(completing(std::move(stop)), string(owner), string(id), TaskStatus::completed,
                               owned(result), owned(message)),
        std::move(done));
}

Task Tasks::fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                             std::optional<std::string_view> message, std::stop_token stop) {
  return run(tasks::end_with_result(blocking(std::move(stop)), string(owner), string(id), TaskStatus::failed,
                                    owned(result), owned(message)));
}
void Tasks::fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                             std::optional<std::string_view> message, std::stop_token stop, Done<Task> done) {
  start(*store_->background,
        tasks::end_with_result(completing(std::move(stop)), string(owner), string(id), TaskStatus::failed,
                               owned(result), owned(message)),
        std::move(done));
}

Task Tasks::fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message,
                 std::stop_token stop) {
  return update_status(owner, id, TaskStatus::failed, message, std::move(stop));
}
void Tasks::fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message,
                 std::stop_token stop, Done<Task> done) {
  update_status(owner, id, TaskStatus::failed, message, std::move(stop), std::move(done));
}

Task Tasks::cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message,
                   std::stop_token stop) {
  return run(tasks::cancel(blocking(std::move(stop)), string(owner), string(id), owned(message)));
}
void Tasks::cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message,
                   std::stop_token stop, Done<Task> done) {
  start(*store_->background,
        tasks::cancel(completing(std::move(stop)), string(owner), string(id), owned(message)),
        std::move(done));
}

bool Tasks::remove(std::string_view owner, std::string_view id, std::stop_token stop) {
  return run(tasks::remove(blocking(std::move(stop)), string(owner), string(id)));
}
void Tasks::remove(std::string_view owner, std::string_view id, std::stop_token stop, Done<bool> done) {
  start(*store_->background, tasks::remove(completing(std::move(stop)), string(owner), string(id)),
        std::move(done));
}

std::optional<Json> Tasks::get_result(std::string_view owner, std::string_view id, std::stop_token stop) {
  return run(tasks::get_result(blocking(std::move(stop)), string(owner), string(id)));
}
void Tasks::get_result(std::string_view owner, std::string_view id, std::stop_token stop,
                       Done<std::optional<Json>> done) {
  start(*store_->background, tasks::get_result(completing(std::move(stop)), string(owner), string(id)),
        std::move(done));
}

std::optional<Task> Tasks::wait(std::string_view owner, std::string_view id,
                                std::chrono::milliseconds timeout, std::function<bool(const Task&)> until,
                                std::stop_token stop) {
  auto what = or_final(std::move(until));
  // What the user's function throws is the user's: it goes through as it is, though an Op knows only Errors.
  std::exception_ptr thrown;
  if (what.is_user_code) {
    what.is_so = [&thrown, is_so = std::move(what.is_so)](const Task& task) {
      try {
        return is_so(task);
      } catch (...) {
        thrown = std::current_exception();
        return true;
      }
    };
  }
  auto task =
      run(tasks::wait(blocking(std::move(stop)), string(owner), string(id), timeout, std::move(what)));
  if (thrown) std::rethrow_exception(thrown);
  return task;
}
void Tasks::wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout,
                 std::function<bool(const Task&)> until, std::stop_token stop,
                 Done<std::optional<Task>> done) {
  start(*store_->background,
        tasks::wait(completing(std::move(stop)), string(owner), string(id), timeout,
                    or_final(std::move(until))),
        std::move(done));
}

Tasks Tasks::with_fence(const Guard& guard) const {
  return with_fence({.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()});
}

Tasks Tasks::with_fence(const FencingTokenView& token) const {
  Tasks fenced = *this;
  fenced.fence_ = FencingToken(token);
  return fenced;
}

Tasks Tasks::with_incarnation(std::string_view incarnation) const {
  Tasks named = *this;
  named.incarnation_ = incarnation;
  return named;
}

Task Tasks::bind(std::string_view owner, std::string_view id, const FencingTokenView& token,
                 std::stop_token stop) {
  return run(tasks::bind(blocking(std::move(stop)), string(owner), string(id), owned(token)));
}
void Tasks::bind(std::string_view owner, std::string_view id, const FencingTokenView& token,
                 std::stop_token stop, Done<Task> done) {
  start(*store_->background,
        tasks::bind(completing(std::move(stop)), string(owner), string(id), owned(token)), std::move(done));
}

Task Tasks::rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& token,
                   std::stop_token stop) {
  return run(tasks::rebind(blocking(std::move(stop)), string(owner), string(id), owned(token), {}));
}
void Tasks::rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& token,
                   std::stop_token stop, Done<Task> done) {
  start(*store_->background,
        tasks::rebind(completing(std::move(stop)), string(owner), string(id), owned(token), {}),
        std::move(done));
}

Task Tasks::rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                        const std::optional<FencingTokenView>& token, std::stop_token stop) {
  return run(
      tasks::rebind(blocking(std::move(stop)), string(owner), string(id), owned(token), string(authority)));
}
void Tasks::rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                        const std::optional<FencingTokenView>& token, std::stop_token stop, Done<Task> done) {
  start(
      *store_->background,
      tasks::rebind(completing(std::move(stop)), string(owner), string(id), owned(token), string(authority)),
      std::move(done));
}

string Tasks::lock_key(std::string_view owner, std::string_view id) {
  const auto named = tasks::checked_owner(owner, true).value_or_throw();
  return tasks::lock_key_of(RecordKey::of(tasks::stored_owner(named), id).value_or_throw());
}

std::size_t Tasks::cleanup_expired(std::stop_token stop) {
  return run(tasks::cleanup_expired(blocking(std::move(stop))));
}
void Tasks::cleanup_expired(std::stop_token stop, Done<std::size_t> done) {
  start(*store_->background, tasks::cleanup_expired(completing(std::move(stop))), std::move(done));
}

Claim Tasks::claim(std::string_view owner, std::string_view id, const LockOptions& how,
                   std::stop_token stop) {
  return run(tasks::claim(blocking(std::move(stop)), locks_, string(owner), string(id), how));
}
void Tasks::claim(std::string_view owner, std::string_view id, const LockOptions& how, std::stop_token stop,
                  Done<Claim> done) {
  start(*store_->background,
        tasks::claim(completing(std::move(stop)), locks_, string(owner), string(id), how), std::move(done));
}

}  // namespace holdfast
