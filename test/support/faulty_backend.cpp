#include "support/faulty_backend.hpp"

#include <thread>

namespace holdfast::test {

FaultyBackend::FaultyBackend(std::shared_ptr<LockBackend> inner) : inner_(std::move(inner)) {}

void FaultyBackend::plan(Operation operation, Fault fault, int times) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < times; ++i) plan_of(operation).faults.push_back(fault);
}

int FaultyBackend::calls(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return plans_[static_cast<std::size_t>(operation)].calls;
}

ReleaseRequest FaultyBackend::last_release() const {
  const std::lock_guard lock(mutex_);
  return last_release_.value();
}

FaultyBackend::Fault FaultyBackend::next(Operation operation) {
  const std::lock_guard lock(mutex_);
  Plan& plan = plan_of(operation);
  ++plan.calls;
  if (plan.faults.empty()) return Fault::none;
  const Fault fault = plan.faults.front();
  plan.faults.pop_front();
  return fault;
}

template <class T, class Send>
void FaultyBackend::strike(Operation operation, BootTime deadline, Done<T> done, Send send) {
  switch (next(operation)) {
    case Fault::hangs_for_a_second:
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return send(std::move(done));
    case Fault::none:
      return send(std::move(done));
    case Fault::not_sent:
      return done(Error(ErrorCode::ServiceUnavailable, "planned: not sent"));
    case Fault::refused_auth:
      return done(Error(ErrorCode::AuthFailed, "planned: refused"));
    case Fault::answer_lost:
      send(Done<T>([](Result<T>) {}));
      return done(Error(ErrorCode::ServiceUnavailable, "planned: answer lost"));
    case Fault::never_answered:
      send(Done<T>([](Result<T>) {}));
      while (BootClock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return done(Error(ErrorCode::NetworkTimeout, "planned: never answered"));
  }
}

void FaultyBackend::acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) {
  strike<AcquireOutcome>(Operation::acquire, request.deadline, std::move(done),
                         [&](auto d) { inner_->acquire(request, stop, std::move(d)); });
}

void FaultyBackend::release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) {
  {
    const std::lock_guard lock(mutex_);
    last_release_ = request;
  }
  strike<ReleaseOutcome>(Operation::release, request.deadline, std::move(done),
                         [&](auto d) { inner_->release(request, stop, std::move(d)); });
}

void FaultyBackend::extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) {
  strike<ExtendOutcome>(Operation::extend, request.deadline, std::move(done),
                        [&](auto d) { inner_->extend(request, stop, std::move(d)); });
}

void FaultyBackend::is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) {
  inner_->is_locked(std::move(request), std::move(stop), std::move(done));
}

void FaultyBackend::lookup(LookupRequest request, std::stop_token stop,
                           Done<std::optional<LockRecord>> done) {
  inner_->lookup(std::move(request), std::move(stop), std::move(done));
}

void FaultyBackend::list(ListRequest request, std::stop_token stop, Done<LockPage> done) {
  inner_->list(std::move(request), std::move(stop), std::move(done));
}

}  // namespace holdfast::test
