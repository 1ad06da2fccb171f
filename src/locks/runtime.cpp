#include "locks/runtime.hpp"

#include "runtime/await.hpp"

namespace holdfast {

void LockRuntime::start_threads() {
  if (!threads->user_code.ensure_thread() ||
      (runtime::blocks(*backend) && !threads->blocking.ensure_thread())) {
    throw Error(ErrorCode::Internal, "cannot start the threads that renew leases and report their loss");
  }
}

void LockRuntime::abandon(const LockKey& key, const LockId& id) {
  {
    const std::lock_guard lock(abandoned_->mutex);
    ++abandoned_->count;
  }
  // The backend, not the runtime: the job must not be what keeps its own thread's owner alive.
  threads->blocking.post([piece = releases_.piece(), backend = backend, abandoned = abandoned_, key, id] {
    // Whether it held anything, or could be reached at all, changes nothing: the lease ends by itself.
    ReleaseRequest request{.lock = {.id = id, .key = key}, .durability = Durability::process};
    (void)runtime::await(*backend, std::move(request), abandoned->stop.get_token());
    {
      const std::lock_guard lock(abandoned->mutex);
      --abandoned->count;
    }
    abandoned->changed.notify_all();
  });
}

LockRuntime::~LockRuntime() {
  // On a thread of the library it would wait for itself; in a forked child there is nothing to wait for.
  if (!process.is_current() || runtime::WorkerPool::on_library_thread()) return;
  std::unique_lock lock(abandoned_->mutex);
  abandoned_->changed.wait_for(lock, last_abandon_timeout, [this] { return abandoned_->count == 0; });
  lock.unlock();
  abandoned_->stop.request_stop();
  releases_.wait_until_none();
}

void LockRuntime::granted_by(const std::string& authority) {
  {
    const std::lock_guard lock(authority_mutex_);
    if (authority == last_authority_) return;
    last_authority_ = authority;
    ++store_changes_;
  }
  threads->timer.call_all_now();
}

void LockRuntime::release_later(ReleaseRequest request) {
  threads->blocking.post(
      [piece = releases_.piece(), backend = backend, log = log, request = std::move(request)]() mutable {
        auto answer = runtime::await(*backend, request);
        if (!answer && answer.error().transient() && BootClock::now() < request.deadline) {
          request.asked_before = true;
          answer = runtime::await(*backend, request);
        }
        if (!answer) tell_unreleased(log, answer.error());
      });
}

void LockRuntime::tell_unreleased(const std::shared_ptr<Log>& log, const Error& error) noexcept {
  if (!log) return;
  log->write(LogLevel::debug, "a lock could not be released and ends with its lease: " +
                                  std::string(to_string(error.code())) + " " + error.cause());
}

}  // namespace holdfast
