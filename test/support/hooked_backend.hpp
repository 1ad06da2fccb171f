#pragma once

#include <functional>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace holdfast::test {

/// An engine every operation of which goes through a hook first, which sends it on when and where it wants.
class HookedBackend final : public LockBackend {
 public:
  using Hook = std::function<void(std::function<void()> send)>;

  struct Options {
    bool blocks = false;  ///< says so
    bool deaf = false;    ///< what is sent cannot be stopped any more
  };
  HookedBackend(std::shared_ptr<LockBackend> inner, Hook hook)
      : HookedBackend(std::move(inner), std::move(hook), Options{}) {}
  HookedBackend(std::shared_ptr<LockBackend> inner, Hook hook, Options options)
      : inner_(std::move(inner)), hook_(std::move(hook)), options_(options) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    auto capabilities = inner_->capabilities();
    capabilities.blocks = options_.blocks;
    return capabilities;
  }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }
  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    pass(&LockBackend::acquire, std::move(request), std::move(stop), std::move(done));
  }
  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    pass(&LockBackend::release, std::move(request), std::move(stop), std::move(done));
  }
  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    pass(&LockBackend::extend, std::move(request), std::move(stop), std::move(done));
  }
  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    pass(&LockBackend::is_locked, std::move(request), std::move(stop), std::move(done));
  }
  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    pass(&LockBackend::lookup, std::move(request), std::move(stop), std::move(done));
  }
  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    pass(&LockBackend::list, std::move(request), std::move(stop), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return inner_->watch(key, deadline, std::move(stop));
  }

 private:
  template <class Operation, class Request, class T>
  void pass(Operation operation, Request request, std::stop_token stop, Done<T> done) {
    if (options_.deaf) stop = {};
    hook_([inner = inner_, operation, request = std::move(request), stop = std::move(stop),
           done = std::make_shared<Done<T>>(std::move(done))] {
      std::invoke(operation, *inner, request, stop, std::move(*done));
    });
  }

  const std::shared_ptr<LockBackend> inner_;
  const Hook hook_;
  const Options options_;
};

/// A hook that can hold operations up.
class Gate {
 public:
  [[nodiscard]] HookedBackend::Hook hook() {
    return [this](std::function<void()> send) { pass(std::move(send)); };
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  /// Sends what was held up, from here.
  void open() {
    std::vector<std::function<void()>> held_up;
    {
      const std::lock_guard lock(mutex_);
      closed_ = false;
      held_up.swap(held_up_);
    }
    for (const auto& send : held_up) send();
  }
  [[nodiscard]] std::size_t held_up() const {
    const std::lock_guard lock(mutex_);
    return held_up_.size();
  }

 private:
  void pass(std::function<void()> send) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return held_up_.push_back(std::move(send));
    }
    send();
  }

  mutable std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::function<void()>> held_up_;
};

}  // namespace holdfast::test
