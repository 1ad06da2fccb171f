#include <holdfast/observer.hpp>
#include <string>
#include <type_traits>

#include "runtime/callers_context.hpp"

namespace holdfast {
namespace {

/// The observer of a backend's operations, and the backend's name. Shared with operations under way, which
/// may outlive the backend.
struct Audience {
  std::shared_ptr<Observer> observer;
  std::string backend;
};

/// The reason of each outcome that is not a success, for all operations.
struct ReasonOf {
  Reason operator()(const Refused&) const noexcept { return Reason::locked; }
  /// The distinction is SyncGuard's: a lock of another id under this name is not the one that was meant.
  Reason operator()(Absence absence) const noexcept {
    return absence == Absence::expired ? Reason::expired : Reason::not_found;
  }
  Reason operator()(const NoRecord&) const noexcept { return Reason::not_found; }
  Reason operator()(const AlreadyThere&) const noexcept { return Reason::exists; }
  Reason operator()(const QuotaReached&) const noexcept { return Reason::quota; }
  Reason operator()(const VersionConflict&) const noexcept { return Reason::conflict; }
  Reason operator()(const FenceRefused& refused) const noexcept {
    return refused.why == ErrorCode::StaleFence ? Reason::stale_fence : Reason::wrong_lock;
  }
  Reason operator()(const NotClaimable& refused) const noexcept {
    const auto& queue = refused.record.queue;
    return queue && queue->place == QueuePlace::leased ? Reason::locked : Reason::conflict;
  }
  template <class Success>
  Reason operator()(const Success&) const noexcept {
    return Reason::none;
  }
};

template <class... Alternatives>
Reason reason_of(const std::variant<Alternatives...>& outcome) noexcept {
  return std::visit(ReasonOf(), outcome);
}
template <class Found>
Reason reason_of(const std::optional<Found>& found) noexcept {
  return found ? Reason::none : Reason::not_found;
}
Reason reason_of(bool locked) noexcept {
  return locked ? Reason::none : Reason::not_found;
}
Reason reason_of(const EndedLease& ended) noexcept {
  return reason_of(ended.end);
}
/// Lists and counts, which always succeed.
template <class Page>
  requires std::is_class_v<Page> || std::is_same_v<Page, std::size_t>
Reason reason_of(const Page&) noexcept {
  return Reason::none;
}

/// Details that only the answer contains.
void add_details(const AcquireOutcome& outcome, Occurrence& end) noexcept {
  if (const auto* granted = std::get_if<Granted>(&outcome)) {
    end.fence = granted->fence;
  } else {
    // The requested label is not that of the holder.
    const auto& holder = std::get<Refused>(outcome).holder;
    end.holder = holder ? std::string_view(holder->str()) : std::string_view();
  }
}
void add_details(const std::optional<LockRecord>& found, Occurrence& end) noexcept {
  if (!found) return;
  end.key = found->key.str();
  end.lock_id = found->id.str();
  end.fence = found->fence;
  if (found->holder) end.holder = found->holder->str();
}
template <class Outcome>
void add_details(const Outcome&, Occurrence&) noexcept {}

/// One pending operation. The names in its request are copied, because the request moves to the engine.
class Observation {
 public:
  template <class Request>
  Observation(std::shared_ptr<const Audience> audience, const Request& request)
      : audience_(std::move(audience)),
        activity_(request.activity()),
        context_(runtime::context_of_caller(*audience_->observer)) {
    RequestSubject subject = request.subject();
    key_ = subject.key;
    lock_id_ = subject.lock_id;
    fence_ = subject.fence;
    broken_because_ = subject.broken_because;
    holder_ = std::move(subject.holder);
    audience_->observer->begun(activity_, audience_->backend);
    started_ = BootClock::now();
  }

  template <class Outcome>
  void end(const Result<Outcome>& result) const noexcept {
    Occurrence end{.activity = activity_,
                   .backend = audience_->backend,
                   .started = started_,
                   .ended = BootClock::now(),
                   .key = key_,
                   .lock_id = lock_id_,
                   .fence = fence_,
                   .broken_because = broken_because_,
                   .holder = holder_ ? std::string_view(holder_->str()) : std::string_view(),
                   .context = context_};
    if (result) {
      end.reason = reason_of(*result);
      add_details(*result, end);
    } else {
      end.error = result.error().code();
    }
    audience_->observer->ended(end);
  }

 private:
  std::shared_ptr<const Audience> audience_;
  Activity activity_;
  BootTime started_;
  std::string key_, lock_id_, broken_because_;
  std::optional<Fence> fence_;
  std::shared_ptr<const LockHolder> holder_;
  TraceContext context_;
};

template <class Derived, class Backend>
class Observed : public Intercepting<Derived, Backend> {
 public:
  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    using Outcome = typename Request::Outcome;
    if constexpr (requires { request.activity(); }) {
      done = Done<Outcome>::looked_at(
          std::move(done), [observation = Observation(audience_, request)](const Result<Outcome>& result) {
            observation.end(result);
          });
    }
    inner_->submit(std::move(request), std::move(stop), std::move(done));
  }
  void wait(Completion& completion) override { inner_->wait(completion); }

 protected:
  const std::shared_ptr<Backend> inner_;

 private:
  friend Derived;
  Observed(std::shared_ptr<Backend> inner, std::shared_ptr<Observer> observer, std::string_view name)
      : inner_(std::move(inner)),
        audience_(std::make_shared<const Audience>(Audience{std::move(observer), std::string(name)})) {}

  const std::shared_ptr<const Audience> audience_;
};

class ObservedLocks final : public Observed<ObservedLocks, LockBackend> {
 public:
  ObservedLocks(const std::shared_ptr<LockBackend>& inner, std::shared_ptr<Observer> observer)
      : Observed(inner, std::move(observer), inner->capabilities().backend) {}
  [[nodiscard]] Capabilities capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }
  [[nodiscard]] std::shared_ptr<IdleIo> idle_io() override { return inner_->idle_io(); }
};

class ObservedStorage final : public Observed<ObservedStorage, StorageBackend> {
 public:
  ObservedStorage(const std::shared_ptr<StorageBackend>& inner, std::shared_ptr<Observer> observer)
      : Observed(inner, std::move(observer), inner->name()) {}
  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] bool blocks() const noexcept override { return inner_->blocks(); }
  [[nodiscard]] WallTime now() const override { return inner_->now(); }
  [[nodiscard]] int process_mark() noexcept override { return inner_->process_mark(); }
};

}  // namespace

std::shared_ptr<LockBackend> with_observer(std::shared_ptr<LockBackend> backend,
                                           std::shared_ptr<Observer> observer) {
  if (!observer) return backend;
  return std::make_shared<ObservedLocks>(backend, std::move(observer));
}

std::shared_ptr<StorageBackend> with_observer(std::shared_ptr<StorageBackend> backend,
                                              std::shared_ptr<Observer> observer) {
  if (!observer) return backend;
  return std::make_shared<ObservedStorage>(backend, std::move(observer));
}

}  // namespace holdfast
