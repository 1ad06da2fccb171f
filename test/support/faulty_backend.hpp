#pragma once

#include <deque>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

namespace holdfast::test {

/// An engine with a faulty connection: each planned fault affects one operation of its kind, in order.
class FaultyBackend final : public Intercepting<FaultyBackend, LockBackend> {
 public:
  enum class Operation { acquire, release, extend };
  enum class Fault {
    hangs_for_a_second,  ///< works, but late
    none,                ///< this one works
    not_sent,            ///< fails, and the engine never saw it
    answer_lost,         ///< the engine did it, the caller gets an error
    refused_auth,        ///< fails with a code that is not transient
    never_answered       ///< the engine did it; the answer comes at the operation's deadline as an error
  };

  explicit FaultyBackend(std::shared_ptr<LockBackend> inner);

  void plan(Operation operation, Fault fault, int times = 1);
  /// How often the operation was called, with or without a fault.
  [[nodiscard]] int calls(Operation operation) const;
  /// When it was called first, or the epoch.
  [[nodiscard]] BootTime first_call(Operation operation) const;

  /// The last release that it was asked for.
  [[nodiscard]] ReleaseRequest last_release() const;

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    auto capabilities = inner_->capabilities();
    capabilities.blocks = true;  // a fault that takes its time does so on the thread that asks
    return capabilities;
  }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }

  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    if constexpr (std::is_same_v<Request, ReleaseRequest>) {
      const std::lock_guard lock(mutex_);
      last_release_ = request;
    }
    const BootTime deadline = request.deadline;
    const auto send = [&](Done<typename Request::Outcome> to) {
      inner_->submit(std::move(request), std::move(stop), std::move(to));
    };
    switch (next<Request>()) {
      case Fault::hangs_for_a_second:
        std::this_thread::sleep_for(std::chrono::seconds(1));
        return send(std::move(done));
      case Fault::none:
        return send(std::move(done));
      case Fault::not_sent:
        return done(Error(ErrorCode::ServiceUnavailable, "planned: not sent"));
      case Fault::refused_auth:
        return done(Error(ErrorCode::AuthFailed, "planned: refused"));
      case Fault::answer_lost:
        send([](const Result<typename Request::Outcome>&) {});
        return done(Error(ErrorCode::ServiceUnavailable, "planned: answer lost"));
      case Fault::never_answered:
        send([](const Result<typename Request::Outcome>&) {});
        while (BootClock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return done(Error(ErrorCode::NetworkTimeout, "planned: never answered"));
    }
  }

 private:
  struct Plan {
    std::deque<Fault> faults;
    int calls = 0;
    BootTime first_call{};
  };
  Plan& plan_of(Operation operation) { return plans_[static_cast<std::size_t>(operation)]; }
  Fault next(Operation operation);
  template <class Request>
  Fault next() {
    if constexpr (std::is_same_v<Request, AcquireRequest>) return next(Operation::acquire);
    if constexpr (std::is_same_v<Request, ReleaseRequest>) return next(Operation::release);
    if constexpr (std::is_same_v<Request, ExtendRequest>) return next(Operation::extend);
    return Fault::none;
  }

  std::shared_ptr<LockBackend> inner_;
  mutable std::mutex mutex_;
  Plan plans_[3];
  std::optional<ReleaseRequest> last_release_;
};

}  // namespace holdfast::test
