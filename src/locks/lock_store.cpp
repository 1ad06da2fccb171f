#include "locks/lock_store.hpp"

#include "runtime/await.hpp"

namespace holdfast {

void LockStore::start_threads() {
  if (!threads->user_code.ensure_thread() || (capabilities.blocks && !threads->blocking.ensure_thread())) {
    throw Error(ErrorCode::Internal, "cannot start the threads that renew leases");
  }
}

namespace {

/// Requests a stop at a given time.
class StopLater final : public runtime::Timed {
 public:
  explicit StopLater(std::stop_source stop) : stop_(std::move(stop)) {}
  BootTime on_time(BootTime) override {
    stop_.request_stop();
    return never;
  }

 private:
  std::stop_source stop_;
};

}  // namespace

LockStore::~LockStore() {
  if (!process.is_current() || releases_.none()) return;
  // A thread of the library would wait for itself.
  if (runtime::WorkerPool::on_library_thread()) {
    resends_end_.request_stop();
    return;
  }
  const auto stop_later = std::make_shared<StopLater>(doubts_end_);
  try {
    threads->timer.schedule(*stop_later, saturating_add(BootClock::now(), last_doubt_timeout));
  } catch (const Error&) {  // no thread for the timer
    doubts_end_.request_stop();
  }
  releases_.wait_until_none();
  threads->timer.cancel(*stop_later);
}

void LockStore::release_in_background(ReleaseRequest request, locks::ReleaseLoop::For whom) {
  using locks::ReleaseLoop;
  const bool in_doubt = whom == ReleaseLoop::For::id_in_doubt;
  const auto stop = in_doubt ? doubts_end_.get_token() : std::stop_token();
  // Captures the backend, not this object: the job must not keep its own thread's owner alive. The piece is
  // destroyed last: the destructor that waits for it may then destroy the engine.
  auto end = [piece = releases_.piece(),
              log = in_doubt ? nullptr : log](const Result<ReleaseOutcome>& answer) {
    if (!answer) tell_unreleased(log, answer.error());
  };
  if (!capabilities.blocks) {
    return runtime::Op<ReleaseOutcome>::start(
        release(runtime::Flow::completing(threads), backend, ReleaseLoop(std::move(request), whom), stop,
                in_doubt ? resends_end_.get_token() : std::stop_token()),
        std::move(end));
  }
  // An engine that blocks fails without effect, and pauses would take threads from renewals. So it gets one
  // more request at once, and no others.
  threads->blocking.post([end = std::move(end), backend = backend, request = std::move(request),
                          stop]() mutable {
    ReleaseLoop loop(std::move(request), ReleaseLoop::For::holder);
    end(runtime::Op<ReleaseOutcome>::run(release(runtime::Flow::blocking(), backend, std::move(loop), stop)));
  });
}

void LockStore::compare_authority(const SharedText& authority) {
  {
    const std::lock_guard lock(authority_mutex_);
    const bool changed = authority != last_authority_;
    last_authority_at_.store(&authority.str(), std::memory_order_release);
    last_authority_ = authority;
    if (!changed) return;
    ++store_changes_;
  }
  threads->timer.call_all_now();
}

void LockStore::tell_unreleased(const std::shared_ptr<Log>& log, const Error& error) noexcept {
  if (!log) return;
  log->write(LogLevel::debug, "a lock could not be released; its lease will expire: " +
                                  std::string(to_string(error.code())) + " " + error.cause());
}

}  // namespace holdfast
