#include "support/faulty_backend.hpp"

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

BootTime FaultyBackend::first_call(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return plans_[static_cast<std::size_t>(operation)].first_call;
}

ReleaseRequest FaultyBackend::last_release() const {
  const std::lock_guard lock(mutex_);
  return last_release_.value();
}

FaultyBackend::Fault FaultyBackend::next(Operation operation) {
  const std::lock_guard lock(mutex_);
  Plan& plan = plan_of(operation);
  if (plan.calls++ == 0) plan.first_call = BootClock::now();
  if (plan.faults.empty()) return Fault::none;
  const Fault fault = plan.faults.front();
  plan.faults.pop_front();
  return fault;
}

}  // namespace holdfast::test
