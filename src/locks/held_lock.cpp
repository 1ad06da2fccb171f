#include "locks/held_lock.hpp"

#include <algorithm>

#include "locks/lock_store.hpp"

namespace holdfast {

using std::chrono::milliseconds;

namespace {

/// Engines return Aborted only for requests that they have not begun.
bool was_not_begun(const Error& error) {
  return error.code() == ErrorCode::Aborted || error.effect() == Effect::none;
}

/// A release is retried for at least this long, even if the lease expires sooner or has expired by the
/// holder's clock.
constexpr milliseconds late_release = std::chrono::seconds(1);

}  // namespace

HeldLock::HeldLock(std::shared_ptr<LockStore> store, Grant&& grant, const LockOptions& options)
    : store_(std::move(store)),
      grant_(std::move(grant)),
      dispose_timeout_(options.dispose_timeout),
      min_replicas_(options.min_replicas),
      observed_(store_->observer.get(), {.backend = store_->capabilities.backend,
                                         .key = grant_.key,
                                         .id = grant_.id,
                                         .fence = grant_.fence,
                                         .holder = grant_.holder,
                                         .context = grant_.context}),
      lease_(grant_.ttl, grant_.sent, options.auto_renew, options.max_hold, locks::Notice(options.notice)),
      expires_at_(grant_.expires_at),
      store_changes_(store_->store_changes()) {
  if (grant_.adopted) lease_.may_be_repeated(grant_.ttl);
}

HeldLock::~HeldLock() {
  store_->threads->timer.cancel(*this);
}

std::shared_ptr<HeldLock> HeldLock::start(std::shared_ptr<LockStore> store, Grant&& grant,
                                          const LockOptions& options) {
  auto held = std::make_shared<HeldLock>(std::move(store), std::move(grant), options);
  try {
    held->store_->start_threads();
    held->store_->threads->timer.schedule(*held, held->lease_.next_tick());
  } catch (...) {
    held->dispose();  // no thread to watch the lease: a lock whose loss cannot be reported is not granted
    throw;
  }
  return held;
}

std::shared_ptr<HeldLock> HeldLock::background_self() {
  struct Counted {
    explicit Counted(Self held) : piece(held->store_->unfinished), self(std::move(held)) {}
    const runtime::Unfinished::Piece piece;  ///< destroyed last: by then this object owns nothing of the
                                             ///< store
    const Self self;
  };
  return {std::make_shared<Counted>(shared_self()), this};
}

runtime::Flow HeldLock::completing() const noexcept {
  return store_->completing();
}

bool HeldLock::in_own_process() const noexcept {
  return store_->process.is_current();
}

WallTime HeldLock::expires_at() const {
  const std::lock_guard lock(mutex_);
  return expires_at_;
}

std::chrono::nanoseconds HeldLock::remaining() const noexcept {
  const std::lock_guard lock(mutex_);
  if (hold_ != Hold::held) return std::chrono::nanoseconds::zero();
  return std::max(lease_.proven_until() - BootClock::now(), std::chrono::nanoseconds::zero());
}

std::optional<Error> HeldLock::renewal_error() const {
  const std::lock_guard lock(mutex_);
  return renewal_error_;
}

bool HeldLock::at_risk() const {
  const std::lock_guard lock(mutex_);
  return hold_ == Hold::held && lease_.at_risk();
}

std::optional<LossReason> HeldLock::loss_reason() const {
  const std::lock_guard lock(mutex_);
  return lease_.lost();
}

BootTime HeldLock::on_time(BootTime now) {
  auto step = locks::RenewLoop::Step::none;
  BootTime next = never;
  bool risk_changed = false;
  {
    const std::lock_guard lock(mutex_);
    if (hold_ != Hold::held) return never;
    if (store_changes_ != store_->store_changes()) {
      store_changes_ = store_->store_changes();
      lease_.check_at_once();
    }
    step = lease_.tick(now);
    next = lease_.next_tick();
    if (step == locks::RenewLoop::Step::lose) {
      observed_.lost(*lease_.lost());
    } else {
      risk_changed = risk_reports_.begin(lease_.at_risk());
    }
    if (step == locks::RenewLoop::Step::extend) lease_.renew_sooner(store_->crowd.next(now));
  }
  if (step == locks::RenewLoop::Step::extend || step == locks::RenewLoop::Step::look_up) {
    auto* const begin = step == locks::RenewLoop::Step::extend ? &HeldLock::renew : &HeldLock::look_up;
    auto job = [begin, self = background_self()] { begin(self); };
    if (store_->capabilities.blocks) {
      store_->threads->blocking.post(std::move(job));
    } else {
      store_->threads->timer.after_due(std::move(job));
    }
  }
  if (risk_changed) announce_risk();
  if (step == locks::RenewLoop::Step::lose) announce_loss();
  return next;
}

template <class Holds>
struct HeldLock::Until {
  HeldLock& held;
  const runtime::Flow& flow;
  Holds holds;
  BootTime deadline;

  [[nodiscard]] bool await_ready() const {
    std::unique_lock lock(held.mutex_);
    if (holds()) return true;
    if (!flow.blocks()) return false;
    ++held.blocked_;
    if (deadline == never) {
      held.changed_.wait(lock, holds);
    } else {
      held.changed_.wait_for(lock, deadline - BootClock::now(), holds);
    }
    --held.blocked_;
    return true;
  }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> operation) const {
    const std::lock_guard lock(held.mutex_);
    if (holds()) return false;
    held.waiting_.push_back({operation, holds});
    return true;
  }
  void await_resume() const noexcept {}
};

template <class Holds>
HeldLock::Until<Holds> HeldLock::until(const runtime::Flow& flow, Holds holds, BootTime deadline) {
  return {.held = *this, .flow = flow, .holds = std::move(holds), .deadline = deadline};
}

void HeldLock::tell_change() {
  const auto keep = shared_self();
  std::vector<Waiting> told, left;
  {
    const std::lock_guard lock(mutex_);
    for (auto& waiting : waiting_) (waiting.holds() ? told : left).push_back(std::move(waiting));
    waiting_.swap(left);
  }
  changed_.notify_all();
  for (const auto& waiting : told) {
    if (runtime::TimerQueue::on_timers_thread()) {
      store_->threads->go_on([operation = waiting.operation] { operation.resume(); });
    } else {
      waiting.operation.resume();
    }
  }
}

std::variant<ExtendRequest, Absence> HeldLock::begin_extend(Ttl ttl, Extending purpose) {
  if (hold_ != Hold::held || lease_.lost()) return Absence::not_found;
  extending_ = purpose;
  lease_.extend_sent(BootClock::now(), ttl);
  // A shorter ttl may have moved the loss forward.
  store_->threads->timer.schedule(*this, lease_.next_tick());
  return ExtendRequest{
      .lock = {.id = grant_.id, .key = grant_.key},
      .ttl = ttl,
      .durability = purpose == Extending::to_detach ? Durability::machine : Durability::process,
      .deadline = lease_.lose_at(),  // afterwards nothing is sent, and an answer does not count
      .min_replicas = min_replicas_};
}

void HeldLock::end_extend(Ttl ttl, const Result<ExtendOutcome>& answer) {
  bool found_lost = false;
  bool risk_changed = false;
  {
    const std::lock_guard lock(mutex_);
    const auto purpose = std::exchange(extending_, Extending::none);
    renewal_error_ = answer ? std::nullopt : std::optional(answer.error());
    if (!answer && was_not_begun(answer.error())) {
      lease_.extend_not_begun(BootClock::now(), answer.error().code() != ErrorCode::Aborted);
    } else if (!answer) {
      lease_.extend_unanswered(BootClock::now());
    } else if (const auto* extended = std::get_if<Extended>(&*answer)) {
      if (extended->may_be_repeated) lease_.may_be_repeated(ttl);
      lease_.extend_granted();
      expires_at_ = extended->expires_at;
      if (purpose == Extending::to_detach && hold_ == Hold::held && !lease_.lost()) {
        // Set here, before another extend can begin: an unanswered one with a shorter ttl would outlive the
        // promise.
        hold_ = Hold::detached;
        store_->threads->timer.cancel(*this);
      }
    } else {
      found_lost = lease_.extend_found_nothing() && hold_ == Hold::held;
      if (found_lost) observed_.lost(*lease_.lost());
    }
    if (hold_ == Hold::held) {
      risk_changed = !lease_.lost() && risk_reports_.begin(lease_.at_risk());
      store_->threads->timer.schedule(*this, lease_.next_tick());
    }
  }
  if (risk_changed) announce_risk();
  if (found_lost) announce_loss();
  tell_change();
}

runtime::Op<ExtendOutcome> HeldLock::extend_once(runtime::Flow flow, Self self, std::optional<Ttl> ttl,
                                                 std::stop_token stop) {
  std::variant<ExtendRequest, Absence> next = Absence::not_found;
  for (bool my_turn = false; !my_turn;) {
    const std::stop_callback wake(stop, [&] { self->tell_change(); });
    co_await self->until(flow, [&] { return self->extending_ == Extending::none || stop.stop_requested(); });
    const std::lock_guard lock(self->mutex_);
    my_turn = self->extending_ == Extending::none;
    if (my_turn) {
      // The adopter proves its lease from this ttl and does not know of our extends that may still arrive. So
      // the ttl is read at this turn: it then covers the extends that stayed unanswered while this one
      // waited.
      next = ttl ? self->begin_extend(*ttl, Extending::to_hold)
                 : self->begin_extend(self->lease_.provable_ttl(), Extending::to_detach);
    } else if (stop.stop_requested()) {
      co_return Error(ErrorCode::Aborted, "the extend was stopped before it started")
          .about(self->key(), self->id().str());
    }
  }
  if (const auto* absence = std::get_if<Absence>(&next)) co_return *absence;
  auto sending = send_extend(flow, self, std::get<ExtendRequest>(std::move(next)), std::move(stop));
  co_return co_await std::move(sending);
}

runtime::Op<ExtendOutcome> HeldLock::send_extend(runtime::Flow flow, Self self, ExtendRequest request,
                                                 std::stop_token stop) {
  const auto& backend = self->store_->backend;
  const Ttl ttl = request.ttl;
  std::optional<Result<ExtendOutcome>> answer;
  try {
    answer = co_await flow.ask(backend, std::move(request), std::move(stop));
  } catch (const std::exception& error) {
    // For example out of memory. The guard's turn must still end, or every later extend would wait forever.
    answer = Error(ErrorCode::Internal, "the extend failed locally", error.what());
  }
  self->end_extend(ttl, *answer);
  co_return *std::move(answer);
}

void HeldLock::renew(const Self& self) {
  std::variant<ExtendRequest, Absence> next = Absence::not_found;
  {
    const std::lock_guard lock(self->mutex_);
    // The holder's own extend() may have replaced this renewal.
    if (!self->lease_.renewal_due() || self->extending_ != Extending::none) return;
    next = self->begin_extend(self->lease_.ttl(), Extending::to_hold);
  }
  auto* const request = std::get_if<ExtendRequest>(&next);
  if (request == nullptr) return;  // the lock is no longer held
  const auto& store = *self->store_;
  request->by_idle_io = store.idle_io != nullptr;
  const auto context = self->observed_.context();
  const runtime::CarriedContext carried(context);
  const BootTime begun = self->observed_.renewal_begun();
  // Errors show in the lease: it retries until the proof ends, then the holder is notified.
  runtime::Op<ExtendOutcome>::start(
      send_extend(self->background_flow(), self, std::move(*request), {}),
      [self, begun](const Result<ExtendOutcome>& answer) { self->observed_.renewed(begun, answer); });
}

runtime::Flow HeldLock::background_flow() const {
  if (store_->capabilities.blocks) return runtime::Flow::blocking();
  return runtime::Flow::completing(store_->threads, observed_.context());
}

void HeldLock::look_up(const Self& self) {
  LookupRequest request{.what = self->grant_.id};
  {
    const std::lock_guard lock(self->mutex_);
    if (self->hold_ != Hold::held || self->lease_.lost()) return;
    request.deadline = self->lease_.proven_until();
  }
  const auto context = self->observed_.context();
  const runtime::CarriedContext carried(context);
  runtime::Op<Ok>::start(send_look_up(self->background_flow(), self, std::move(request)),
                         [](const Result<Ok>&) {});
}

runtime::Op<Ok> HeldLock::send_look_up(runtime::Flow flow, Self self, LookupRequest request) {
  std::optional<Result<std::optional<LockRecord>>> answer;
  try {
    answer = co_await flow.ask(self->store_->backend, std::move(request), {});
  } catch (const std::exception& error) {
    answer = Error(ErrorCode::Internal, "the lock lookup failed locally", error.what());
  }
  self->end_look_up(*answer);
  co_return Ok{};
}

void HeldLock::end_look_up(const Result<std::optional<LockRecord>>& answer) {
  bool found_lost = false;
  {
    const std::lock_guard lock(mutex_);
    if (!answer) {
      lease_.look_up_failed(BootClock::now());
    } else if (*answer && (*answer)->key == grant_.key) {
      lease_.look_up_found_it();
    } else {
      found_lost = lease_.look_up_found_nothing() && hold_ == Hold::held;
      if (found_lost) observed_.lost(*lease_.lost());
    }
    if (hold_ == Hold::held) store_->threads->timer.schedule(*this, lease_.next_tick());
  }
  if (found_lost) announce_loss();
  tell_change();
}

runtime::Op<bool> HeldLock::extend(runtime::Flow flow, Self self, milliseconds ttl, std::stop_token stop) {
  const auto checked = Ttl::of(ttl).value_or_throw();
  auto extending = extend_once(flow, self, checked, std::move(stop));
  const auto answer = (co_await std::move(extending)).value_or_throw();
  const std::lock_guard lock(self->mutex_);
  co_return std::holds_alternative<Extended>(answer) && !self->lease_.lost();
}

runtime::Op<std::optional<Lease>> HeldLock::detach(runtime::Flow flow, Self self, std::stop_token stop) {
  auto extending = extend_once(flow, self, std::nullopt, std::move(stop));
  const auto answer = (co_await std::move(extending)).value_or_throw();
  const auto* extended = std::get_if<Extended>(&answer);
  std::function<void(LossReason)> unused;  // destroyed here, see end_hold
  std::shared_ptr<locks::RiskReports::Callback> unused_too;
  std::function<void(const Error&)> unused_as_well;
  {
    const std::lock_guard lock(self->mutex_);
    if (extended == nullptr || self->hold_ != Hold::detached) co_return std::nullopt;
    unused.swap(self->on_lost_);
    self->risk_reports_.swap(unused_too);
    unused_as_well.swap(self->on_release_error_);
  }
  self->observed_.released();
  co_return Lease{.key = self->grant_.key.str(),
                  .id = self->grant_.id,
                  .ttl = self->lease_.provable_ttl().length(),  // the ttl of the last extend; it is final
                  .fence = self->grant_.fence,
                  .expires_at = extended->expires_at,
                  .authority = self->grant_.authority,
                  .replicas = self->grant_.replicas,
                  .acquire_may_be_repeated = self->grant_.acquire_may_be_repeated};
}

runtime::Op<LossReason> HeldLock::wait_lost(runtime::Flow flow, Self self, std::stop_token stop) {
  const std::stop_callback wake(stop, [&] { self->tell_change(); });
  co_await self->until(
      flow, [&] { return self->lease_.lost() || self->hold_ != Hold::held || stop.stop_requested(); });
  const std::lock_guard lock(self->mutex_);
  // A guard that was released first stays released: its owner gets no loss signal.
  if (self->lease_.lost() && self->hold_ == Hold::held) co_return *self->lease_.lost();
  co_return Error(ErrorCode::Aborted, "the wait for the loss of this lock was cancelled")
      .about(self->key(), {});
}

bool HeldLock::is_held() const noexcept {
  const std::lock_guard lock(mutex_);
  return hold_ == Hold::held;
}

std::optional<HeldLock::Ended> HeldLock::end_hold() {
  std::function<void(LossReason)> unused;  // destroyed here, not on the thread that drops the last reference
  std::shared_ptr<locks::RiskReports::Callback> unused_too;
  std::optional<Ended> ended;
  bool has_waiters = false;
  {
    const std::lock_guard lock(mutex_);
    if (hold_ != Hold::held) return std::nullopt;
    hold_ = Hold::ended;
    store_->threads->timer.cancel(*this);
    unused.swap(on_lost_);
    risk_reports_.swap(unused_too);
    ended.emplace(Ended{.on_release_error = std::exchange(on_release_error_, nullptr),
                        .is_announced = announcers_ > 0});
    has_waiters = blocked_ > 0 || !waiting_.empty();
  }
  if (has_waiters) tell_change();
  return ended;
}

ReleaseRequest HeldLock::release_request(BootTime deadline) const {
  const std::lock_guard lock(mutex_);
  const BootTime now = BootClock::now();
  const BootTime until = lease_.proven_until();
  // After the lease has expired there is nothing to release: no thread keeps waiting for a silent server.
  const BootTime at_latest = std::max(lease_.lease_end(), now + late_release);
  return {.lock = {.id = grant_.id, .key = grant_.key},
          .durability = Durability::process,
          .deadline = std::min(deadline, at_latest),
          .proof = HolderProof{.fence = grant_.fence,
                               .authority = grant_.authority,
                               .until = until,
                               .lost = now >= until,  // while it is ending it is proven yet
                               .confirmed = lease_.confirmed_at()},
          .acquire_may_be_repeated = grant_.acquire_may_be_repeated};
}

runtime::Op<bool> HeldLock::release_now(runtime::Flow flow, Self self, BootTime deadline,
                                        std::stop_token stop) {
  const HeldLock& held = *self;
  auto finish = [self = std::move(self), stop](const Result<ReleaseOutcome>& answer) {
    return self->end_release(answer, stop);
  };
  using locks::ReleaseLoop;
  return LockStore::release<bool>(std::move(flow), held.store_->backend,
                                  ReleaseLoop(held.release_request(deadline), ReleaseLoop::For::holder),
                                  std::move(stop), {}, std::move(finish));
}

Result<bool> HeldLock::end_release(const Result<ReleaseOutcome>& answer, const std::stop_token& stop) {
  const bool released = answer && std::holds_alternative<Released>(*answer);
  if (released || !answer) {
    observed_.released();  // after an error, from its holder's point of view
  } else {
    observed_.lost(LossReason::gone);
  }
  if (answer) return released;
  auto error = answer.error().about(key(), id().str());
  if (!stop.stop_requested()) return error;
  // The stop request ended only the wait: the lock must still be released.
  store_->release_in_background(release_request(never), locks::ReleaseLoop::For::id_in_doubt);
  // Whatever the engine knows of the request that was stopped: the release will be carried out.
  return error.with(Effect::unknown);
}

runtime::Op<bool> HeldLock::release(runtime::Flow flow, Self self, std::stop_token stop) {
  const auto ended = self->end_hold();
  if (!ended) return not_released();
  // A loss callback that is running still uses objects that its owner may destroy after this returns.
  if (ended->is_announced && !(flow.blocks() && runtime::WorkerPool::on_library_thread())) {
    return release_after_announcement(std::move(flow), std::move(self), std::move(stop));
  }
  return release_now(std::move(flow), std::move(self), never, std::move(stop));
}

runtime::Op<bool> HeldLock::not_released() {
  co_return false;
}

runtime::Op<bool> HeldLock::release_after_announcement(runtime::Flow flow, Self self, std::stop_token stop) {
  {
    const std::stop_callback wake(stop, [&] { self->tell_change(); });
    co_await self->until(flow, [&] { return self->announcers_ == 0 || stop.stop_requested(); });
  }
  auto releasing = release_now(flow, self, never, stop);
  co_return co_await std::move(releasing);
}

BootTime HeldLock::dispose_deadline() const noexcept {
  return dispose_timeout_ == milliseconds::zero() ? never
                                                  : saturating_add(BootClock::now(), dispose_timeout_);
}

void HeldLock::dispose() noexcept {
  const auto deadline = dispose_deadline();
  auto ended = end_hold();
  if (!ended) return;
  auto callback = std::move(ended->on_release_error);
  if (runtime::WorkerPool::on_library_thread()) {
    store_->threads->blocking.post(
        [self = background_self(), deadline, callback = std::move(callback)]() mutable {
          self->dispose_now(deadline, std::move(callback));
        });
    return;
  }
  if (ended->is_announced) {
    (void)until(runtime::Flow::blocking(), [this] { return announcers_ == 0; }, deadline).await_ready();
  }
  dispose_now(deadline, std::move(callback));
}

void HeldLock::dispose_now(BootTime deadline, std::function<void(const Error&)> callback) noexcept {
  const auto released =
      runtime::Op<bool>::run(release_now(runtime::Flow::blocking(), shared_self(), deadline, {}));
  if (!released) return report(released.error(), std::move(callback));
  // User code, including its destructors, must not run on the renewing thread.
  if (callback && runtime::WorkerPool::on_library_thread()) {
    store_->threads->user_code.post([self = background_self(), unused = std::move(callback)] {});
  }
}

void HeldLock::dispose_in_background() noexcept {
  const auto deadline = dispose_deadline();
  auto ended = end_hold();
  if (!ended) return;
  auto callback = std::move(ended->on_release_error);
  if (store_->capabilities.blocks && !callback) {
    observed_.released();  // the true outcome will never be known
    return store_->release_in_background(release_request(deadline), locks::ReleaseLoop::For::holder);
  }
  auto report_to = std::make_shared<std::function<void(const Error&)>>(std::move(callback));
  auto self = background_self();
  runtime::Op<bool>::start(
      release_now(store_->completing(), self, deadline, {}),
      [self, report_to](const Result<bool>& released) mutable {
        if (released && !*report_to) return;
        // The thread that delivered the answer must not run user code or its destructors.
        self->store_->threads->user_code.post([self, report_to = std::move(report_to), released] {
          if (!released) self->report(released.error(), std::move(*report_to));
        });
      });
}

}  // namespace holdfast
