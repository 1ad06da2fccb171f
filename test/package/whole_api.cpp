// A program outside the project that refers to every function that the public headers declare: the linker
// reports one that the shared library hides, shared_test.sh one that is exported and missing here.
#include <asio.hpp>
#include <cstdlib>
#include <holdfast/asio.hpp>
#include <holdfast/doctor.hpp>
#include <holdfast/duration.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>
#include <typeinfo>
#include <vector>

using namespace holdfast;
using namespace std::chrono_literals;

namespace {

std::size_t referred = 0;

/// Makes the object file refer to functions by their addresses.
template <class... Functions>
void refer(Functions... functions) {
  ((referred += functions != nullptr ? 1 : 0), ...);
}

template <class On, class... Operations>
void refer_to_operations() {
  (refer(&On::template run<Operations>, &On::template start<Operations>), ...);
}

void refer_to_values() {
  using Text = std::string_view;
  refer<Text (*)(Activity) noexcept>(&to_string);
  refer<Text (*)(ErrorCode) noexcept>(&to_string);
  refer<Text (*)(EventResult) noexcept>(&to_string);
  refer<Text (*)(LogLevel) noexcept>(&to_string);
  refer<Text (*)(LossReason) noexcept>(&to_string);
  refer<Text (*)(Reason) noexcept>(&to_string);
  refer<Text (*)(Severity) noexcept>(&to_string);
  refer<Text (*)(TaskStatus) noexcept>(&to_string);
  refer(&subject_of, &error_category, &make_error_code, &json_rpc_code, &version, &BootClock::now);
  refer(&parse_duration, &duration_text, &key_hash, &sanitised, &owner_of);
  refer(&parse_task_status, &is_final, &may_become, &variable_bytes);
  refer(&Fence::of, &Fence::parse, &Fence::to_string);
  refer(&Json::parse, &Json::string, &string_in);
  refer<std::vector<JsonMember> (*)(const Json&)>(&members_of);
  refer<std::vector<std::string_view> (*)(const Json&)>(&elements_of);
  refer(&LockKey::parse, &LockKey::stored, &LockId::parse, &LockId::generate, &Ttl::of);
  refer(&LockHolder::parse, &LockHolder::from_setting, &LockHolder::shortened, &LockHolder::of_process);
  refer<std::shared_ptr<const LockHolder> (*)()>(&LockHolder::of_this_process);
  refer<std::shared_ptr<const LockHolder> (*)(std::string_view)>(&LockHolder::of_this_process);
  refer(&printable, &control_character_bytes);
  refer(&RecordKey::parse, &RecordKey::of, &RecordData::parse);
  refer(&Error::code, &Error::message, &Error::cause, &Error::key, &Error::lock_id, &Error::from, &Error::to,
        &Error::holder, &Error::effect, &Error::with, &Error::about, &Error::held_by, &Error::between);
  refer(&detail::Trampoline::busy, &detail::Trampoline::completing, &detail::Trampoline::defer,
        &detail::Trampoline::run, &detail::Trampoline::drain);
}

void refer_to_engines() {
  refer(&make_memory_lock_backend, &make_memory_storage_backend);
  refer(&make_sqlite_lock_backend, &make_sqlite_storage_backend, &default_sqlite_file,
        &prepare_system_sqlite_file);
  refer(&parse_redis_url, &redis_url, &make_redis_lock_backend, &make_redis_storage_backend);
  refer(&examine, &examine_redis, &redis_sentinel_acl, &RedisAcl::line);
  refer<Result<RedisAcl> (*)(const RedisOptions&)>(&redis_acl);
  refer<Result<RedisAcl> (*)(std::string_view)>(&redis_acl);
  refer<Holdfast (*)(std::string_view, const Instruments&)>(&holdfast::open);
  refer<void (*)(std::string, Instruments, std::stop_token, Done<Holdfast>)>(&holdfast::open);
  refer<Tasks (Holdfast::*)() const>(&Holdfast::tasks);
  refer<Tasks (Holdfast::*)(const TaskOptions&) const>(&Holdfast::tasks);
  refer(&Holdfast::task_options, &Holdfast::queue_options, &Tasks::try_claim, &Tasks::worker);
  refer<void (Holdfast::*)(const TaskOptions&, std::stop_token, Done<Tasks>) const>(&Holdfast::tasks);
  refer<FencedRegister (Holdfast::*)(std::string_view) const>(&Holdfast::fenced_register);
  refer<void (Holdfast::*)(std::string_view, std::stop_token, Done<FencedRegister>) const>(
      &Holdfast::fenced_register);
  refer(&Holdfast::fenced_registers, &Holdfast::locks, &Holdfast::log, &Holdfast::url);
  refer(&Log::set_sink, &Log::write, &Log::flush);
}

void refer_to_instruments() {
  refer(&observer_of, &observers, &make_tracing, &Metrics::prometheus, &Metrics::count_dropped_events,
        &Telemetry::flush);
  refer<std::shared_ptr<LockBackend> (*)(std::shared_ptr<LockBackend>, std::shared_ptr<Observer>)>(
      &with_observer);
  refer<std::shared_ptr<StorageBackend> (*)(std::shared_ptr<StorageBackend>, std::shared_ptr<Observer>)>(
      &with_observer);
  refer<std::shared_ptr<LockBackend> (*)(std::shared_ptr<LockBackend>, TelemetryOptions)>(&with_telemetry);
  refer<std::shared_ptr<StorageBackend> (*)(std::shared_ptr<StorageBackend>, TelemetryOptions)>(
      &with_telemetry);
}

void refer_to_locks() {
  using namespace operation;
  refer_to_operations<Locks, Lock, TryLock, Adopt, Acquire, Release, Extend, IsLocked, GetByKey, GetById,
                      GetByKeyRaw, GetByIdRaw, Owns, ListLocksRaw, CountWaiters, FollowHeldLocks,
                      BreakLock>();
  refer(&Locks::release_in_background, &Locks::capabilities, &Locks::authority, &Locks::holder,
        &Locks::backend);
  refer(&Guard::key, &Guard::id, &Guard::fence, &Guard::token, &Guard::authority, &Guard::replicas,
        &Guard::expires_at, &Guard::remaining, &Guard::still_held, &Guard::lost, &Guard::loss_reason,
        &Guard::renewal_error, &Guard::at_risk, &Guard::on_at_risk, &Guard::on_lost, &Guard::on_release_error,
        &Guard::wait_lost, &Guard::release_in_background, &Guard::operator bool);
  using std::chrono::milliseconds;
  refer<bool (Guard::*)(std::stop_token)>(&Guard::release);
  refer<void (Guard::*)(std::stop_token, Done<bool>)>(&Guard::release);
  refer<bool (Guard::*)(milliseconds, std::stop_token)>(&Guard::extend);
  refer<void (Guard::*)(milliseconds, std::stop_token, Done<bool>)>(&Guard::extend);
  refer<std::optional<Lease> (Guard::*)(std::stop_token)>(&Guard::detach);
  refer<void (Guard::*)(std::stop_token, Done<std::optional<Lease>>)>(&Guard::detach);
}

void refer_to_tasks() {
  using namespace operation;
  refer_to_operations<Tasks, CreateTask, GetTask, ListTasksOfOwner, ListOwnersOfTasks, GetTaskResult,
                      UpdateTaskStatus, SetTaskVariables, SetTaskResult, EndTask, CancelTask, RemoveTask,
                      BindTask, RebindTask, AwaitTask, ClaimTask, TryClaimOrdinaryTask, FollowAllTasks,
                      CleanUpTasks, AppendTaskOutput, ReadTaskOutput>();
  refer<TaskWatch (Tasks::*)(std::string_view) const>(&Tasks::watch);
  refer<TaskWatch (Tasks::*)(std::string_view, std::string_view) const>(&Tasks::watch);
  TaskWatch empty;
  TaskWatch moved = std::move(empty);
  moved = TaskWatch();
  refer(&TaskWatch::run<NextTaskChanges>, &TaskWatch::start<NextTaskChanges>);
  refer(&Tasks::wait, &Tasks::with_incarnation, &Tasks::lock_key, &Tasks::storage);
  refer<Tasks (Tasks::*)(const Guard&) const>(&Tasks::with_fence);
  refer<Tasks (Tasks::*)(const FencingTokenView&) const>(&Tasks::with_fence);

  using Message = std::optional<std::string_view>;
  refer(&Claim::task, &Claim::fence, &Claim::token, &Claim::stopped, &Claim::cancelled, &Claim::gone,
        &Claim::guard, &Claim::wait_stopped, &Claim::release_in_background, &Claim::operator bool);
  refer<Task (Claim::*)(TaskStatus, Message, std::stop_token)>(&Claim::update_status);
  refer<void (Claim::*)(TaskStatus, Message, std::stop_token, Done<Task>)>(&Claim::update_status);
  refer<Task (Claim::*)(JsonView, std::stop_token)>(&Claim::set_variables);
  refer<void (Claim::*)(JsonView, std::stop_token, Done<Task>)>(&Claim::set_variables);
  refer<Task (Claim::*)(JsonView, Message, std::stop_token)>(&Claim::complete);
  refer<void (Claim::*)(JsonView, Message, std::stop_token, Done<Task>)>(&Claim::complete);
  refer<Task (Claim::*)(Message, std::stop_token)>(&Claim::fail);
  refer<void (Claim::*)(Message, std::stop_token, Done<Task>)>(&Claim::fail);
  refer<Task (Claim::*)(JsonView, Message, std::stop_token)>(&Claim::fail_with_result);
  refer<void (Claim::*)(JsonView, Message, std::stop_token, Done<Task>)>(&Claim::fail_with_result);
  refer<bool (Claim::*)(std::stop_token)>(&Claim::release);
  refer<void (Claim::*)(std::stop_token, Done<bool>)>(&Claim::release);
}

void refer_to_queues() {
  using namespace operation;
  refer_to_operations<Queue, AddTask, ClaimNextTask, ClaimNextTasks, TryClaimTask, RetryTask, CountTasks,
                      SetUpQueue, ListQueues, GetTask, ListTasksOfOwner, GetTaskResult, SetTaskVariables,
                      CancelTask, RemoveTask, AwaitTask, AppendTaskOutput, ReadTaskOutput>();
  refer<TaskWatch (Queue::*)() const>(&Queue::watch);
  refer(&Queue::process_mark);
  refer<TaskWatch (Queue::*)(std::string_view) const>(&Queue::watch);
  refer(&queue_of, &Job::task, &Job::id, &Job::queue, &Job::attempt, &Job::fence, &Job::token,
        &Job::remaining, &Job::stopped, &Job::cancelled, &Job::gone, &Job::loss_reason, &Job::at_risk,
        &Job::on_at_risk, &Job::wait_stopped, &Job::give_back_in_background, &Job::operator bool);
  refer(&Job::run<EndJob>, &Job::start<EndJob>, &Job::run<EndJobAndClaim>, &Job::start<EndJobAndClaim>,
        &Job::run<SetJobVariables>, &Job::start<SetJobVariables>);
  refer<Queue (Holdfast::*)(std::string_view) const>(&Holdfast::queue);
  refer<Queue (Holdfast::*)(std::string_view, const QueueOptions&) const>(&Holdfast::queue);
  refer<void (Holdfast::*)(std::string_view, const QueueOptions&, std::stop_token, Done<Queue>) const>(
      &Holdfast::queue);
  refer(&Holdfast::claim_next, &Holdfast::queues);
}

void refer_to_registers() {
  using Value = std::optional<FencedRegister::Value>;
  using Text = std::string_view;
  using Token = const FencingTokenView&;
  using Stop = std::stop_token;
  refer(&FencedRegister::list);
  refer<Value (FencedRegister::*)(Stop) const>(&FencedRegister::get);
  refer<void (FencedRegister::*)(Stop, Done<Value>) const>(&FencedRegister::get);
  refer<std::uint64_t (FencedRegister::*)(Text, Token, Stop) const>(&FencedRegister::put);
  refer<void (FencedRegister::*)(Text, Token, Stop, Done<std::uint64_t>) const>(&FencedRegister::put);
  refer<std::uint64_t (FencedRegister::*)(Text, const Guard&, Stop) const>(&FencedRegister::put);
  refer<void (FencedRegister::*)(Text, const Guard&, Stop, Done<std::uint64_t>) const>(&FencedRegister::put);
  refer<Value (FencedRegister::*)(Token, Stop) const>(&FencedRegister::bind);
  refer<void (FencedRegister::*)(Token, Stop, Done<Value>) const>(&FencedRegister::bind);
  refer<bool (FencedRegister::*)(Token, Stop) const>(&FencedRegister::rebind);
  refer<void (FencedRegister::*)(Token, Stop, Done<bool>) const>(&FencedRegister::rebind);
  refer<Value (FencedRegister::*)(Text, Token, Stop) const>(&FencedRegister::rebind_from);
  refer<void (FencedRegister::*)(Text, Token, Stop, Done<Value>) const>(&FencedRegister::rebind_from);
}

/// What has no address to take: constructors, and virtual functions called as those of their class. Never
/// called.
[[maybe_unused]] void refer_to_the_rest(Guard& guard, Claim& claim, Job& job, Metrics& metrics,
                                        Telemetry& telemetry, StorageBackend& storage, Completion& completion,
                                        const Error& error) {
  Log log;
  const Claim none;
  Claim moved(std::move(claim));
  moved = Claim();
  const Job no_job;
  Job moved_job(std::move(job));
  moved_job = Job();
  guard = Guard();
  const FencedRegister fenced(nullptr, "name");
  const Tasks tasks(nullptr, Locks(nullptr));
  metrics.Metrics::begun(Activity::acquire, "memory");
  metrics.Metrics::ended({});
  telemetry.Telemetry::ended({});
  storage.StorageBackend::wait(completion);
  const detail::Trampoline::Scope scope;
  std::cout << error.Error::what();
}

int failures = 0;
void check(bool fact, const char* what) {
  if (fact) return;
  std::cout << "not so: " << what << '\n';
  ++failures;
}

template <class Exception, class Function>
bool throws(Function function) {
  try {
    function();
  } catch (const Exception&) {
    return true;
  } catch (...) {
  }
  return false;
}

/// A backend of this program: the library calls it, and it completes on a thread of this program.
class OwnBackend final : public Intercepting<OwnBackend, LockBackend> {
 public:
  explicit OwnBackend(std::shared_ptr<LockBackend> inner) : inner_(std::move(inner)) {}
  template <class Request, class Outcome>
  void intercept(Request request, std::stop_token stop, Done<Outcome> done) {
    ++requests;
    threads_.emplace_back([this, request = std::move(request), stop = std::move(stop),
                           done = std::move(done)]() mutable {
      std::this_thread::sleep_for(20ms);  // the caller waits by then: in the library, for what is done here
      inner_->submit(std::move(request), std::move(stop),
                     [&](Result<Outcome> outcome) { done(std::move(outcome)); });
    });
  }
  [[nodiscard]] Capabilities capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }
  void wait(Completion& completion) override { LockBackend::wait(completion); }
  int requests = 0;

 private:
  std::shared_ptr<LockBackend> inner_;
  std::vector<std::jthread> threads_;
};

class OwnObserver final : public Observer {
 public:
  void ended(const Occurrence& occurrence) noexcept override { seen = occurrence.activity; }
  std::optional<Activity> seen;
};

void errors_are_caught_by_type() {
  const auto hf = holdfast::open("memory:");
  const auto invalid = [&] { (void)hf.locks().lock(""); };
  check(throws<Error>(invalid), "an Error of the library is caught as one");
  check(throws<std::exception>(invalid), "and as a std::exception");
  check(throws<Error>([&] { (void)hf.tasks().get("ann", "none"); }), "also one of a task");
  check(throws<Error>([] { (void)holdfast::open("nonsense:"); }), "also one of open()");
  const std::error_code code = ErrorCode::NotFound;
  check(code.category() == error_category(), "there is one category");
}

void types_are_one_type_on_both_sides() {
  const auto metrics = std::make_shared<Metrics>();
  const auto observer = observer_of({.metrics = metrics});
  check(dynamic_cast<Metrics*>(observer.get()) == metrics.get(), "what the library returns is cast down");

  const auto backend = std::make_shared<OwnBackend>(make_memory_lock_backend());
  const auto own_observer = std::make_shared<OwnObserver>();
  const Locks locks(backend);
  const LockBackend& same = locks.backend();
  check(dynamic_cast<const OwnBackend*>(&same) == backend.get(), "a backend of this program comes back");
  check(typeid(same) == typeid(OwnBackend), "with its type");
  const Locks observed(with_observer(backend, own_observer));
  check(!observed.is_locked("a"), "the library waits for this program's thread");
  check(backend->requests == 1, "and calls its backend");
  check(own_observer->seen == Activity::is_locked, "and its observer");
}

void completions_run() {
  const auto hf = holdfast::open("memory:");
  std::optional<bool> locked;
  hf.locks().start(operation::IsLocked{"a"}, {}, [&](Result<bool> answer) { locked = *answer; });
  check(locked == false, "a callback is called");

  asio::io_context context;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        AsyncLocks locks(co_await asio::this_coro::executor, hf.locks());
        auto guard = co_await locks.lock("a", {.ttl = 10s});
        check(guard.still_held(), "a coroutine gets a guard");
        const bool released = co_await guard.release();
        check(released, "and releases it");
        bool caught = false;
        try {
          auto none = co_await locks.lock("");
        } catch (const Error& error) {
          caught = error.code() == ErrorCode::InvalidArgument;
        }
        check(caught, "an Error reaches a coroutine");
      },
      [](const std::exception_ptr& error) { check(error == nullptr, "the coroutine ends well"); });
  context.run();
}

void the_rest_works() {
  const auto hf = holdfast::open("memory:");
  hf.log().set_sink([](LogLevel, std::string_view) {});
  const auto task = hf.tasks().create("ann", {.method = "m"});
  auto claim = hf.tasks().claim("ann", task.id);
  check(claim.complete(Json()).status == TaskStatus::completed, "a task is completed");
  const auto queue = hf.queue("q");
  (void)queue.add({.method = "m"});
  check(queue.claim_next()->complete().status == TaskStatus::completed, "a job is completed");
  const auto fenced = hf.fenced_register("r");
  auto guard = hf.locks().lock("r");
  check(fenced.put("text", guard) == 1, "a register is written");
  std::ostringstream out;
  out << guard.fence();
  check(out.str() == guard.fence().to_string(), "a fence is printed");
  Telemetry(TelemetryOptions{}).flush();
  check(!examine("nonsense:").ok(), "doctor refuses a URL");
}

}  // namespace

int main() {
  refer_to_values();
  refer_to_engines();
  refer_to_instruments();
  refer_to_locks();
  refer_to_tasks();
  refer_to_queues();
  refer_to_registers();
  errors_are_caught_by_type();
  types_are_one_type_on_both_sides();
  completions_run();
  the_rest_works();
  std::cout << version() << ", " << referred << " functions\n";
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
