#pragma once

#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "flow/flow.hpp"
#include "flow/op.hpp"
#include "sys/process.hpp"
#include "tasks/store.hpp"

namespace holdfast::tasks {

/// One operation of the contract as a step of a flow: `co_await ask(flow, storage, &StorageBackend::get, …)`
/// gives its Result.
template <class T, class Request>
[[nodiscard]] auto ask(const flow::Flow& flow, const std::shared_ptr<StorageBackend>& storage,
                       void (StorageBackend::*operation)(Request, std::stop_token, Done<T>),
                       std::type_identity_t<Request> request, std::stop_token stop) {
  const BootTime deadline = request.deadline;
  return flow.step<T>(
      storage, stop, deadline,
      [&engine = *storage, operation, request = std::move(request), stop](Done<T> done) mutable {
        (engine.*operation)(std::move(request), std::move(stop), std::move(done));
      });
}

/// One call of an operation on a store: how it waits, what stops it, and what its writes carry. A value, so
/// that the operation owns it.
struct Call {
  flow::Flow flow;
  std::shared_ptr<TaskStore> store;
  std::stop_token stop;
  std::optional<FencingToken> fence;
  /// Of the one task that is meant, though another may have its id by now; empty: whichever is there.
  std::string incarnation;

  template <class T, class Request>
  [[nodiscard]] auto ask(void (StorageBackend::*operation)(Request, std::stop_token, Done<T>),
                         std::type_identity_t<Request> request) const {
    return tasks::ask(flow, store->storage, operation, std::move(request), stop);
  }
};

template <class T>
T run(flow::Op<T> operation) {
  return flow::Op<T>::run(std::move(operation)).value_or_throw();
}

/// In a forked child, where nothing would ever go on with it, it is not begun.
template <class T>
void start(const flow::Background& background, flow::Op<T> operation, Done<T> done) {
  if (!background.blocking_steps.is_home()) return done(sys::used_after_fork());
  flow::Op<T>::start(std::move(operation), std::move(done));
}

}  // namespace holdfast::tasks
