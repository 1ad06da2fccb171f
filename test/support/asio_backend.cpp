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

  template <class Request>
  void call(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    using T = typename Request::Outcome;
    // Watching has a thread of the engine's already.
    if (!thread_.in_own_process() || std::is_same_v<T, std::unique_ptr<Watch>>) {
      return engine_->submit(std::move(request), std::move(stop), std::move(done));
    }
    auto& context = thread_.context();
    const auto cancellation = std::make_shared<StopToSlot>(context);
    async_call<T>(
        context.get_executor(),
        [&](std::stop_token inner, Done<T> answered) {
          if (stop.stop_requested()) cancellation->emit();
          engine_->submit(std::move(request), std::move(inner), std::move(answered));
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

class AsioLockBackend final : public Intercepting<AsioLockBackend, LockBackend> {
 public:
  explicit AsioLockBackend(std::shared_ptr<LockBackend> engine) : bridge_(std::move(engine)) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    return bridge_.engine().capabilities();
  }
  [[nodiscard]] std::string authority() const override { return bridge_.engine().authority(); }
  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    bridge_.call(std::move(request), std::move(stop), std::move(done));
  }

 private:
  Bridge<LockBackend> bridge_;
};

class AsioStorageBackend final : public Intercepting<AsioStorageBackend, StorageBackend> {
 public:
  explicit AsioStorageBackend(std::shared_ptr<StorageBackend> engine) : bridge_(std::move(engine)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return bridge_.engine().name(); }
  [[nodiscard]] bool blocks() const noexcept override { return bridge_.engine().blocks(); }
  [[nodiscard]] WallTime now() const override { return bridge_.engine().now(); }
  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    bridge_.call(std::move(request), std::move(stop), std::move(done));
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
