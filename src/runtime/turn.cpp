#include "runtime/turn.hpp"

#include <algorithm>
#include <utility>

#include "runtime/flow.hpp"

namespace holdfast::runtime {

void Turn::wait(const std::shared_ptr<Background>& background, BootTime deadline, std::stop_token stop,
                Begin begin, Refuse refuse) {
  const auto turn = std::make_shared<Turn>(background, std::move(stop), std::move(begin), std::move(refuse));
  turn->start(deadline);
  background->blocking_steps.post([turn] { turn->take(); });
}

Turn::Turn(std::shared_ptr<Background> background, std::stop_token stop, Begin begin, Refuse refuse)
    : background_(std::move(background)),
      stop_(std::move(stop)),
      begin_(std::move(begin)),
      refuse_(std::move(refuse)) {}

Turn::~Turn() {
  on_stop_.reset();  // first: it schedules
  background_->timers.cancel(*this);
}

void Turn::start(BootTime deadline) {
  if (deadline == never && !stop_.stop_possible()) return;
  const std::lock_guard lock(starting_);
  // First, because it throws if there is no thread to be had; a stop request must not.
  background_->timers.schedule(*this, std::min(deadline, never - BootClock::duration(1)));
  if (stop_.stop_possible()) on_stop_.emplace(stop_, Wake{this});
}

void Turn::Wake::operator()() const {
  turn->background_->timers.schedule(*turn, BootTime());
}

bool Turn::ends_now() {
  if (ended_.exchange(true, std::memory_order_acq_rel)) return false;
  on_stop_.reset();
  return true;
}

void Turn::take() {
  if (!ends_now()) return;
  background_->timers.cancel(*this);
  refuse_ = nullptr;
  std::exchange(begin_, nullptr)();
}

BootTime Turn::on_time(BootTime) {
  {
    const std::lock_guard lock(starting_);
  }
  if (!ends_now()) return never;
  begin_ = nullptr;
  std::exchange(refuse_, nullptr)(
      stop_.stop_requested()
          ? Error(ErrorCode::Aborted, "the operation was stopped before it began")
          : Error(ErrorCode::NetworkTimeout, "the operation's time was up before there was a thread for it")
                .with(Effect::none));
  return never;
}

}  // namespace holdfast::runtime
