#pragma once

#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fenced_register.hpp>
#include <holdfast/instruments.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/log.hpp>
#include <holdfast/queue.hpp>
#include <holdfast/tasks.hpp>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// An opened engine: its locks, tasks, queues and registers. Created by open().
///
/// Cheap to copy: copies share the engine, which is closed with the last copy and the last object obtained
/// from one (Locks, Guard, Tasks, Queue, Job, FencedRegister). All functions may be called from any thread.
///
/// *Without blocking.* The overloads with a Done complete it once, inline or on a thread of the library, with
/// what the blocking function returns or throws. On a stop request they complete with Aborted at once, on the
/// thread that requests it; a task store that is still being opened then serves the next call.
///
/// A forked child must not use an inherited engine: operations fail with ServiceUnavailable, and inherited
/// guards do nothing. A child that needs locks opens its own engine; an SQLite file that the parent had open
/// can be opened only after `exec`.
///
/// @code
/// auto hf = holdfast::open("redis://cache.internal");
/// if (auto guard = hf.locks().try_lock("nightly")) {
///   auto tasks = hf.tasks();
///   const auto task = tasks.create("alice", {.method = "reports/make"});
/// }
/// @endcode
class HOLDFAST_EXPORT Holdfast {
 public:
  /// Creates an empty object, without an engine. All its functions but `operator bool` throw InvalidArgument,
  /// or complete with it.
  Holdfast() noexcept = default;
  /// Returns false for an empty object.
  [[nodiscard]] explicit operator bool() const noexcept { return opened_ != nullptr; }

  /// Returns the locks of this engine. The reference is valid while this object lives; a copy may outlive it.
  [[nodiscard]] const Locks& locks() const;
  /// Returns the limits of tasks that the URL sets (`task_quota=…`), else the environment
  /// (`HOLDFAST_TASK_QUOTA`), else the defaults: what tasks() uses. To change one, copy them. Valid while
  /// this object lives. docs/reference/urls.md lists the names.
  [[nodiscard]] const TaskOptions& task_options() const;
  /// Returns the same with the limits of queues, `queue_max_tasks=…`: what queue() uses.
  [[nodiscard]] const QueueOptions& queue_options() const;
  /// Returns the tasks of the same engine, under task_options().
  [[nodiscard]] Tasks tasks() const;
  /// Returns the tasks of the same engine, under these options.
  ///
  /// The first call of tasks(), fenced_register() or fenced_registers() opens the task store, which blocks
  /// and throws as open() does; a failed call can be retried. Later calls do no I/O. The options apply to the
  /// returned object only; all returned objects share one store.
  [[nodiscard]] Tasks tasks(const TaskOptions& options) const;
  /// Starts tasks() and completes `done` with its result. The task store is opened on a thread of its own.
  void tasks(const TaskOptions& options, std::stop_token stop, Done<Tasks> done) const;
  /// Returns a named value in the same store that rejects writes with an outdated fence.
  ///
  /// Opens the task store if necessary, see tasks(); does no other I/O. Throws InvalidArgument unless the
  /// name is 1 to 512 bytes of UTF-8.
  [[nodiscard]] FencedRegister fenced_register(std::string_view name) const;
  /// Starts fenced_register() and completes `done` with its result, as tasks() does.
  void fenced_register(std::string_view name, std::stop_token stop, Done<FencedRegister> done) const;
  /// Lists the registers of this store, one page at a time: see FencedRegister::list.
  ///
  /// Opens the task store if necessary, see tasks().
  [[nodiscard]] FencedRegister::Page fenced_registers(std::string_view cursor = {}, std::size_t limit = 100,
                                                      std::stop_token stop = {}) const;
  /// Returns a queue of tasks in the same store, which need not exist, under queue_options().
  [[nodiscard]] Queue queue(std::string_view name) const;
  /// Returns a queue of tasks in the same store, which need not exist, under these options.
  ///
  /// Opens the task store if necessary, see tasks(); does no other I/O. Throws InvalidArgument unless the
  /// name is 1 to 512 bytes of UTF-8.
  [[nodiscard]] Queue queue(std::string_view name, const QueueOptions& options) const;
  /// Starts queue() and completes `done` with its result, as tasks() does.
  void queue(std::string_view name, const QueueOptions& options, std::stop_token stop,
             Done<Queue> done) const;
  /// Claims the next task of the first of these queues that has any, waiting for one as `how` says: see
  /// Queue::claim_next. The queues are tried in this order, each in one atomic step. Throws InvalidArgument
  /// if none is named.
  [[nodiscard]] std::optional<Job> claim_next(const std::vector<std::string>& queues,
                                              const ClaimOptions& how = {}, std::stop_token stop = {}) const;
  /// Lists the queues that have tasks, one page at a time, for operators. A page may be empty although there
  /// are more: only the cursor shows that. See ListOwners.
  [[nodiscard]] QueuePage queues(std::string_view cursor = {}, std::size_t limit = 100,
                                 std::stop_token stop = {}) const;
  /// Returns the log of this engine, for example to set its sink. Valid while a copy of this object lives.
  [[nodiscard]] Log& log() const;
  /// Returns the URL that this engine was opened with, its path made absolute, without a password. Valid
  /// while this object lives.
  [[nodiscard]] const std::string& url() const;

 private:
  friend Holdfast open(std::string_view url, const Instruments& instruments);
  struct Opened;
  explicit Holdfast(std::shared_ptr<const Opened> opened) noexcept;
  [[nodiscard, gnu::visibility("hidden")]] const Opened& opened() const;
  std::shared_ptr<const Opened> opened_;
};

/// Opens an engine and checks immediately that it can be used.
///
/// | URL | store |
/// |---|---|
/// | `memory:` | in this process; shared by the returned object and its copies, gone with the last one |
/// | `sqlite:PATH` | a file, shared by the processes of this machine; its directory must exist |
/// | `sqlite:` | the same in the user's state directory, which is created (0700) if missing |
/// | `system:` | /var/lib/holdfast/holdfast.db, shared by the users of its directory's group |
/// | `redis://HOST` | a Redis server, shared by all processes that can reach it |
/// | `rediss://HOST` | the same with TLS |
/// | `unix:PATH` | the same over a Unix socket of this machine |
///
/// A Redis URL can also contain user, password, port, database and options: see docs/reference/urls.md.
///
/// The instruments observe all operations of the returned object and of the objects obtained from it.
///
/// Blocks until the engine has answered: for Redis at most for RedisOptions::connect_timeout, for SQLite at
/// most for SqliteOptions::busy_timeout while other processes keep the file busy.
///
/// @throws Error InvalidArgument for any other URL, the empty string included, and for an invalid part of a
/// Redis URL; otherwise as make_sqlite_lock_backend, prepare_system_sqlite_file and make_redis_lock_backend
/// fail. The message names the file or the server, never a password.
[[nodiscard]] HOLDFAST_EXPORT Holdfast open(std::string_view url, const Instruments& instruments = {});
/// Opens an engine without blocking, for <holdfast/asio.hpp> and other event loops.
///
/// Completes `done` once, on a thread of the library, with what `open` returns or throws. On a stop request
/// it completes with Aborted at once, on the thread that requests it; a connection or file that is still
/// being opened is closed in the background. Each call uses a thread until the engine has answered.
HOLDFAST_EXPORT void open(std::string url, Instruments instruments, std::stop_token stop,
                          Done<Holdfast> done);

/// Returns the version of the linked library, such as "0.1.0". HOLDFAST_VERSION is that of the headers.
[[nodiscard]] HOLDFAST_EXPORT std::string_view version() noexcept;

}  // namespace holdfast
