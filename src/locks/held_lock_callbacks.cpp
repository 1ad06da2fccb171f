// The callbacks of a guard's holder: user code, which runs on threads where it may block.

#include "locks/held_lock.hpp"
#include "locks/lock_store.hpp"

namespace holdfast {

void HeldLock::on_lost(std::function<void(LossReason)> callback) {
  bool too_late = false;
  {
    const std::lock_guard lock(mutex_);
    on_lost_.swap(callback);  // the old one ends after the mutex is free
    too_late = lease_.lost().has_value();
  }
  if (too_late) announce_loss();
}

void HeldLock::on_at_risk(std::function<void(bool)> callback) {
  auto shared = callback ? std::make_shared<locks::RiskReports::Callback>(std::move(callback)) : nullptr;
  bool is_due = false;
  {
    const std::lock_guard lock(mutex_);
    risk_reports_.swap(shared);  // the old one ends after the mutex is free
    is_due = hold_ == Hold::held && !lease_.lost() && risk_reports_.begin(lease_.at_risk());
  }
  if (is_due) announce_risk();
}

void HeldLock::on_release_error(std::function<void(const Error&)> callback) {
  const std::lock_guard lock(mutex_);
  on_release_error_.swap(callback);  // the old one ends after the mutex is free
}

void HeldLock::announce_loss() {
  store_->threads->user_code.post([self = background_self()] {
    std::function<void(LossReason)> callback;
    LossReason reason{};
    {
      const std::lock_guard lock(self->mutex_);
      if (self->hold_ != Hold::held) return;
      callback = std::exchange(self->on_lost_, nullptr);
      reason = *self->lease_.lost();
      ++self->announcers_;
    }
    self->loss_.request_stop();
    self->tell_change();
    try {
      if (callback) callback(reason);
    } catch (...) {
      self->store_->log_debug("an on_lost callback threw an exception");
    }
    callback = nullptr;
    {
      const std::lock_guard lock(self->mutex_);
      --self->announcers_;
    }
    self->tell_change();
  });
}

void HeldLock::announce_risk() {
  store_->threads->user_code.post([self = background_self()] {
    {
      const std::lock_guard lock(self->mutex_);
      ++self->announcers_;
    }
    for (;;) {
      std::shared_ptr<locks::RiskReports::Callback> callback;
      bool at_risk = false;
      {
        const std::lock_guard lock(self->mutex_);
        at_risk = self->lease_.at_risk();
        const bool ended = self->hold_ != Hold::held || self->lease_.lost();
        callback = self->risk_reports_.next(at_risk, ended);
      }
      if (!callback) break;
      try {
        (*callback)(at_risk);
      } catch (...) {
        self->store_->log_debug("an on_at_risk callback threw an exception");
      }
    }
    {
      const std::lock_guard lock(self->mutex_);
      --self->announcers_;
    }
    self->tell_change();
  });
}

void HeldLock::report(const Error& error, std::function<void(const Error&)> callback) noexcept {
  if (!callback) {
    LockStore::tell_unreleased(store_->log, error);
    return;
  }
  auto call = [self = background_self(), callback = std::move(callback), error] {
    try {
      callback(error);
    } catch (...) {
      self->store_->log_debug("an on_release_error callback threw an exception");
    }
  };
  if (runtime::WorkerPool::on_library_thread()) {
    store_->threads->user_code.post(std::move(call));
  } else {
    call();
  }
}

}  // namespace holdfast
