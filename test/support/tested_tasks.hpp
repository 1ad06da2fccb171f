#pragma once

#include <holdfast/asio/register.hpp>
#include <holdfast/asio/tasks.hpp>
#include <holdfast/tasks.hpp>
#include <memory>
#include <optional>

#include "support/asio_thread.hpp"

namespace holdfast::test {

// Tasks, Claim and FencedRegister, asked in one of two ways: by their own functions, or (with an AsioThread)
// by those of AsyncTasks, AsyncClaim and AsyncRegister. So that one suite can ask both.

class TestedClaim {
 public:
  explicit TestedClaim(Claim claim) : blocking_(std::move(claim)) {}
  TestedClaim(std::shared_ptr<AsioThread> asio, AsyncClaim claim)
      : asio_(std::move(asio)), async_(std::move(claim)) {}

  [[nodiscard]] explicit operator bool() const noexcept { return asio_ ? bool(async_) : bool(blocking_); }
  [[nodiscard]] Task task() const { return asio_ ? async_.task() : blocking_.task(); }
  [[nodiscard]] FencingToken token() const { return asio_ ? async_.token() : blocking_.token(); }
  [[nodiscard]] std::stop_token stopped() const { return asio_ ? async_.stopped() : blocking_.stopped(); }
  [[nodiscard]] bool cancelled() const { return asio_ ? async_.cancelled() : blocking_.cancelled(); }
  [[nodiscard]] bool gone() const { return asio_ ? async_.gone() : blocking_.gone(); }

  Task update_status(TaskStatus status, const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.update_status(status, message);
    return asio_->await({}, [&](auto token) { return async_.update_status(status, message, token); });
  }
  Task set_variables(const Json& changes) {
    if (!asio_) return blocking_.set_variables(changes);
    return asio_->await({}, [&](auto token) { return async_.set_variables(changes, token); });
  }
  Task complete(const Json& result, const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.complete(result, message);
    return asio_->await({}, [&](auto token) { return async_.complete(result, message, token); });
  }
  Task fail(const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.fail(message);
    return asio_->await({}, [&](auto token) { return async_.fail(message, token); });
  }
  Task fail_with_result(const Json& result, const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.fail_with_result(result, message);
    return asio_->await({}, [&](auto token) { return async_.fail_with_result(result, message, token); });
  }
  bool release() {
    if (!asio_) return blocking_.release();
    return asio_->await({}, [&](auto token) { return async_.release(token); });
  }

 private:
  std::shared_ptr<AsioThread> asio_;
  Claim blocking_;
  AsyncClaim async_;
};

class TestedTasks {
 public:
  TestedTasks(std::shared_ptr<AsioThread> asio, Tasks tasks)
      : asio_(std::move(asio)), blocking_(std::move(tasks)) {}

  Task create(std::string_view owner, const NewTask& task = {}) {
    if (!asio_) return blocking_.create(owner, task);
    return asio_->await({}, [&](auto token) { return async().create(owner, task, token); });
  }
  Task get(std::string_view owner, std::string_view id) {
    if (!asio_) return blocking_.get(owner, id);
    return asio_->await({}, [&](auto token) { return async().get(owner, id, token); });
  }
  TaskPage list(std::string_view owner, const ListTasks& what = {}) {
    if (!asio_) return blocking_.list(owner, what);
    return asio_->await({}, [&](auto token) { return async().list(owner, what, token); });
  }
  OwnerPage owners(const ListTaskOwners& what = {}) {
    if (!asio_) return blocking_.owners(what);
    return asio_->await({}, [&](auto token) { return async().owners(what, token); });
  }
  Task update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.update_status(owner, id, status, message);
    return asio_->await({},
                        [&](auto token) { return async().update_status(owner, id, status, message, token); });
  }
  Task set_variables(std::string_view owner, std::string_view id, const Json& changes) {
    if (!asio_) return blocking_.set_variables(owner, id, changes);
    return asio_->await({}, [&](auto token) { return async().set_variables(owner, id, changes, token); });
  }
  Task set_result(std::string_view owner, std::string_view id, const Json& result) {
    if (!asio_) return blocking_.set_result(owner, id, result);
    return asio_->await({}, [&](auto token) { return async().set_result(owner, id, result, token); });
  }
  Task complete_with_result(std::string_view owner, std::string_view id, const Json& result,
                            const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.complete_with_result(owner, id, result, message);
    return asio_->await(
        {}, [&](auto token) { return async().complete_with_result(owner, id, result, message, token); });
  }
  Task fail(std::string_view owner, std::string_view id, const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.fail(owner, id, message);
    return asio_->await({}, [&](auto token) { return async().fail(owner, id, message, token); });
  }
  Task fail_with_result(std::string_view owner, std::string_view id, const Json& result,
                        const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.fail_with_result(owner, id, result, message);
    return asio_->await(
        {}, [&](auto token) { return async().fail_with_result(owner, id, result, message, token); });
  }
  Task cancel(std::string_view owner, std::string_view id, const std::optional<std::string>& message = {}) {
    if (!asio_) return blocking_.cancel(owner, id, message);
    return asio_->await({}, [&](auto token) { return async().cancel(owner, id, message, token); });
  }
  bool remove(std::string_view owner, std::string_view id) {
    if (!asio_) return blocking_.remove(owner, id);
    return asio_->await({}, [&](auto token) { return async().remove(owner, id, token); });
  }
  std::optional<Json> get_result(std::string_view owner, std::string_view id) {
    if (!asio_) return blocking_.get_result(owner, id);
    return asio_->await({}, [&](auto token) { return async().get_result(owner, id, token); });
  }
  std::optional<Task> wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout,
                           const std::function<bool(const Task&)>& until = {},
                           const std::stop_token& stop = {}) {
    if (!asio_) return blocking_.wait(owner, id, timeout, until, stop);
    return asio_->await(stop, [&](auto token) { return async().wait(owner, id, timeout, until, token); });
  }
  Task bind(std::string_view owner, std::string_view id, const FencingToken& fence) {
    if (!asio_) return blocking_.bind(owner, id, fence);
    return asio_->await({}, [&](auto token) { return async().bind(owner, id, fence, token); });
  }
  Task rebind(std::string_view owner, std::string_view id, const std::optional<FencingToken>& fence) {
    if (!asio_) return blocking_.rebind(owner, id, fence);
    return asio_->await({}, [&](auto token) { return async().rebind(owner, id, fence, token); });
  }
  Task rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                   const std::optional<FencingToken>& fence) {
    if (!asio_) return blocking_.rebind_from(authority, owner, id, fence);
    return asio_->await({},
                        [&](auto token) { return async().rebind_from(authority, owner, id, fence, token); });
  }
  TestedClaim claim(std::string_view owner, std::string_view id, const LockOptions& how = {},
                    const std::stop_token& stop = {}) {
    if (!asio_) return TestedClaim(blocking_.claim(owner, id, how, stop));
    return {asio_, asio_->await(stop, [&](auto token) { return async().claim(owner, id, how, token); })};
  }
  std::optional<TestedClaim> try_claim(std::string_view owner, std::string_view id,
                                       const LockOptions& how = {}) {
    if (!asio_) {
      auto claim = blocking_.try_claim(owner, id, how);
      return claim ? std::optional<TestedClaim>(*std::move(claim)) : std::nullopt;
    }
    auto claim = asio_->await({}, [&](auto token) { return async().try_claim(owner, id, how, token); });
    return claim ? std::optional<TestedClaim>(std::in_place, asio_, *std::move(claim)) : std::nullopt;
  }
  std::size_t cleanup_expired() {
    if (!asio_) return blocking_.cleanup_expired();
    return asio_->await({}, [&](auto token) { return async().cleanup_expired(token); });
  }

  [[nodiscard]] TestedTasks with_fence(const Guard& guard) const {
    return {asio_, blocking_.with_fence(guard)};
  }
  [[nodiscard]] TestedTasks with_fence(const FencingToken& token) const {
    return {asio_, blocking_.with_fence(token)};
  }
  [[nodiscard]] const std::optional<FencingToken>& token() const noexcept { return blocking_.token(); }
  [[nodiscard]] TestedTasks with_incarnation(std::string_view incarnation) const {
    return {asio_, asio_ ? async().with_incarnation(incarnation).blocking()
                         : blocking_.with_incarnation(incarnation)};
  }
  [[nodiscard]] StorageBackend& storage() const noexcept { return blocking_.storage(); }

 private:
  [[nodiscard]] AsyncTasks async() const { return {asio_->executor(), blocking_}; }

  std::shared_ptr<AsioThread> asio_;
  Tasks blocking_;
};

class TestedRegister {
 public:
  using Value = FencedRegister::Value;
  TestedRegister(std::shared_ptr<AsioThread> asio, FencedRegister fenced)
      : asio_(std::move(asio)), blocking_(std::move(fenced)) {}

  std::optional<Value> get() {
    if (!asio_) return blocking_.get();
    return asio_->await({}, [&](auto token) { return async().get(token); });
  }
  std::uint64_t put(std::string_view text, const FencingToken& fence) {
    if (!asio_) return blocking_.put(text, fence);
    return asio_->await({}, [&](auto token) { return async().put(text, fence, token); });
  }
  std::uint64_t put(std::string_view text, const Guard& guard) {
    if (!asio_) return blocking_.put(text, guard);
    return put(text, {.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()});
  }
  std::optional<Value> bind(const FencingToken& fence) {
    if (!asio_) return blocking_.bind(fence);
    return asio_->await({}, [&](auto token) { return async().bind(fence, token); });
  }
  bool rebind(const FencingToken& fence) {
    if (!asio_) return blocking_.rebind(fence);
    return asio_->await({}, [&](auto token) { return async().rebind(fence, token); });
  }

 private:
  [[nodiscard]] AsyncRegister async() const { return {asio_->executor(), blocking_}; }

  std::shared_ptr<AsioThread> asio_;
  FencedRegister blocking_;
};

}  // namespace holdfast::test
