#include "locks/observed_hold.hpp"

namespace holdfast::locks {
namespace {

Reason reason_of(LossReason loss) noexcept {
  switch (loss) {
    case LossReason::unproven:
      return Reason::unproven;
    case LossReason::gone:
      return Reason::gone;
    case LossReason::max_hold:
      return Reason::max_hold;
  }
  return Reason::unproven;
}

}  // namespace

ObservedHold::ObservedHold(Observer* observer, const Subject& subject) noexcept
    : observer_(observer), subject_(subject) {
  if (observer_ == nullptr) return;
  observer_->begun(Activity::hold, subject_.backend);
  started_ = BootClock::now();
}

void ObservedHold::lost(LossReason reason) noexcept {
  end(reason_of(reason));
}

void ObservedHold::end(Reason reason) noexcept {
  if (observer_ == nullptr || ended_.exchange(true)) return;
  auto ended = occurrence(Activity::hold, started_);
  ended.reason = reason;
  observer_->ended(ended);
}

BootTime ObservedHold::renewal_begun() noexcept {
  if (observer_ == nullptr) return {};
  observer_->begun(Activity::renew, subject_.backend);
  return BootClock::now();
}

void ObservedHold::renewed(BootTime begun, const Result<ExtendOutcome>& answer) noexcept {
  if (observer_ == nullptr) return;
  auto ended = occurrence(Activity::renew, begun);
  if (!answer) {
    ended.error = answer.error().code();
  } else if (const auto* absence = std::get_if<Absence>(&*answer)) {
    ended.reason = *absence == Absence::expired ? Reason::expired : Reason::not_found;
  }
  observer_->ended(ended);
}

Occurrence ObservedHold::occurrence(Activity activity, BootTime started) const noexcept {
  return {.activity = activity,
          .backend = subject_.backend,
          .started = started,
          .ended = BootClock::now(),
          .key = subject_.key.str(),
          .lock_id = subject_.id.str(),
          .fence = subject_.fence,
          .holder = subject_.holder ? std::string_view(subject_.holder->str()) : std::string_view(),
          .context = subject_.context};
}

}  // namespace holdfast::locks
