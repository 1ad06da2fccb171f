#include <holdfast/observer.hpp>

#include "decorate/observation.hpp"

namespace holdfast {
namespace {

using decorate::Audience;
using decorate::Observation;

Reason reason_of(Absence absence) noexcept {
  // As SyncGuard tells them apart: another's lock under this name is not the one that was meant.
  return absence == Absence::expired ? Reason::expired : Reason::not_found;
}

class ObservedLocks final : public LockBackend {
 public:
  ObservedLocks(std::shared_ptr<LockBackend> inner, std::shared_ptr<Observer> observer)
      : audience_(std::make_shared<const Audience>(
            Audience{std::move(observer), std::string(inner->capabilities().backend)})),
        inner_(std::move(inner)) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }

  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    auto observed =
        Observation::observe(Observation(audience_, Activity::acquire, request.key.str(), request.id),
                             std::move(done), [](const AcquireOutcome& outcome, Occurrence& end) {
                               if (const auto* granted = std::get_if<Granted>(&outcome)) {
                                 end.fence = granted->fence;
                               } else {
                                 end.reason = Reason::locked;
                               }
                             });
    inner_->acquire(std::move(request), std::move(stop), std::move(observed));
  }

  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    auto operation =
        about(request.broken_because.empty() ? Activity::release : Activity::break_lock, request.lock);
    operation.broken_because = request.broken_because;
    inner_->release(std::move(request), std::move(stop), changing(std::move(operation), std::move(done)));
  }

  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    auto operation = about(Activity::extend, request.lock);
    inner_->extend(std::move(request), std::move(stop), changing(std::move(operation), std::move(done)));
  }

  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    auto observed = Observation::observe(Observation(audience_, Activity::is_locked, request.key.str()),
                                         std::move(done), [](bool locked, Occurrence& end) {
                                           if (!locked) end.reason = Reason::not_found;
                                         });
    inner_->is_locked(std::move(request), std::move(stop), std::move(observed));
  }

  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    const auto* id = std::get_if<LockId>(&request.what);
    auto operation = id != nullptr
                         ? Observation(audience_, Activity::lookup, {}, *id)
                         : Observation(audience_, Activity::lookup, std::get<LockKey>(request.what).str());
    auto observed = Observation::observe(std::move(operation), std::move(done),
                                         [](const std::optional<LockRecord>& found, Occurrence& end) {
                                           if (!found) {
                                             end.reason = Reason::not_found;
                                             return;
                                           }
                                           end.key = found->key.str();
                                           end.lock_id = found->id.str();
                                           end.fence = found->fence;
                                         });
    inner_->lookup(std::move(request), std::move(stop), std::move(observed));
  }

  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    auto observed = Observation::observe(Observation(audience_, Activity::list_locks), std::move(done),
                                         [](const LockPage&, Occurrence&) {});
    inner_->list(std::move(request), std::move(stop), std::move(observed));
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return inner_->watch(key, deadline, std::move(stop));
  }
  void begin_watch(const LockKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    inner_->begin_watch(key, deadline, std::move(stop), std::move(done));
  }
  [[nodiscard]] std::shared_ptr<IdleIo> idle_io() override { return inner_->idle_io(); }
  void wait(Completion& completion) override { inner_->wait(completion); }

 private:
  [[nodiscard]] Observation about(Activity activity, const LockRef& lock) const {
    return {audience_, activity, lock.key ? lock.key->str() : std::string(), lock.id};
  }

  /// Of release and extend: it was done, or there was nothing to do it to.
  template <class Outcome>
  [[nodiscard]] static Done<Outcome> changing(Observation operation, Done<Outcome> done) {
    return Observation::observe(std::move(operation), std::move(done),
                                [](const Outcome& outcome, Occurrence& end) {
                                  if (const auto* absence = std::get_if<Absence>(&outcome))
                                    end.reason = reason_of(*absence);
                                });
  }

  const std::shared_ptr<const Audience> audience_;
  const std::shared_ptr<LockBackend> inner_;
};

}  // namespace

std::shared_ptr<LockBackend> with_observer(std::shared_ptr<LockBackend> backend,
                                           std::shared_ptr<Observer> observer) {
  if (!observer) return backend;
  return std::make_shared<ObservedLocks>(std::move(backend), std::move(observer));
}

}  // namespace holdfast
