#pragma once

#include <functional>
#include <holdfast/export.hpp>
#include <holdfast/fenced_register.hpp>
#include <holdfast/instruments.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/log.hpp>
#include <holdfast/tasks.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast {

/// An opened engine. Cheap to copy; copies share it.
class HOLDFAST_EXPORT Holdfast {
 public:
  [[nodiscard]] const Locks& locks() const noexcept { return locks_; }
  /// The tasks of the same engine, opened when first asked for: throws Error if that fails. The options are
  /// those of the object returned; all share one store.
  [[nodiscard]] Tasks tasks(const TaskOptions& options = {}) const;
  /// A value of your own in the same store, guarded by fences.
  [[nodiscard]] FencedRegister fenced_register(std::string_view name) const;
  /// FencedRegister::list of that store.
  [[nodiscard]] FencedRegister::Page fenced_registers(std::string_view cursor = {}, std::size_t limit = 100,
                                                      std::stop_token stop = {}) const;
  [[nodiscard]] Log& log() const noexcept { return *log_; }
  /// The URL it was opened with, made absolute and without a password.
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  friend Holdfast open(std::string_view url, const Instruments& instruments);
  class Storage;
  using OpenStorage = std::function<Result<std::shared_ptr<StorageBackend>>()>;
  Holdfast(std::shared_ptr<LockBackend> backend, OpenStorage open_storage, std::shared_ptr<Log> log,
           std::shared_ptr<Observer> observer, std::string url);
  std::shared_ptr<Log> log_;
  Locks locks_;
  std::shared_ptr<Storage> storage_;
  std::string url_;
};

/// Opens an engine and checks at once that it can be used; throws Error if not.
///
///   memory:         locks of this object and its copies, gone with the last one
///   sqlite:PATH     a file shared by the processes of this machine; its directory must exist
///   sqlite:         the same in the user's state directory, created (0700) if missing
///   system:         /var/lib/holdfast/holdfast.db, shared by the users of its directory's group
///   redis://HOST    a Redis, shared by everybody who reaches it; with user, password, port, database and
///   rediss://HOST   options in the URL (docs/reference/urls.md). rediss: with TLS
///   unix:PATH       the same over a Unix socket of this machine
///
/// Anything else, the empty string included, is InvalidArgument. The instruments, if there are any, see
/// everything that is done through what is returned.
[[nodiscard]] HOLDFAST_EXPORT Holdfast open(std::string_view url, const Instruments& instruments = {});

/// "0.1.0"
[[nodiscard]] HOLDFAST_EXPORT std::string_view version() noexcept;

}  // namespace holdfast
