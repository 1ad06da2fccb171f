#include "support/asio_backend.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/post.hpp>
#include <functional>
#include <holdfast/asio/call.hpp>
#include <utility>

#include "support/asio_thread.hpp"
#include "support/stop_to_slot.hpp"

namespace holdfast::test {
namespace {

template <class T>
Result<T> result_of(const std::exception_ptr& error, T value) {
  if (!error) return value;
  try {
    std::rethrow_exception(error);
  } catch (const Error& thrown) {
    return thrown;
  }
}

template <class Engine>
class Bridge {
 public:
  explicit Bridge(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  [[nodiscard]] Engine& engine() const noexcept { return *engine_; }

  /// `operation` is a member function of the engine.
  template <class T, class Operation, class Request>
  void call(Operation operation, Request request, std::stop_token stop, Done<T> done) {
    if (!thread_.is_home()) {
      return std::invoke(operation, *engine_, std::move(request), std::move(stop), std::move(done));
    }
    auto& context = thread_.context();
    const auto cancellation = std::make_shared<StopToSlot>(context);
    async_call<T>(
        context.get_executor(),
        [&](std::stop_token inner, Done<T> answered) {
          if (stop.stop_requested()) cancellation->emit();
          std::invoke(operation, *engine_, std::move(request), std::move(inner), std::move(answered));
        },
        asio::bind_cancellation_slot(
            cancellation->slot(),
            [cancellation, done = std::move(done)](const std::exception_ptr& error, T value) mutable {
              cancellation->end();
              done(result_of<T>(error, std::move(value)));
            }));
    if (stop.stop_possible()) {
      asio::post(context, [cancellation, stop = std::move(stop)] { cancellation->listen(stop); });
    }
  }

 private:
  AsioThread thread_;
  std::shared_ptr<Engine> engine_;  ///< ends first: with it, what is pending
};

class AsioLockBackend final : public LockBackend {
 public:
  explicit AsioLockBackend(std::shared_ptr<LockBackend> engine) : bridge_(std::move(engine)) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    return bridge_.engine().capabilities();
  }
  [[nodiscard]] std::string authority() const override { return bridge_.engine().authority(); }
  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    bridge_.call(&LockBackend::acquire, std::move(request), std::move(stop), std::move(done));
  }
  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    bridge_.call(&LockBackend::release, std::move(request), std::move(stop), std::move(done));
  }
  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    bridge_.call(&LockBackend::extend, std::move(request), std::move(stop), std::move(done));
  }
  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    bridge_.call(&LockBackend::is_locked, std::move(request), std::move(stop), std::move(done));
  }
  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    bridge_.call(&LockBackend::lookup, std::move(request), std::move(stop), std::move(done));
  }
  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    bridge_.call(&LockBackend::list, std::move(request), std::move(stop), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return bridge_.engine().watch(key, deadline, std::move(stop));
  }
  void begin_watch(const LockKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    bridge_.engine().begin_watch(key, deadline, std::move(stop), std::move(done));
  }

 private:
  Bridge<LockBackend> bridge_;
};

class AsioStorageBackend final : public StorageBackend {
 public:
  explicit AsioStorageBackend(std::shared_ptr<StorageBackend> engine) : bridge_(std::move(engine)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return bridge_.engine().name(); }
  [[nodiscard]] bool blocks() const noexcept override { return bridge_.engine().blocks(); }
  [[nodiscard]] std::int64_t now_ms() const override { return bridge_.engine().now_ms(); }
  void get(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    bridge_.call(&StorageBackend::get, std::move(request), std::move(stop), std::move(done));
  }
  void create(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    bridge_.call(&StorageBackend::create, std::move(request), std::move(stop), std::move(done));
  }
  void put(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    bridge_.call(&StorageBackend::put, std::move(request), std::move(stop), std::move(done));
  }
  void remove(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    bridge_.call(&StorageBackend::remove, std::move(request), std::move(stop), std::move(done));
  }
  void guard(GuardRecord request, std::stop_token stop, Done<GuardOutcome> done) override {
    bridge_.call(&StorageBackend::guard, std::move(request), std::move(stop), std::move(done));
  }
  void rebind(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    bridge_.call(&StorageBackend::rebind, std::move(request), std::move(stop), std::move(done));
  }
  void list(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    bridge_.call(&StorageBackend::list, std::move(request), std::move(stop), std::move(done));
  }
  void list_owners(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    bridge_.call(&StorageBackend::list_owners, std::move(request), std::move(stop), std::move(done));
  }
  void cleanup_expired(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    bridge_.call(&StorageBackend::cleanup_expired, std::move(request), std::move(stop), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(const RecordKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return bridge_.engine().watch(key, deadline, std::move(stop));
  }
  void begin_watch(const RecordKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    bridge_.engine().begin_watch(key, deadline, std::move(stop), std::move(done));
  }

 private:
  Bridge<StorageBackend> bridge_;
};

}  // namespace

std::shared_ptr<LockBackend> through_asio(std::shared_ptr<LockBackend> engine) {
  return std::make_shared<AsioLockBackend>(std::move(engine));
}
std::shared_ptr<StorageBackend> through_asio(std::shared_ptr<StorageBackend> engine) {
  return std::make_shared<AsioStorageBackend>(std::move(engine));
}

}  // namespace holdfast::test
