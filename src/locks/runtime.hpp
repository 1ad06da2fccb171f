#pragma once

#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <memory>
#include <string>

#include "flow/flow.hpp"
#include "sys/process.hpp"
#include "sys/timer_queue.hpp"
#include "sys/worker_pool.hpp"

namespace holdfast {

/// What the guards of one engine share. Threads start when they are first needed:
/// - the timer decides when to renew and when a guard is lost; it never does I/O nor runs user code, so a
///   stalled engine cannot keep a holder from being told;
/// - renewers do the I/O of renewals and of releases that nobody waits for, several at once, so that one that
///   waits for a silent server does not hold up the others;
/// - callback threads run user code only; one that blocks does not hold up the next.
class LockRuntime {
 public:
  LockRuntime(std::shared_ptr<LockBackend> engine, std::shared_ptr<Log> sink)
      : backend(std::move(engine)), log(std::move(sink)), authority(backend->authority()) {}

  [[nodiscard]] static Guard guard(std::shared_ptr<HeldLock> held) noexcept { return Guard(std::move(held)); }
  [[nodiscard]] flow::Flow completing() const noexcept { return flow::Flow::completing(background); }

  /// Releases an id that may hold the lock though nobody knows, in the background.
  void abandon(const LockKey& key, const LockId& id);
  void log_debug(std::string message) const noexcept {
    if (log) log->write(LogLevel::debug, std::move(message));
  }

  const std::shared_ptr<LockBackend> backend;
  const std::shared_ptr<Log> log;
  const std::string authority;
  const sys::Birthplace home;
  sys::TimerQueue timer;
  /// Of operations that no thread waits for: their timer is another, because they go on on its thread.
  const std::shared_ptr<flow::Background> background = std::make_shared<flow::Background>();
  sys::WorkerPool callbacks{1000};
  sys::WorkerPool renewer{16};
};

}  // namespace holdfast
