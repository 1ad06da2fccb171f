#pragma once

#include <holdfast/done.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sys/callers_context.hpp"

namespace holdfast::decorate {

/// Who is told of a backend's operations, and what the backend is called. Shared with operations under way,
/// which may outlive the backend.
struct Audience {
  std::shared_ptr<Observer> observer;
  std::string backend;
};

/// One operation under way. What it is about is copied, because its request goes to the engine.
class Observation {
 public:
  Observation(std::shared_ptr<const Audience> audience, Activity activity, std::string key = {},
              std::optional<LockId> lock_id = std::nullopt)
      : audience_(std::move(audience)),
        activity_(activity),
        key_(std::move(key)),
        lock_id_(lock_id),
        context_(sys::context_of_caller(*audience_->observer)) {
    audience_->observer->begun(activity, audience_->backend);
    started_ = BootClock::now();
  }

  std::optional<Fence> fence = std::nullopt;
  std::string broken_because = {};

  /// `read(outcome, occurrence)` says what an answer means.
  template <class T, class Read>
  [[nodiscard]] static Done<T> observe(Observation operation, Done<T> done, Read read) {
    return Done<T>::looked_at(std::move(done),
                              [operation = std::move(operation), read](const Result<T>& result) {
                                auto end = operation.occurrence();
                                if (result) {
                                  read(*result, end);
                                } else {
                                  end.error = result.error().code();
                                }
                                operation.audience_->observer->ended(end);
                              });
  }

 private:
  [[nodiscard]] Occurrence occurrence() const noexcept {
    return {.activity = activity_,
            .backend = audience_->backend,
            .started = started_,
            .ended = BootClock::now(),
            .key = key_,
            .lock_id = lock_id_ ? lock_id_->str() : std::string_view(),
            .fence = fence,
            .broken_because = broken_because,
            .context = context_};
  }

  std::shared_ptr<const Audience> audience_;
  Activity activity_;
  BootTime started_;
  std::string key_;
  std::optional<LockId> lock_id_;
  TraceContext context_;
};

}  // namespace holdfast::decorate
