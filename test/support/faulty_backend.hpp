#pragma once

#include <deque>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <optional>

namespace holdfast::test {

/// An engine whose wire is bad: each planned fault strikes one operation of its kind, in order.
class FaultyBackend final : public LockBackend {
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
  /// How often the operation was called, struck or not.
  [[nodiscard]] int calls(Operation operation) const;

  /// The last release that it was asked for.
  [[nodiscard]] ReleaseRequest last_release() const;

  [[nodiscard]] Capabilities capabilities() const noexcept override {
    auto capabilities = inner_->capabilities();
    capabilities.blocks = true;  // a fault that takes its time does so on the thread that asks
    return capabilities;
  }
  [[nodiscard]] std::string authority() const override { return inner_->authority(); }
  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override;
  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override;
  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override;
  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override;
  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override;
  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override;
  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime deadline,
                                             std::stop_token stop) override {
    return inner_->watch(key, deadline, std::move(stop));
  }
  void begin_watch(const LockKey& key, BootTime deadline, std::stop_token stop,
                   Done<std::unique_ptr<Watch>> done) override {
    inner_->begin_watch(key, deadline, std::move(stop), std::move(done));
  }

 private:
  struct Plan {
    std::deque<Fault> faults;
    int calls = 0;
  };
  Plan& plan_of(Operation operation) { return plans_[static_cast<std::size_t>(operation)]; }
  Fault next(Operation operation);
  template <class T, class Send>
  void strike(Operation operation, BootTime deadline, Done<T> done, Send send);

  std::shared_ptr<LockBackend> inner_;
  mutable std::mutex mutex_;
  Plan plans_[3];
  std::optional<ReleaseRequest> last_release_;
};

}  // namespace holdfast::test
