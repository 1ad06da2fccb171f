#include "runtime/turn.hpp"

#include <algorithm>
#include <utility>

#include "runtime/runtime.hpp"

namespace holdfast::runtime {

void Turn::wait(const std::shared_ptr<Runtime>& runtime, BootTime deadline, std::stop_token stop, Begin begin,
                Refuse refuse) {
  const auto turn = std::make_shared<Turn>(runtime, std::move(stop), std::move(begin), std::move(refuse));
  turn->start(deadline);
  runtime->blocking.post([turn] { turn->take(); }, WorkerPool::Priority::limited);
}

Turn::Turn(std::shared_ptr<Runtime> runtime, std::stop_token stop, Begin begin, Refuse refuse)
    : runtime_(std::move(runtime)),
      stop_(std::move(stop)),
      begin_(std::move(begin)),
      refuse_(std::move(refuse)) {}

Turn::~Turn() {
  on_stop_.reset();  // first: it schedules
  runtime_->timer.cancel(*this);
}

void Turn::start(BootTime deadline) {
  if (deadline == never && !stop_.stop_possible()) return;
  const std::lock_guard lock(starting_);
  // These come first, because they throw if the machine has no thread; a stop request must not throw.
  runtime_->prepare_to_go_on();
  runtime_->timer.schedule(*this, std::min(deadline, never - BootClock::duration(1)));
  if (stop_.stop_possible()) on_stop_.emplace(stop_, Wake{this});
}

void Turn::Wake::operator()() const {
  turn->runtime_->timer.schedule(*turn, BootTime());
}

bool Turn::ends_now() {
  if (ended_.exchange(true, std::memory_order_acq_rel)) return false;
  on_stop_.reset();
  return true;
}

void Turn::take() {
  if (!ends_now()) return;
  runtime_->timer.cancel(*this);
  refuse_ = nullptr;
  std::exchange(begin_, nullptr)();
}

BootTime Turn::on_time(BootTime) {
  {
    const std::lock_guard lock(starting_);
  }
  if (!ends_now()) return never;
  begin_ = nullptr;
  auto why = stop_.stop_requested()
                 ? Error(ErrorCode::Aborted, "the operation was stopped before it started")
                 : Error(ErrorCode::NetworkTimeout,
                         "the deadline passed before a thread was free to run the operation")
                       .with(Effect::none);
  runtime_->go_on([keep = std::static_pointer_cast<Turn>(shared_from_this()), why = std::move(why)] {
    std::exchange(keep->refuse_, nullptr)(why);
  });
  return never;
}

}  // namespace holdfast::runtime
