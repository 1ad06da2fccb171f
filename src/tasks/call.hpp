#pragma once

#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "os/process.hpp"
#include "runtime/flow.hpp"
#include "runtime/op.hpp"
#include "tasks/address.hpp"
#include "tasks/store.hpp"

namespace holdfast::tasks {

/// One call of an operation on a store: how it waits, its stop token and the fence of its writes. A value, so
/// that the operation owns it.
struct Call {
  runtime::Flow flow;
  std::shared_ptr<TaskStore> store;
  std::stop_token stop;
  std::optional<FencingToken> fence;
  /// Names the one task that is meant, though another may have its id by now; empty: any task with the id.
  std::string incarnation;
  /// The name under which the tasks of a queue are stored: then the owners of operations do not count.
  std::string reserved_owner = {};

  /// The task of this owner, or of the queue.
  [[nodiscard]] Result<Address> address(std::string_view owner, std::string id) const {
    if (!reserved_owner.empty()) return Address::reserved(reserved_owner, std::move(id));
    return Address::of(owner, std::move(id), store->options.allow_anonymous);
  }

  template <class Request>
  [[nodiscard]] auto ask(Request&& request) const {
    return flow.ask(store->storage, std::forward<Request>(request), stop);
  }
};

template <class T>
T run(runtime::Op<T> operation) {
  return runtime::Op<T>::run(std::move(operation)).value_or_throw();
}

/// Not begun in a forked child, where no thread would ever resume it.
template <class T>
void start(const runtime::Runtime& threads, runtime::Op<T> operation, Done<T> done) {
  if (!threads.in_own_process()) return done(os::used_after_fork());
  runtime::Op<T>::start(std::move(operation), std::move(done));
}

}  // namespace holdfast::tasks
