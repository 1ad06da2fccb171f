#pragma once

#include <holdfast/done.hpp>
#include <utility>

namespace holdfast::core {

/// The blocking adapter: starts an operation and waits for its result. `start` gets the operation's Done;
/// `backend` is the LockBackend or StorageBackend that it was started on.
template <class T, class Backend, class Start>
Result<T> await(Backend& backend, Start&& start) {
  Slot<T> slot;
  std::forward<Start>(start)(Done<T>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  return *std::move(slot.result);
}

}  // namespace holdfast::core
