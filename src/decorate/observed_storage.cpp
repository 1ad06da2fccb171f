#include <holdfast/observer.hpp>

#include "decorate/observation.hpp"

namespace holdfast {
namespace {

using decorate::Audience;
using decorate::Observation;

/// What an outcome other than the asked-for means. One list for all operations.
struct ReasonOf {
  Reason operator()(const NoRecord&) const noexcept { return Reason::not_found; }
  Reason operator()(const AlreadyThere&) const noexcept { return Reason::exists; }
  Reason operator()(const QuotaReached&) const noexcept { return Reason::quota; }
  Reason operator()(const VersionConflict&) const noexcept { return Reason::conflict; }
  Reason operator()(const StaleFence&) const noexcept { return Reason::stale_fence; }
  Reason operator()(const WrongLock&) const noexcept { return Reason::wrong_lock; }
  Reason operator()(const Written&) const noexcept { return Reason::none; }
  Reason operator()(const Removed&) const noexcept { return Reason::none; }
  Reason operator()(const StoredRecord&) const noexcept { return Reason::none; }
};

std::optional<Fence> fence_in(const std::optional<FencingToken>& token) noexcept {
  return token ? std::optional(token->fence) : std::nullopt;
}

class ObservedStorage final : public StorageBackend {
 public:
  ObservedStorage(std::shared_ptr<StorageBackend> inner, std::shared_ptr<Observer> observer)
      : audience_(
            std::make_shared<const Audience>(Audience{std::move(observer), std::string(inner->name())})),
        inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] bool blocks() const noexcept override { return inner_->blocks(); }
  [[nodiscard]] std::int64_t now_ms() const override { return inner_->now_ms(); }

  void get(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    auto observed =
        Observation::observe(Observation(audience_, Activity::get_record, request.key.str()), std::move(done),
                             [](const std::optional<StoredRecord>& found, Occurrence& end) {
                               if (!found) end.reason = Reason::not_found;
                             });
    inner_->get(std::move(request), std::move(stop), std::move(observed));
  }

  void create(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    auto observed = writing(Activity::create_record, request.key, request.fence, std::move(done));
    inner_->create(std::move(request), std::move(stop), std::move(observed));
  }
  void put(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    auto observed = writing(Activity::put_record, request.key, request.fence, std::move(done));
    inner_->put(std::move(request), std::move(stop), std::move(observed));
  }
  void remove(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    auto observed = writing(Activity::remove_record, request.key, request.fence, std::move(done));
    inner_->remove(std::move(request), std::move(stop), std::move(observed));
  }
  void guard(GuardRecord request, std::stop_token stop, Done<GuardOutcome> done) override {
    auto observed = writing(Activity::guard_record, request.key, request.fence, std::move(done));
    inner_->guard(std::move(request), std::move(stop), std::move(observed));
  }
  void rebind(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    auto observed = writing(Activity::rebind_record, request.key, request.fence, std::move(done));
    inner_->rebind(std::move(request), std::move(stop), std::move(observed));
  }

  void list(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    auto observed = reading(Activity::list_records, request.prefix, std::move(done));
    inner_->list(std::move(request), std::move(stop), std::move(observed));
  }
  void list_owners(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    inner_->list_owners(std::move(request), std::move(stop),
                        reading(Activity::list_owners, {}, std::move(done)));
  }
  void cleanup_expired(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    inner_->cleanup_expired(request, std::move(stop),
                            reading(Activity::cleanup_records, {}, std::move(done)));
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const RecordKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return inner_->watch(key, deadline, std::move(stop));
  }
  void begin_watch(const RecordKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    inner_->begin_watch(key, deadline, std::move(stop), std::move(done));
  }
  void wait(Completion& completion) override { inner_->wait(completion); }

 private:
  template <class Outcome>
  [[nodiscard]] Done<Outcome> writing(Activity activity, const RecordKey& key,
                                      const std::optional<FencingToken>& token, Done<Outcome> done) const {
    Observation operation(audience_, activity, key.str());
    operation.fence = fence_in(token);
    return Observation::observe(
        std::move(operation), std::move(done),
        [](const Outcome& outcome, Occurrence& end) { end.reason = std::visit(ReasonOf(), outcome); });
  }

  /// Of operations that find whatever there is.
  template <class Found>
  [[nodiscard]] Done<Found> reading(Activity activity, std::string key, Done<Found> done) const {
    return Observation::observe(Observation(audience_, activity, std::move(key)), std::move(done),
                                [](const Found&, Occurrence&) {});
  }

  const std::shared_ptr<const Audience> audience_;
  const std::shared_ptr<StorageBackend> inner_;
};

}  // namespace

std::shared_ptr<StorageBackend> with_observer(std::shared_ptr<StorageBackend> backend,
                                              std::shared_ptr<Observer> observer) {
  if (!observer) return backend;
  return std::make_shared<ObservedStorage>(std::move(backend), std::move(observer));
}

}  // namespace holdfast
