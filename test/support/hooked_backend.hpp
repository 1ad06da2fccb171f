#pragma once

#include <functional>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace holdfast::test {

/// An engine every operation of which goes through a hook first, which sends it on when and where it wants.
class HookedBackend final : public Intercepting<HookedBackend, LockBackend> {
 public:
  using Hook = std::function<void(std::function<void()> send)>;

  struct Options {
    bool blocks = false;  ///< reported in its capabilities
    bool deaf = false;    ///< a sent operation can no longer be stopped
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

  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    // Watching and following are not what is held up.
    if constexpr (std::is_same_v<Request, WatchRequest> || std::is_same_v<Request, FollowLocks>) {
      return inner_->submit(std::move(request), std::move(stop), std::move(done));
    }
    if (options_.deaf) stop = {};
    hook_([inner = inner_, request = std::move(request), stop = std::move(stop),
           done = std::make_shared<Done<typename Request::Outcome>>(std::move(done))] {
      inner->submit(request, stop, std::move(*done));
    });
  }

 private:
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
