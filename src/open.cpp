#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <holdfast/version.hpp>
#include <mutex>

#include "locks/lock_store.hpp"
#include "os/errno_error.hpp"
#include "queue/queue_store.hpp"
#include "runtime/own_thread.hpp"
#include "store_limits.hpp"
#include "tasks/register_place.hpp"
#include "url.hpp"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

/// Creates the default file's directory and its missing parents, accessible to the user alone. Existing
/// directories are not changed.
void make_private_directories(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno == ENOENT && directory.has_relative_path()) {
    make_private_directories(directory.parent_path());
    if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  }
  throw os::errno_error("cannot create the directory " + directory.string());
}

/// The name in `NAME=VALUE` behind the last question mark; empty if there is none.
std::string_view parameter_in(std::string_view path) {
  const auto mark = path.rfind('?');
  if (mark == std::string_view::npos) return {};
  const auto parameter = path.substr(mark + 1);
  const auto equals = parameter.find('=');
  const auto name = parameter.substr(0, equals);
  const bool is_name = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
  return equals != std::string_view::npos && is_name ? name : std::string_view();
}

fs::path sqlite_file(std::string_view path) {
  if (!path.empty()) {
    std::error_code failed;
    auto absolute = fs::absolute(path, failed);
    // The name of a file may contain a question mark. But a new file named after a misspelt parameter would
    // be a store of its own, whose locks exclude no process that spells it correctly.
    const auto parameter = parameter_in(path);
    if (!parameter.empty() && !fs::exists(absolute, failed)) {
      throw Error(ErrorCode::InvalidArgument,
                  "cannot use this URL: unknown parameter \"" + std::string(parameter) +
                      "\"; holder and the limits of tasks and queues are known for sqlite:");
    }
    if (!failed) return absolute;
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot resolve the path " + std::string(path) + "; use an absolute path", failed.message());
  }
  auto file = default_sqlite_file().value_or_throw();
  make_private_directories(file.parent_path());
  return file;
}

using OpenStorage = std::function<Result<std::shared_ptr<StorageBackend>>()>;

/// Opened on first use, so that a program that only uses locks pays nothing for it.
class Storage {
 public:
  Storage(OpenStorage open, std::shared_ptr<Observer> observer)
      : open_(std::move(open)), observer_(std::move(observer)) {}

  std::shared_ptr<StorageBackend> get() {
    const std::lock_guard lock(mutex_);
    return opened();
  }
  /// Renews the leases of all jobs, whichever queue object claimed them.
  std::shared_ptr<queue::Renewals> renewals(const Locks& locks) {
    const std::lock_guard lock(mutex_);
    const auto store = LockStore::of(locks);
    if (!renewals_) renewals_ = std::make_shared<queue::Renewals>(opened(), store->threads, store->log);
    return renewals_;
  }

 private:
  const std::shared_ptr<StorageBackend>& opened() {
    if (!opened_) opened_ = with_observer(open_().value_or_throw(), observer_);
    return opened_;
  }

  const OpenStorage open_;
  const std::shared_ptr<Observer> observer_;
  std::mutex mutex_;
  std::shared_ptr<StorageBackend> opened_;
  std::shared_ptr<queue::Renewals> renewals_;
};

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

/// The label of the locks of a store: the first of these settings that is there. Throws InvalidArgument.
std::shared_ptr<const LockHolder> label_of(const Instruments& instruments, const std::string& in_url) {
  const auto in_environment = environment("HOLDFAST_HOLDER");
  for (const std::string_view setting :
       {std::string_view(instruments.holder), std::string_view(in_url), std::string_view(in_environment)}) {
    if (!setting.empty()) return LockHolder::from_setting(setting).value_or_throw();
  }
  return instruments.program.empty() ? LockHolder::of_this_process()
                                     : LockHolder::of_this_process(instruments.program);
}

/// The label as the name of a connection: printable ASCII without spaces.
std::string connection_name(const LockHolder& holder) {
  std::string name;
  for (const char c : holder.str()) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) != 0x80U) name += c > ' ' && c <= '~' ? c : '_';  // one for each character
  }
  return name;
}

Error is_empty() {
  return {ErrorCode::InvalidArgument, "this Holdfast is empty: open a store first"};
}

}  // namespace

/// What the copies of one Holdfast share.
struct Holdfast::Opened {
  Opened(std::shared_ptr<LockBackend> backend, OpenStorage open_storage, std::shared_ptr<Log> sink,
         const std::shared_ptr<Observer>& observer, std::shared_ptr<const LockHolder> holder,
         std::string shown, const QueueOptions& defaults)
      : log(std::move(sink)),
        locks(with_observer(std::move(backend), observer), log, observer, std::move(holder)),
        storage(std::make_shared<Storage>(std::move(open_storage), observer)),
        url(std::move(shown)),
        options(defaults) {}

  const std::shared_ptr<Log> log;
  const Locks locks;
  const std::shared_ptr<Storage> storage;
  const std::string url;
  const QueueOptions options;  ///< of objects that are made without any
};

Holdfast::Holdfast(std::shared_ptr<const Opened> opened) noexcept : opened_(std::move(opened)) {}

const Holdfast::Opened& Holdfast::opened() const {
  if (!opened_) throw is_empty();
  return *opened_;
}

const Locks& Holdfast::locks() const {
  return opened().locks;
}
Log& Holdfast::log() const {
  return *opened().log;
}
const std::string& Holdfast::url() const {
  return opened().url;
}

const TaskOptions& Holdfast::task_options() const {
  return opened().options.tasks;
}
const QueueOptions& Holdfast::queue_options() const {
  return opened().options;
}

Tasks Holdfast::tasks() const {
  return tasks(task_options());
}

Tasks Holdfast::tasks(const TaskOptions& options) const {
  return {opened().storage->get(), opened().locks, options};
}

Queue Holdfast::queue(std::string_view name) const {
  return queue(name, queue_options());
}

Queue Holdfast::queue(std::string_view name, const QueueOptions& options) const {
  const auto& locks = opened().locks;
  const auto& storage = opened().storage;
  auto limits = options.tasks;
  limits.max_tasks_per_owner = options.max_tasks;
  limits.require_fence = false;  // a job's writes carry one, and clients that add tasks have none
  const auto store = LockStore::of(locks);
  auto tasks =
      std::make_shared<TaskStore>(storage->get(), limits, store->observer, store->threads, options.max_dead);
  auto label = store->holder ? std::string(store->holder->str()) : std::string();
  return {std::make_shared<const QueueStore>(std::move(tasks), storage->renewals(locks), std::move(label)),
          name};
}

std::optional<Job> Holdfast::claim_next(const std::vector<std::string>& queues, const ClaimOptions& how,
                                        std::stop_token stop) const {
  if (queues.empty()) throw Error(ErrorCode::InvalidArgument, "no queue is named to claim a task from");
  return queue(queues.front()).run(operation::ClaimNextTask{detail::owned(how), queues}, std::move(stop));
}

QueuePage Holdfast::queues(std::string_view cursor, std::size_t limit, std::stop_token stop) const {
  const auto any = queue("any");  // the operation concerns all
  return any.run(operation::ListQueues{.cursor = std::string(cursor), .limit = limit}, std::move(stop));
}

FencedRegister Holdfast::fenced_register(std::string_view name) const {
  return FencedRegister(std::make_shared<const FencedRegister::Place>(
      opened().storage->get(), LockStore::of(opened().locks)->threads, name));
}

FencedRegister::Page Holdfast::fenced_registers(std::string_view cursor, std::size_t limit,
                                                std::stop_token stop) const {
  return FencedRegister::list(opened().storage->get(), cursor, limit, std::move(stop));
}

Holdfast open(std::string_view url, const Instruments& instruments) {
  const auto limited = split_limits(url).value_or_throw();
  const auto limits = limits_of(limited, environment).value_or_throw();
  const auto given = split_holder(limited.url).value_or_throw();
  auto log = std::make_shared<Log>();
  if (instruments.log_sink) log->set_sink(instruments.log_sink);
  const auto observer = observer_of(instruments);
  const auto opened = [&](std::shared_ptr<LockBackend> backend, OpenStorage open_storage,
                          std::shared_ptr<const LockHolder> holder, std::string shown) {
    if (!given.holder.empty()) shown += "?holder=" + core::percent_encoded(given.holder, "/:@");
    append_limits(shown, limited);
    return Holdfast(std::make_shared<const Holdfast::Opened>(std::move(backend), std::move(open_storage), log,
                                                             observer, std::move(holder), std::move(shown),
                                                             limits));
  };
  const auto in_sqlite_file = [&](const fs::path& file, std::string shown) {
    auto holder = label_of(instruments, given.holder);  // before the file is opened: it may be invalid
    return opened(
        make_sqlite_lock_backend(file, {}, log).value_or_throw(),
        [file, log] { return make_sqlite_storage_backend(file, {}, log); }, std::move(holder),
        std::move(shown));
  };
  switch (engine_of(given.url)) {
    case EngineKind::memory:
      return opened(
          make_memory_lock_backend({}, log), [] { return make_memory_storage_backend(); },
          label_of(instruments, given.holder), std::string(given.url));
    case EngineKind::sqlite: {
      const auto file = sqlite_file(given.url.substr(sqlite_scheme.size()));
      return in_sqlite_file(file, std::string(sqlite_scheme) + file.string());
    }
    case EngineKind::system:
      return in_sqlite_file(prepare_system_sqlite_file().value_or_throw(), std::string(given.url));
    case EngineKind::redis: {
      auto options = parse_redis_url(given.url).value_or_throw();
      auto shown = redis_url(options);
      auto holder = label_of(instruments, options.holder);
      if (!options.client_name && holder) options.client_name = connection_name(*holder);
      return opened(
          make_redis_lock_backend(options, log, observer).value_or_throw(),
          [options, log, observer] { return make_redis_storage_backend(options, log, observer); },
          std::move(holder), std::move(shown));
    }
    case EngineKind::unknown:
      break;
  }
  throw unknown_url(given.url);
}

namespace {

// The functions above as operations, which own their arguments and turn what is thrown into a result.

runtime::Op<Holdfast> opening(std::string url, Instruments instruments) {
  co_return open(url, instruments);
}
runtime::Op<Ok> opening_storage(std::shared_ptr<Storage> storage) {
  (void)storage->get();
  co_return Ok{};
}
runtime::Op<Tasks> tasks_of(Holdfast holdfast, TaskOptions options) {
  co_return holdfast.tasks(options);
}
runtime::Op<Queue> queue_of(Holdfast holdfast, std::string name, QueueOptions options) {
  co_return holdfast.queue(name, options);
}
runtime::Op<FencedRegister> register_of(Holdfast holdfast, std::string name) {
  co_return holdfast.fenced_register(name);
}

/// Runs `operation` when the storage is open. The thread that opens it has nothing but the storage: the
/// locks, whose last owner waits for releases, go with the operation when that is stopped.
template <class T>
void run_when_open(const std::shared_ptr<Storage>& storage, std::stop_token stop, runtime::Op<T> operation,
                   Done<T> done) {
  runtime::OwnThread<Ok>::start(
      opening_storage(storage), std::move(stop),
      [operation = std::move(operation), done = std::move(done)](const Status& opened) mutable {
        done(opened ? runtime::Op<T>::run(std::move(operation)) : Result<T>(opened.error()));
      });
}

}  // namespace

void open(std::string url, Instruments instruments, std::stop_token stop, Done<Holdfast> done) {
  runtime::OwnThread<Holdfast>::start(opening(std::move(url), std::move(instruments)), std::move(stop),
                                      std::move(done));
}

void Holdfast::tasks(const TaskOptions& options, std::stop_token stop, Done<Tasks> done) const {
  if (!opened_) return done(is_empty());
  run_when_open(opened_->storage, std::move(stop), tasks_of(*this, options), std::move(done));
}

void Holdfast::queue(std::string_view name, const QueueOptions& options, std::stop_token stop,
                     Done<Queue> done) const {
  if (!opened_) return done(is_empty());
  run_when_open(opened_->storage, std::move(stop), queue_of(*this, std::string(name), options),
                std::move(done));
}

void Holdfast::fenced_register(std::string_view name, std::stop_token stop, Done<FencedRegister> done) const {
  if (!opened_) return done(is_empty());
  run_when_open(opened_->storage, std::move(stop), register_of(*this, std::string(name)), std::move(done));
}

std::string_view version() noexcept {
  return HOLDFAST_VERSION;
}

}  // namespace holdfast
