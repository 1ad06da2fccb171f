#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <holdfast/version.hpp>
#include <mutex>

#include "locks/lock_store.hpp"
#include "os/errno_error.hpp"
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

fs::path sqlite_file(std::string_view path) {
  if (!path.empty()) {
    std::error_code failed;
    auto absolute = fs::absolute(path, failed);
    if (!failed) return absolute;
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot resolve the path " + std::string(path) + "; use an absolute path", failed.message());
  }
  auto file = default_sqlite_file().value_or_throw();
  make_private_directories(file.parent_path());
  return file;
}

}  // namespace

/// Opened on first use, so that a program that only uses locks pays nothing for it.
class [[gnu::visibility("hidden")]] Holdfast::Storage {
 public:
  Storage(OpenStorage open, std::shared_ptr<Observer> observer)
      : open_(std::move(open)), observer_(std::move(observer)) {}

  std::shared_ptr<StorageBackend> get() {
    const std::lock_guard lock(mutex_);
    if (!opened_) opened_ = with_observer(open_().value_or_throw(), observer_);
    return opened_;
  }

 private:
  const OpenStorage open_;
  const std::shared_ptr<Observer> observer_;
  std::mutex mutex_;
  std::shared_ptr<StorageBackend> opened_;
};

Holdfast::Holdfast(std::shared_ptr<LockBackend> backend, OpenStorage open_storage, std::shared_ptr<Log> log,
                   std::shared_ptr<Observer> observer, std::string url)
    : log_(std::move(log)),
      locks_(with_observer(std::move(backend), observer), log_, observer),
      storage_(std::make_shared<Storage>(std::move(open_storage), observer)),
      url_(std::move(url)) {}

Tasks Holdfast::tasks(const TaskOptions& options) const {
  return {storage_->get(), locks_, options};
}

FencedRegister Holdfast::fenced_register(std::string_view name) const {
  return FencedRegister(
      std::make_shared<const FencedRegister::Place>(storage_->get(), LockStore::of(locks_)->threads, name));
}

FencedRegister::Page Holdfast::fenced_registers(std::string_view cursor, std::size_t limit,
                                                std::stop_token stop) const {
  return FencedRegister::list(storage_->get(), cursor, limit, std::move(stop));
}

Holdfast open(std::string_view url, const Instruments& instruments) {
  auto log = std::make_shared<Log>();
  if (instruments.log_sink) log->set_sink(instruments.log_sink);
  const auto observer = observer_of(instruments);
  const auto in_sqlite_file = [&](const fs::path& file, std::string shown) -> Holdfast {
    return {make_sqlite_lock_backend(file, {}, log).value_or_throw(),
            [file, log] { return make_sqlite_storage_backend(file, {}, log); }, log, observer,
            std::move(shown)};
  };
  switch (engine_of(url)) {
    case EngineKind::memory:
      return {make_memory_lock_backend({}, log), [] { return make_memory_storage_backend(); }, log, observer,
              std::string(url)};
    case EngineKind::sqlite: {
      const auto file = sqlite_file(url.substr(sqlite_scheme.size()));
      return in_sqlite_file(file, std::string(sqlite_scheme) + file.string());
    }
    case EngineKind::system:
      return in_sqlite_file(prepare_system_sqlite_file().value_or_throw(), std::string(url));
    case EngineKind::redis: {
      const auto options = parse_redis_url(url).value_or_throw();
      return {make_redis_lock_backend(options, log, observer).value_or_throw(),
              [options, log, observer] { return make_redis_storage_backend(options, log, observer); }, log,
              observer, redis_url(options)};
    }
    case EngineKind::unknown:
      break;
  }
  throw unknown_url(url);
}

std::string_view version() noexcept {
  return HOLDFAST_VERSION;
}

}  // namespace holdfast
